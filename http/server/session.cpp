#include "http/server/session.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "http/server/cors.hpp"
#include "http/server/problem.hpp"
#include "http/server/server_options.hpp"
#include "http/server/source_sender.hpp"
#include "http/server/stream_sender.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::size_t k_max_request_id_bytes = 128;
constexpr std::size_t k_kept_output_bytes = 8192;
constexpr unsigned k_too_many = 429;

}  // namespace

Session::Session(ServerState& state, Accepted client, Reach reach, CountLimiter::Lease lease)
    : state_(state),
      connection_(std::make_shared<Connection>(std::move(client.socket), state.wheel, state.settings,
                                               reach == Reach::unix_socket ? nullptr : state.tls)),
      parser_({state.settings.max_header_bytes, state.settings.max_body_bytes}),
      reach_(reach),
      peer_(client.peer),
      lease_(std::move(lease)) {}

void Session::stop() {
    if (idle_)
        connection_->interrupt();
    else
        connection_->wake()->post();
}

void Session::abort() {
    connection_->abort();
}

base::Task<> Session::async_run() {
    auto next = co_await async_open();
    while (next == Next::again)
        next = co_await async_serve_one();
    if (next == Next::linger)
        co_await connection_->async_linger();
    if (next == Next::taken_over) {
        // Nothing of HTTP's is needed any more, and there may be many of these.
        parser_.reset();
        std::string().swap(out_);
        co_await takeover_->async_run(*connection_, state_);
        takeover_.reset();
    }
    connection_->close();
}

base::Task<Session::Next> Session::async_open() {
    idle_ = true;
    const Io io = co_await connection_->async_open();
    idle_ = false;
    if (io == Io::ok)
        co_return Next::again;
    if (io != Io::plaintext)
        co_return Next::close;
    began_ = std::chrono::steady_clock::now();
    const Error error(Errc::invalid_request, "This port speaks HTTPS: begin the address with https://.");
    co_return co_await async_refuse_unread(error);
}

base::Task<Session::Next> Session::async_serve_one() {
    parser_.reset();
    place_.release();
    const auto head = co_await async_read_head();
    began_ = std::chrono::steady_clock::now();
    if (head.has_error())
        co_return co_await async_refuse_unread(head.error());
    if (!*head)
        co_return Next::close;
    RequestContext context(parser_.request(), connection_->wake(), connection_->is_aborted());
    begin_request(context);
    std::string allow;
    const auto route = admit(context, allow);
    if (route.has_error()) {
        Response refusal = refuse(context, route.error());
        if (!allow.empty())
            refusal.headers.emplace_back("Allow", allow);
        co_return co_await async_respond(context, refusal);
    }
    if ((*route)->body == BodyKind::stream) {
        parser_.stream_body();
        context.body = &body_.emplace(*connection_, parser_, state_.settings);
    } else {
        const auto body = co_await async_read_body();
        if (body.has_error()) {
            drop_body();
            Response refusal = refuse(context, body.error());
            co_return co_await async_respond(context, refusal);
        }
        if (!*body)
            co_return Next::close;
    }
    Response response = co_await async_handle(**route, context);
    drop_body();
    const Next next = co_await async_respond(context, response);
    body_.reset();
    co_return next;
}

// False: the connection ended, or is to end, without a request.
base::Task<base::Result<bool>> Session::async_read_head() {
    bool begun = false;
    connection_->set_deadline(state_.settings.idle_deadline);
    for (;;) {
        const auto used = parser_.feed(connection_->input());
        if (used.has_error())
            co_return used.error();
        connection_->consume(*used);
        if (parser_.head_done())
            break;
        if (!begun && (parser_.started() || !connection_->input().empty())) {
            begun = true;
            connection_->set_deadline(state_.settings.header_deadline);
        }
        if (state_.stopping && !begun)
            co_return false;
        idle_ = !begun;
        const Io io = co_await connection_->async_fill();
        idle_ = false;
        if (io == Io::deadline && begun)
            co_return Error(Errc::request_timeout, "The head of the request did not arrive in time.");
        if (io != Io::ok)
            co_return false;
    }
    connection_->clear_deadline();
    co_return true;
}

