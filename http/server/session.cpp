#include "http/server/session.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "http/server/source_sender.hpp"
#include "http/server/stream_sender.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::size_t k_max_request_id_bytes = 128;
constexpr std::size_t k_kept_response_bytes = 8192;
constexpr unsigned k_too_many_requests = 429;

/// A stream ends when its credential expires. A client that does not take the end in time is cut off.
base::SteadyTime cut_time(const Principal& principal, const Response& response) {
    const bool goes_on = response.stream != nullptr || response.takeover != nullptr;
    if (!goes_on || principal.expires_at == base::SteadyTime::max())
        return response.cut_at;
    return std::min(response.cut_at, principal.expires_at + base::k_token_end_grace);
}

}  // namespace

Session::Session(ServerState& state, const Services& services, std::shared_ptr<Connection> connection,
                 PeerAddress peer, ListenerScope reach, CountLimiter::Lease lease, std::uint16_t port)
    : state_(state),
      services_(services),
      service_(&services.any()),
      connection_(std::move(connection)),
      parser_({state.settings.max_header_bytes, 0, services.any().targets()}),
      reach_(reach),
      port_(port),
      peer_(peer),
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
    began_ = connection_->now();
    const Error error(Errc::invalid_request, "This port speaks HTTPS: begin the address with https://.");
    co_return co_await async_refuse_unread(error);
}

