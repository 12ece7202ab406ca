#include "http/server/problem.hpp"

#include <algorithm>

#include "core/base/json_writer.hpp"

namespace atl::http {
namespace {

using base::Errc;

struct ErrorRow {
    unsigned status;
    std::string_view meaning;
    std::string_view detail = "";  // of an error that has none of its own
};

constexpr ErrorRow k_error_rows[] = {
#define ATL_ERROR(code, ...) {__VA_ARGS__},
#include "core/base/errors.def"
};

const ErrorRow& row_of(Errc code) noexcept {
    return k_error_rows[static_cast<std::size_t>(code)];
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

// When the error itself does not know: after a moment, where it passes by itself and nothing was begun. The
// refusal of a budget knows.
std::chrono::seconds retry_after(const base::Error& error) noexcept {
    constexpr std::chrono::seconds k_moment{5};
    const auto has = [&error](std::string_view name) {
        return std::ranges::any_of(error.members(),
                                   [name](const auto& member) { return member.first == name; });
    };
    if (has("begun"))
        return std::chrono::seconds{0};
    if (has("budget"))
        return error.retry_after();
    const unsigned status = status_of(error.code());
    const bool passes = status == 429 || error.code() == Errc::capacity ||
                        error.code() == Errc::too_many_processes || error.code() == Errc::shutting_down;
    if (error.retry_after().count() > 0 || !passes)
        return error.retry_after();
    return k_moment;
}

}  // namespace

unsigned status_of(Errc code) noexcept {
    return row_of(code).status;
}

std::string_view meaning_of(Errc code) noexcept {
    return row_of(code).meaning;
}

std::string_view error_detail(const base::Error& error) noexcept {
    return error.detail().empty() ? row_of(error.code()).detail : error.detail();
}

std::string_view error_pointer(const base::Error& error) noexcept {
    return error.pointer().empty() ? default_pointer(error.code()) : error.pointer();
}

std::string problem_type(Errc code, std::string_view errors_page) {
    return errors_page.empty() ? "about:blank"
                               : std::string(errors_page) + '#' + std::string(base::code_name(code));
}

Response problem(const base::Error& error, std::string_view request_id, std::string_view errors_page) {
    Response response;
    response.status = status_of(error.code());
    response.content_type = k_problem_type;
    response.problem_code = base::code_name(error.code());
    base::JsonWriter json(response.body);
    json.begin_object();
    json.key("type").string(problem_type(error.code(), errors_page));
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