// False: the connection ended before the body did.
base::Task<base::Result<bool>> Session::async_read_body() {
    if (parser_.done())
        co_return true;
    connection_->set_deadline(state_.settings.body_deadline);
    if (parser_.expects_continue() && connection_->input().empty()) {
        const Io io = co_await connection_->async_send("HTTP/1.1 100 Continue\r\n\r\n");
        if (io != Io::ok)
            co_return false;
    }
    for (;;) {
        const auto used = parser_.feed(connection_->input());
        if (used.has_error())
            co_return used.error();
        connection_->consume(*used);
        if (parser_.done())
            break;
        const auto placed = co_await async_take_place();
        if (placed.has_error() || !*placed)
            co_return placed;
        const Io io = co_await connection_->async_fill();
        if (io == Io::deadline)
            co_return Error(Errc::request_timeout, "The body of the request did not arrive in time.");
        if (io != Io::ok)
            co_return false;
    }
    connection_->clear_deadline();
    co_return true;
}

// A long body is read on only once there is memory for all of it. False: the connection ended before.
base::Task<base::Result<bool>> Session::async_take_place() {
    if (place_.is_held() || parser_.request().body.size() <= base::k_free_body_bytes)
        co_return true;
    const std::size_t most = state_.settings.max_body_bytes;
    const std::size_t length = std::min<std::uint64_t>(parser_.content_length().value_or(most), most);
    place_.ask(state_.bodies, length, connection_->wake());
    if (place_.is_waiting())
        connection_->set_deadline(state_.settings.body_deadline);
    while (place_.is_waiting()) {
        const Io io = co_await connection_->async_pause();
        if (io == Io::deadline)
            co_return Error(Errc::capacity,
                            "The server has no memory left for long bodies; try again later.");
        if (io != Io::ok)
            co_return false;
    }
    connection_->set_deadline(state_.settings.body_deadline);
    parser_.request().body.reserve(length);
    co_return true;
}

// A response may take long, a stream's above all: the body is of no use by then.
void Session::drop_body() {
    std::string().swap(parser_.request().body);
    place_.release();
}

void Session::begin_request(RequestContext& context) {
    const auto given_id = context.request.header("X-Request-Id");
    const bool echo = is_visible_ascii(given_id, k_max_request_id_bytes);
    context.request_id = echo ? std::string(given_id) : state_.new_request_id();
    context.client = client_of(context.request, peer_, state_.settings.trusted_proxies);
    context.limits = &state_.limits;
    context.limited = state_.limits.subject_of(context.client);
}

base::Result<const Route*> Session::admit(RequestContext& context, std::string& allow) {
    const Request& request = context.request;
    if (auto limit = state_.limits.request(context.limited, began_); limit.has_error())
        return limit.error();
    if (auto site = admit_site(context); site.has_error())
        return site.error();
    if (is_server_options(request))
        return &server_options_route();
    auto match = state_.router.match(request.method, request.path);
    if (match.route == nullptr && is_preflight(request, state_.settings.allowed_origins))
        return &preflight_route();
    if (match.route == nullptr || match.route->auth != Auth::open) {
        if (auto known = admit_principal(context, match); known.has_error())
            return known.error();
    }
    if (match.route == nullptr) {
        allow = std::move(match.allow);
        if (allow.empty())
            return Error(Errc::not_found, "There is no such route; /openapi.json lists them all.");
        return Error(Errc::method_not_allowed, "This route has other methods: " + allow + '.');
    }
    if (match.malformed)
        return Error(Errc::invalid_request, "The path is not percent-encoded UTF-8, or holds a %00.");
    context.params = std::move(match.params);
    if (auto query = admit_query(*match.route, context); query.has_error())
        return query.error();
    if (match.route->guard) {
        if (auto ok = match.route->guard(context); ok.has_error())
            return ok.error();
    }
    if (match.route->body != BodyKind::stream &&
        parser_.content_length().value_or(0) > state_.settings.max_body_bytes)
        return Error(Errc::body_too_large,
                     "The body may have " + std::to_string(state_.settings.max_body_bytes) + " bytes.");
    return match.route;
}

// Host as it came and as a proxy says that it was: a page that made its name mean this server could set the
// second one.
base::Result<void> Session::admit_site(const RequestContext& context) const {
    const auto& allowed_hosts = state_.settings.allowed_hosts;
    Site site = site_of(context.request, context.client);
    // Where TLS ends here, a page that came without it may be of anyone on the way.
    if (site.scheme.empty() && connection_->is_secure())
        site.scheme = "https";
    if (auto host = check_host(context.request.authority, reach_, allowed_hosts); host.has_error())
        return host;
    if (!context.client.host.empty()) {
        if (auto host = check_host(site.authority, reach_, allowed_hosts); host.has_error())
            return host;
    }
    return check_origin(context.request, site, state_.settings.allowed_origins);
}