base::Task<Session::Next> Session::async_serve_one() {
    parser_.reset();
    place_.release();
    connection_->charge_to(std::nullopt);
    service_ = &services_.any();
    const auto head = co_await async_read_head();
    began_ = connection_->now();
    if (head.has_error())
        co_return co_await async_refuse_unread(head.error());
    if (!*head)
        co_return Next::close;
    RequestContext context(parser_.request(), *connection_);
    context.body_place = &place_;
    begin_request(context);
    service_ = &services_.find(context.request.authority);
    const Arrival arrival{reach_, connection_->is_secure(), began_, port_};
    Decision decision = service_->admit(context, arrival);
    if (decision.handler == nullptr)
        co_return co_await async_respond(context, decision.refusal);
    if (decision.guard != nullptr) {
        if (auto ok = co_await (*decision.guard)(context); ok.has_error()) {
            Response refusal = service_->refuse(context, ok.error());
            co_return co_await async_respond(context, refusal);
        }
    }
    if (decision.body == BodyKind::stream) {
        parser_.stream_body();
        context.body = &body_.emplace(*connection_, parser_, state_.settings);
    } else {
        const auto body = co_await async_read_body(context, decision.max_body_bytes);
        if (body.has_error()) {
            context.drop_body();
            Response refusal = service_->refuse(context, body.error());
            co_return co_await async_respond(context, refusal);
        }
        if (!*body)
            co_return Next::close;
    }
    Response response = co_await async_handle(*decision.handler, context);
    // A response may take long, a stream's above all: the body is of no use by then.
    context.drop_body();
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
base::Task<base::Result<bool>> Session::async_read_body(const RequestContext& context,
                                                        std::size_t most_bytes) {
    if (parser_.done())
        co_return true;
    if (parser_.content_length().value_or(0) > most_bytes)
        co_return Error(Errc::body_too_large, "The body may have " + std::to_string(most_bytes) + " bytes.");
    parser_.set_body_limit(most_bytes);
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
        const auto placed = co_await async_take_place(context, most_bytes);
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
base::Task<base::Result<bool>> Session::async_take_place(const RequestContext& context,
                                                         std::size_t most_bytes) {
    if (place_.is_held() || parser_.request().body.size() <= base::k_free_body_bytes)
        co_return true;
    const std::size_t length =
        std::min<std::uint64_t>(parser_.content_length().value_or(most_bytes), most_bytes);
    const base::ShareHolder holder = holder_of(context.principal);
    connection_->set_deadline(state_.settings.body_deadline);
    for (;;) {
        if (auto asked = place_.ask(state_.bodies, holder, length, connection_->wake()); asked.has_error())
            co_return asked.error();
        if (place_.is_held())
            break;
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

void Session::begin_request(RequestContext& context) {
    const auto given_id = context.request.header("X-Request-Id");
    const bool echo = is_visible_ascii(given_id, k_max_request_id_bytes);
    context.request_id = echo ? std::string(given_id) : state_.new_request_id();
    context.client.address = peer_;
}

base::Task<Response> Session::async_handle(const Handler& handler, RequestContext& context) {
    std::string failure;
    try {
        auto result = co_await handler(context);
        if (result.has_error())
            co_return service_->refuse(context, result.error());
        co_return std::move(*result);
    } catch (const std::exception& error) {
        failure = error.what();
    }
    base::LogLine(base::evt::task_failed).field("req", context.request_id).quoted("err", failure).error();
    co_return service_->refuse(context, Error(Errc::internal));
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

// A short answer, and one that is not copied, needs no more than what each connection has free.
void Session::charge(const RequestContext& context, const Response& response) {
    const bool is_known = !context.principal.label.empty() || context.principal.is_token();
    const bool is_long = response.stream || response.source || response.takeover ||
                         response.body.size() > base::k_free_unsent_bytes;
    if (response.payer)
        connection_->charge_to(response.payer);
    else if (is_long)
        connection_->charge_to(is_known ? holder_of(context.principal) : base::ShareHolder::strangers());
}

base::Task<Session::Next> Session::async_respond(RequestContext& context, Response& response) {
    const bool head_only = context.request.method == Method::head;
    charge(context, response);
    if (response.relay)
        co_return co_await async_relay(context, response);
    if (response.source && !head_only)
        co_return co_await async_respond_source(context, response);
    service_->complete(context.request, response);
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
    std::string().swap(response.body);
    const bool ends_with_head = response.stream != nullptr && head_only;
    connection_->cut_at(ends_with_head ? base::SteadyTime::max() : cut_time(context.principal, response));
    Io io = Io::ok;
    if (response.stream && !head_only) {
        StreamJob job{std::move(out_), framing, *response.stream, context.principal.expires_at};
        io = co_await async_send_stream(*connection_, job, state_);
        response.stream.reset();
        connection_->cut_at(base::SteadyTime::max());
    } else {
        io = co_await connection_->async_send(out_);
        if (io == Io::ok && framing == Framing::length && !response.lasting_body.empty())
            io = co_await connection_->async_send(response.lasting_body);
    }
    if (io == Io::ok)
        service_->sent(context.request, response);
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
        Response refusal = service_->refuse(context, first.error());
        response.source.reset();
        co_return co_await async_respond(context, refusal);
    }
    // A body that is all there already has a length.
    if (!response.length && response.source->is_at_end())
        response.length = job.piece.size();
    service_->complete(context.request, response);
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
    if (io == Io::ok)
        service_->sent(context.request, response);
    end_response(context, response);
    co_return after_response(io, kept);
}

// Another server answers; this one only learns what became of it.
base::Task<Session::Next> Session::async_relay(RequestContext& context, Response& response) {
    connection_->cut_at(response.cut_at);
    const Relay::Outcome outcome = co_await response.relay->async_run(*connection_, parser_, state_);
    connection_->cut_at(base::SteadyTime::max());
    response.relay.reset();
    if (outcome.instead)
        co_return co_await async_respond(context, *outcome.instead);
    response.status = outcome.status;
    end_response(context, response, Origin::relayed);
    switch (outcome.after) {
        case Relay::After::again:
            co_return Next::again;
        case Relay::After::linger:
            co_return Next::linger;
        case Relay::After::close:
            break;
    }
    co_return Next::close;
}

void Session::end_response(const RequestContext& context, const Response& response, Origin origin) {
    count(context, response, origin);
    if (out_.capacity() > k_kept_response_bytes)
        std::string().swap(out_);
}

// An answer to what could not be read as a request; nothing is known of it but the error, and perhaps its
// Origin, so that its page may read why.
base::Task<Session::Next> Session::async_refuse_unread(Error error) {
    RequestContext context(parser_.request(), *connection_);
    context.request_id = state_.new_request_id();
    context.client.address = peer_;
    const Arrival arrival{reach_, connection_->is_secure(), began_, port_};
    Response response = service_->refuse_unread(context, arrival, error);
    service_->complete(context.request, response);
    out_.clear();
    write_response(out_, response, context.request_id, state_.date(), KeepAlive::no, Framing::length);
    const Io io = co_await connection_->async_send(out_);
    count(context, response, Origin::here);
    co_return io == Io::ok ? Next::linger : Next::close;
}

void Session::count(const RequestContext& context, const Response& response, Origin origin) const {
    state_.count_response(response.status);
    service_->count_response(response.status);
    if (service_->is_logged())
        log_request(context, response, origin);
}

void Session::log_request(const RequestContext& context, const Response& response, Origin origin) const {
    // Refusals of a limit fill no log: LimitLog tells of them.
    const unsigned status = response.status;
    // The status does not tell each refusal: a close frame and the answer to a preflight are refusals, too.
    const bool is_refused = status >= 400 || !response.problem_code.empty();
    const bool failed = is_refused && status != k_too_many_requests && origin == Origin::here;
    const bool told = failed || state_.settings.access_log == AccessLog::all;
    if (!spdlog::should_log(told ? spdlog::level::info : spdlog::level::debug))
        return;
    const bool has_key = !context.principal.label.empty();
    if (failed && !has_key && state_.settings.access_log != AccessLog::all &&
        !state_.refusals.admits(connection_->now()))
        return;
    const Request& request = parser_.request();
    const auto taken = connection_->now() - began_;
    base::LogLine line(base::evt::request);
    line.field("method", to_string(request.method)).quoted("path", request.path);
    line.field("status", static_cast<std::int64_t>(status));
    if (!response.problem_code.empty())
        line.field("code", response.problem_code);
    line.field("dur_ms", std::chrono::duration_cast<std::chrono::milliseconds>(taken).count());
    line.field("req", context.request_id).field("addr", address_text(context.client.address));
    if (request.has_header("Origin"))
        line.quoted("origin", request.header("Origin"));
    if (told)
        line.info();
    else
        line.debug();
}

}  // namespace atl::http
