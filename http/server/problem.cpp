#include "http/server/problem.hpp"

#include <algorithm>

#include "core/base/json_writer.hpp"

namespace atl::http {
namespace {

using base::Errc;

// What a client reads where the error brought no sentence of its own.
std::string_view default_detail(Errc code) noexcept {
    switch (code) {
        case Errc::not_found:
            return "There is no such resource.";
        case Errc::unauthorized:
            return "The request carries no key. Send the API key as `Authorization: Bearer KEY` or "
                   "`X-API-Key: KEY`.";
        case Errc::invalid_authorization:
            return "The field `Authorization` is not of the form `Bearer KEY`.";
        case Errc::invalid_key:
            return "The request carries a key that this server does not know: it is mistyped, revoked, or of "
                   "another server. The server's own key is in `api-key` of its data directory, unless "
                   "ATOLL_API_KEY sets it; `atolld keys list` shows the others.";
        case Errc::invalid_token:
            return "The token is damaged or of another server. POST /v1/conversations/{id}/tokens or "
                   "/v1/sandboxes/{id}/tokens makes a new one.";
        case Errc::token_expired:
            return "The token's time is over; fetch a new one.";
        case Errc::token_mismatch:
            return "The token is for another conversation or sandbox.";
        case Errc::token_scope:
            return "No token opens this route: it needs an API key.";
        case Errc::key_restricted:
            return "This key is for the conversations of one user; the route needs a key without a user.";
        case Errc::user_not_allowed:
            return "This key belongs to another user; leave `userId` out or name that user.";
        case Errc::port_not_public:
            return "This preview does not show that port; `preview.ports` of its conversation lists those "
                   "that it "
                   "does.";
        case Errc::preview_private:
            return "This preview is private: open it with the `url` of a token of scope `preview`.";
        case Errc::turn_in_progress:
            return "A turn is open; wait for its `done` or interrupt it.";
        case Errc::no_turn:
            return "No turn is open.";
        case Errc::conversation_ended:
            return "The conversation has ended.";
        case Errc::conversation_starting:
            return "The conversation is starting; try again in a moment.";
        case Errc::conversation_paused:
            return "A pause came before the sandbox was ready; resume again if that is still wanted.";
        case Errc::idempotency_key_reused:
            return "This Idempotency-Key came before with another content.";
        case Errc::capacity:
            return "The server is full; try again later.";
        case Errc::too_many_requests:
            return "These are too many requests; try again after Retry-After.";
        case Errc::too_many_connections:
            return "This address has too many connections; close some or use fewer.";
        case Errc::too_many_streams:
            return "There are too many streams; close some or share one.";
        case Errc::too_many_conversations:
            return "This user has too many conversations; delete some.";
        case Errc::executor_unavailable:
            return "This executor is not available here; GET /v1/executors says why.";
        case Errc::execution_ended:
            return "The execution has ended.";
        case Errc::call_answered:
            return "This call has been answered already.";
        case Errc::too_many_executions:
            return "This user has too many executions; try again after Retry-After.";
        case Errc::shutting_down:
            return "The server is stopping; try again in a moment.";
        case Errc::internal:
            return "The server has a defect; its log tells more under this requestId.";
        default:
            return "";
    }
}

/// The member of the body that errors of this code are always about.
std::string_view default_pointer(Errc code) noexcept {
    switch (code) {
        case Errc::unknown_agent:
            return "/agent";
        case Errc::invalid_env:
            return "/env";
        case Errc::invalid_cwd:
            return "/cwd";
        case Errc::network_not_allowed:
            return "/network";
        default:
            return "";
    }
}

/// RFC 6750 section 3: `error` tells a client that what it sent is worthless; a request without credentials
/// gets none.
std::string challenge(const base::Error& error) {
    const bool was_wrong = error.code() != Errc::unauthorized;
    return std::string("Bearer realm=\"atoll\"") + (was_wrong ? ", error=\"invalid_token\"" : "");
}

// When the error itself does not know: after a moment, where it passes by itself and nothing was begun.
std::chrono::seconds retry_after(const base::Error& error) noexcept {
    constexpr std::chrono::seconds k_moment{5};
    if (std::ranges::any_of(error.members(), [](const auto& member) { return member.first == "begun"; }))
        return std::chrono::seconds{0};
    const unsigned status = status_of(error.code());
    const bool passes = status == 429 || error.code() == Errc::capacity ||
                        error.code() == Errc::too_many_processes || error.code() == Errc::shutting_down;
    if (error.retry_after().count() > 0 || !passes)
        return error.retry_after();
    return k_moment;
}

}  // namespace

unsigned status_of(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_json:
        case Errc::invalid_utf8:
        case Errc::invalid_request:
            return 400;
        case Errc::invalid_field:
        case Errc::unknown_field:
        case Errc::unknown_agent:
        case Errc::invalid_env:
        case Errc::invalid_cwd:
        case Errc::idempotency_key_reused:
        case Errc::invalid_path:
        case Errc::invalid_archive:
            return 422;
        case Errc::network_not_allowed:
        case Errc::limit_not_allowed:
        case Errc::origin_not_allowed:
        case Errc::token_mismatch:
        case Errc::token_scope:
        case Errc::key_restricted:
        case Errc::read_only_token:
        case Errc::user_not_allowed:
        case Errc::outside_workspace:
        case Errc::permission_denied:
        case Errc::port_not_public:
        case Errc::preview_private:
            return 403;
        case Errc::not_found:
        case Errc::file_not_found:
            return 404;
        case Errc::method_not_allowed:
            return 405;
        case Errc::not_acceptable:
            return 406;
        case Errc::unauthorized:
        case Errc::invalid_authorization:
        case Errc::invalid_key:
        case Errc::invalid_token:
        case Errc::token_expired:
            return 401;
        case Errc::host_not_allowed:
            return 421;
        case Errc::body_too_large:
            return 413;
        case Errc::header_too_large:
            return 431;
        case Errc::target_too_long:
            return 414;
        case Errc::too_many_requests:
        case Errc::too_many_connections:
        case Errc::too_many_streams:
        case Errc::too_many_conversations:
        case Errc::too_many_executions:
            return 429;
        case Errc::unsupported_media_type:
            return 415;
        case Errc::upgrade_required:
            return 426;
        case Errc::request_timeout:
            return 408;
        case Errc::turn_in_progress:
        case Errc::no_turn:
        case Errc::conversation_ended:
        case Errc::conversation_starting:
        case Errc::conversation_paused:
        case Errc::sandbox_in_use:
        case Errc::sandbox_gone:
        case Errc::executor_unavailable:
        case Errc::execution_ended:
        case Errc::call_answered:
        case Errc::too_many_kept_processes:
        case Errc::process_ended:
        case Errc::already_exists:
        case Errc::is_directory:
        case Errc::not_a_directory:
        case Errc::not_a_file:
        case Errc::directory_not_empty:
        case Errc::file_changed:
            return 409;
        case Errc::precondition_failed:
            return 412;
        case Errc::range_not_satisfiable:
            return 416;
        case Errc::disk_full:
            return 507;
        case Errc::seq_expired:
        case Errc::log_replaced:
        case Errc::preview_ended:
            return 410;
        case Errc::sandbox_failed:
        case Errc::capacity:
        case Errc::storage_failed:
        case Errc::shutting_down:
        case Errc::host_unsupported:
        case Errc::no_listener:
        case Errc::preview_paused:
        case Errc::too_many_processes:
            return 503;
        case Errc::agent_failed:
        case Errc::bridge_failed:
        case Errc::upstream_failed:
            return 502;
        case Errc::deadline_exceeded:
            return 504;
        case Errc::listen_failed:
        case Errc::internal:
            return 500;
    }
    return 500;
}