// A good key always works, whatever came from its address before: else anyone who shares the address could
// lock its owner out. What is wrong costs its address, and says no more than that once it is too much.
base::Result<void> Session::admit_principal(RequestContext& context, const Router::Match& match) {
    auto principal = identify(match, context.request);
    if (principal.has_value()) {
        context.principal = std::move(*principal);
        context.limited = state_.limits.subject_of(context.limited, context.principal);
        return state_.limits.key_request(context.limited, began_);
    }
    // Who sent nothing tried nothing.
    const bool takes_token = match.route != nullptr && match.route->auth == Auth::token_or_key;
    const bool tried =
        !credential(context.request).empty() || (takes_token && !context.request.query.empty());
    if (tried && principal.error().code() == Errc::unauthorized) {
        if (auto limit = state_.limits.failed_login(context.limited, began_); limit.has_error())
            return limit;
    }
    return principal.error();
}

// The answer to a request that is not served.
Response Session::refuse(const RequestContext& context, const Error& error) {
    Response refusal = problem(error, context.request_id);
    if (refusal.status == k_too_many)
        state_.log_limit(error, context.client.address);
    return refusal;
}

base::Result<Principal> Session::identify(const Router::Match& match, const Request& request) const {
    // Who sends a key is asked for a good one, whatever else is sent.
    if (match.route == nullptr || match.route->auth != Auth::token_or_key || !credential(request).empty())
        return state_.authenticator.authenticate(request);
    const auto named = [](std::string_view name) {
        return [name](const auto& item) { return item.first == name; };
    };
    const auto items = parse_query(request.query);
    const auto id = std::find_if(match.params.begin(), match.params.end(), named("id"));
    if (!items || id == match.params.end())
        return Error(Errc::unauthorized);
    const auto token = std::find_if(items->begin(), items->end(), named(k_token_parameter.name));
    if (token == items->end())
        return Error(Errc::unauthorized);
    return state_.authenticator.authenticate_token(token->second, id->second);
}

base::Result<void> Session::admit_query(const Route& route, RequestContext& context) const {
    auto items = parse_query(context.request.query);
    if (!items)
        return Error(Errc::invalid_request, "The query is not percent-encoded UTF-8.");
    for (auto item = items->begin(); item != items->end(); ++item) {
        const auto& name = item->first;
        const auto same_name = [&](const auto& other) { return other.first == name; };
        if (std::any_of(items->begin(), item, same_name))
            return Error(Errc::invalid_request,
                         "The query parameter `" + base::escaped(name) + "` is given twice.");
        const auto declared = [&](const QueryParameter& parameter) { return parameter.name == name; };
        if (std::none_of(route.query.begin(), route.query.end(), declared) && route.auth != Auth::open)
            return Error(Errc::unknown_field,
                         "There is no query parameter `" + base::escaped(name) + "` here.");
    }
    context.query = std::move(*items);
    return {};
}

base::Task<Response> Session::async_handle(const Route& route, RequestContext& context) {
    std::string failure;
    try {
        auto result = co_await route.handler(context);
        if (result.has_error())
            co_return refuse(context, result.error());
        co_return std::move(*result);
    } catch (const std::exception& error) {
        failure = error.what();
    }
    base::LogLine(base::evt::task_failed).field("req", context.request_id).quoted("err", failure).error();
    co_return problem(Error(Errc::internal), context.request_id);
}

KeepAlive Session::keep_alive(Rest rest) const {
    const bool ends = parser_.done() || (rest == Rest::may_be_read && body_);
    if (state_.stopping || !ends || !parser_.wants_keep_alive())
        return KeepAlive::no;
    return parser_.request().version < 11 ? KeepAlive::told : KeepAlive::implied;
}

Session::Next Session::after_response(Io io, KeepAlive kept) const {
    if (io != Io::ok)
        return Next::close;
    if (kept != KeepAlive::no && parser_.done())
        return Next::again;
    return parser_.done() && connection_->input().empty() ? Next::close : Next::linger;
}