std::string_view error_detail(const base::Error& error) noexcept {
    return error.detail().empty() ? default_detail(error.code()) : error.detail();
}

std::string_view error_pointer(const base::Error& error) noexcept {
    return error.pointer().empty() ? default_pointer(error.code()) : error.pointer();
}

std::string problem_type(Errc code) {
    return std::string(k_errors_page) + '#' + std::string(base::code_name(code));
}

Response problem(const base::Error& error, std::string_view request_id) {
    Response response;
    response.status = status_of(error.code());
    response.content_type = k_problem_type;
    response.problem_code = base::code_name(error.code());
    base::JsonWriter json(response.body);
    json.begin_object();
    json.key("type").string(problem_type(error.code()));
    json.key("title").string(reason_phrase(response.status));
    json.key("status").number(response.status);
    json.key("detail").string(error_detail(error));
    json.key("code").string(response.problem_code);
    if (const auto pointer = error_pointer(error); !pointer.empty())
        json.key("pointer").string(pointer);
    for (const auto& [name, value] : error.members())
        json.key(name).raw(value);
    json.key("requestId").string(request_id);
    json.end_object();
    if (status_of(error.code()) == 401)
        response.headers.emplace_back("WWW-Authenticate", challenge(error));
    if (error.code() == Errc::upgrade_required) {
        response.headers.emplace_back("Connection", "Upgrade");
        response.headers.emplace_back("Upgrade", "websocket");
        response.headers.emplace_back("Sec-WebSocket-Version", "13");
    }
    if (const auto seconds = retry_after(error); seconds.count() > 0)
        response.headers.emplace_back("Retry-After", std::to_string(seconds.count()));
    return response;
}

}  // namespace atl::http