base::Task<Session::Next> Session::async_respond(RequestContext& context, Response& response) {
    const bool head_only = context.request.method == Method::head;
    if (response.source && !head_only)
        co_return co_await async_respond_source(context, response);
    add_cors(context.request, state_.settings.allowed_origins, response);
    if (body_)
        body_->drop_rest();
    KeepAlive kept = keep_alive(Rest::is_read);
    auto framing = head_only ? Framing::head_only : Framing::length;
    if (response.stream || (response.source && !response.length))
        framing = context.request.version >= 11 ? Framing::chunked : Framing::until_close;
    if (framing == Framing::until_close)
        kept = KeepAlive::no;
    if (response.takeover)
        kept = KeepAlive::implied;
    out_.clear();
    write_response(out_, response, context.request_id, state_.date(), kept, framing);
    Io io = Io::ok;
    if (response.stream && !head_only) {
        StreamJob job{std::move(out_), framing, *response.stream};
        io = co_await async_send_stream(*connection_, job, state_);
        response.stream.reset();
    } else {
        io = co_await connection_->async_send(out_);
    }
    end_response(context, response);
    takeover_ = std::move(response.takeover);
    if (takeover_ && io == Io::ok)
        co_return Next::taken_over;
    co_return after_response(io, kept);
}

// The first piece comes before the head: a source that fails at once still has an answer of its own, and a
// client that waits for 100 Continue gets that first.
base::Task<Session::Next> Session::async_respond_source(RequestContext& context, Response& response) {
    SourceJob job{*response.source};
    const auto first = co_await async_read_piece(job);
    if (first.has_error()) {
        Response refusal = refuse(context, first.error());
        response.source.reset();
        co_return co_await async_respond(context, refusal);
    }
    add_cors(context.request, state_.settings.allowed_origins, response);
    job.length = response.length;
    if (!response.length)
        job.framing = context.request.version >= 11 ? Framing::chunked : Framing::until_close;
    KeepAlive kept = keep_alive(Rest::may_be_read);
    if (job.framing == Framing::until_close)
        kept = KeepAlive::no;
    if (body_)
        body_->response_begins();
    write_response(job.head, response, context.request_id, state_.date(), kept, job.framing);
    const Io io = co_await async_send_source(*connection_, job);
    response.source.reset();
    if (body_ && io == Io::ok)
        body_->drop_rest();
    end_response(context, response);
    co_return after_response(io, kept);
}

void Session::end_response(const RequestContext& context, const Response& response) {
    state_.count_response(response.status);
    log_request(context.request_id, response.status, context.client.address);
    if (out_.capacity() > k_kept_output_bytes)
        std::string().swap(out_);
}

// An answer to what could not be read as a request; nothing is known of it but the error.
base::Task<Session::Next> Session::async_refuse_unread(Error error) {
    const std::string request_id = state_.new_request_id();
    // What cannot be read is a request, too: of the peer, since nobody else is known.
    Client sender;
    sender.address = peer_;
    sender.is_trusted = state_.settings.trusted_proxies.contains(peer_);
    if (const auto limit = state_.limits.request(state_.limits.subject_of(sender), began_);
        limit.has_error()) {
        error = limit.error();
        state_.log_limit(error, peer_);
    }
    Response response = problem(error, request_id);
    // If the head got far enough to tell its Origin, that page may read why.
    add_cors(parser_.request(), state_.settings.allowed_origins, response);
    out_.clear();
    write_response(out_, response, request_id, state_.date(), KeepAlive::no, Framing::length);
    const Io io = co_await connection_->async_send(out_);
    state_.count_response(response.status);
    log_request(request_id, response.status, peer_);
    co_return io == Io::ok ? Next::linger : Next::close;
}

void Session::log_request(std::string_view request_id, unsigned status, const PeerAddress& address) const {
    // Who asks too much fills no log: log_limit() tells of it.
    const bool failed = status >= 400 && status != k_too_many;
    const bool told = failed || state_.settings.access_log == AccessLog::all;
    if (!spdlog::should_log(told ? spdlog::level::info : spdlog::level::debug))
        return;
    const Request& request = parser_.request();
    const auto taken = std::chrono::steady_clock::now() - began_;
    base::LogLine line(base::evt::request);
    line.field("method", to_string(request.method)).quoted("path", request.path);
    line.field("status", static_cast<std::int64_t>(status));
    line.field("dur_ms", std::chrono::duration_cast<std::chrono::milliseconds>(taken).count());
    line.field("req", request_id).field("addr", address_text(address));
    if (told)
        line.info();
    else
        line.debug();
}

}  // namespace atl::http
