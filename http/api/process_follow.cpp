// Routes that follow what a process writes: its WebSocket; its output as a page and as Server-Sent Events.
#include "core/plain/operation_limits.hpp"
#include "http/api/forms.hpp"
#include "http/api/process_form.hpp"
#include "http/api/process_lookup.hpp"
#include "http/api/process_output.hpp"
#include "http/api/process_socket.hpp"
#include "http/websocket/handshake.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;
using conversation::LeaseUse;
using LeasePtr = std::unique_ptr<conversation::Lease>;

constexpr QueryParameter k_after_byte_parameter{
    "after", R"({"type":"integer","minimum":0,"default":0})",
    "Output from this byte on, counted over both streams in the order read. One beyond the end means the "
    "end."};

/// Input counts as activity of the conversation, as far as its sandbox runs.
std::function<void()> activity_of(Api& api, const conversation::Lease& lease) {
    return [&api, &lease, told = base::SteadyTime::min()]() mutable {
        const auto now = api.conversations.clock().steady_now();
        if (!lease.is_held() ||
            (told != base::SteadyTime::min() && now < told + base::k_process_activity_interval))
            return;
        told = now;
        api.conversations.lease(lease.sandbox_id(), LeaseUse::process, [](const Result<LeasePtr>&) {});
    };
}

/// The same for a signal as its route has, without waiting for the store.
std::function<void(int)> forgetting(Api& api, const std::string& sandbox_id, const std::string& process_id) {
    return [&api, sandbox_id, process_id](int number) {
        if (ends_for_good(number))
            api.conversations.forget_process(sandbox_id, process_id, [](const Result<bool>&) {});
    };
}

/// Waits for what ended the sandbox, if the connection to the guest broke: the socket is told of it.
Task<void> async_cause_of(Api& api, RequestContext& context, const ProcessSocket& socket) {
    bool is_late = false;
    const auto timer =
        api.conversations.timers().arm(base::k_end_cause_wait, [&is_late, wake = context.waker()] {
            is_late = true;
            wake();
        });
    const std::function<bool()> is_told = [&] {
        return is_late || socket.failure()->code() != Errc::bridge_failed;
    };
    (void)co_await context.async_until(is_told);
    api.conversations.timers().cancel(timer);
}

Task<Result<Response>> async_open_process(Api& api, RequestContext& context) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    if (const auto valid = check_handshake(context.request); valid.has_error())
        co_return valid.error();
    const auto after = context.query_integer("after", k_seq_range);
    if (after.has_error())
        co_return after.error();
    auto place = context.stream_lease(path->sandbox);
    if (place.has_error())
        co_return place.error();
    place->reader = api.subscribers.enter(SubscriberKind::websocket);
    auto lease = co_await async_process_lease(api, context, path->sandbox, LeaseUse::process);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    ProcessSocket::Calls calls{activity_of(api, **lease), frame_limit(context),
                               forgetting(api, path->sandbox, path->process)};
    auto socket = std::make_unique<ProcessSocket>(std::move(*lease), std::move(*place), std::move(calls),
                                                  context.principal.expires_at);
    socket->attach(**operations, path->process, after->value_or(0), context.waker());
    const std::function<bool()> is_known = [&socket] { return socket->is_known(); };
    const auto waited = co_await context.async_until(is_known);
    if (waited.has_error())
        co_return waited.error();
    if (socket->failure())
        co_await async_cause_of(api, context, *socket);
    if (socket->failure())
        co_return process_error(*socket->failure());
    const auto holder = co_await async_holder(api, context, path->sandbox);
    if (holder.has_error())
        co_return holder.error();
    socket->keep_within(OutputRoom(api.budgets.connections, *holder));
    Response response = accept_handshake(context.request, std::move(socket));
    response.payer = *holder;
    co_return response;
}

/// It holds what the sandbox wrote.
void keep_output_from_browsers(Response& response) {
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "output"));
}

Task<Result<Response>> async_output_page(Api& api, RequestContext& context, const ProcessPath& path,
                                         std::uint64_t after) {
    auto ask = [&](sandbox::Operations& operations, conversation::Reply<OutputPage> reply) {
        return std::make_unique<OutputQuestion>(operations, path.process, after, api.conversations.timers(),
                                                std::move(reply));
    };
    const auto page = co_await async_look<OutputPage>(api, context, path.sandbox, ask);
    if (page.has_error())
        co_return process_error(page.error());
    if (!*page)
        co_return no_process();
    Response response = json_response(output_page_json(**page));
    keep_output_from_browsers(response);
    co_return response;
}

Task<Result<Response>> async_output_stream(Api& api, RequestContext& context, const ProcessPath& path,
                                           std::uint64_t after, EventNames names) {
    auto place = context.stream_lease(path.sandbox);
    if (place.has_error())
        co_return place.error();
    place->reader = api.subscribers.enter(SubscriberKind::sse);
    auto lease = co_await async_process_lease(api, context, path.sandbox, LeaseUse::process);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto stream = std::make_unique<ProcessStream>(std::move(*lease), std::move(*place), names,
                                                  api.conversations.timers());
    stream->on_wake(context.waker());
    stream->attach(**operations, path.process, after);
    const std::function<bool()> is_known = [&stream] { return stream->is_known(); };
    const auto waited = co_await context.async_until(is_known);
    if (waited.has_error())
        co_return waited.error();
    if (const auto refusal = stream->refusal())
        co_return process_error(*refusal);
    const auto holder = co_await async_holder(api, context, path.sandbox);
    if (holder.has_error())
        co_return holder.error();
    stream->keep_within(OutputRoom(api.budgets.connections, *holder));
    Response response = sse_response(std::move(stream));
    response.payer = *holder;
    keep_output_from_browsers(response);
    co_return response;
}

Task<Result<Response>> async_output(Api& api, RequestContext& context) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    const auto asked = context.query_integer("after", k_seq_range);
    if (asked.has_error())
        co_return asked.error();
    const std::uint64_t after = asked->value_or(0);
    if (context.accepts() != MediaType::event_stream)
        co_return co_await async_output_page(api, context, *path, after);
    const auto from = resume_point(context.request, after);
    if (from.has_error())
        co_return from.error();
    co_return co_await async_output_stream(api, context, *path, *from, *names);
}

Route socket_route(Api& api) {
    Route made{
        Method::get, "/v1/sandboxes/{id}/processes/{processId}/ws", "openProcess",
        "A WebSocket that follows a process. Its binary frames begin with a byte that names the stream: 1 "
        "stdout "
        "or the terminal, 2 stderr, and 0 stdin from the client; the rest are the bytes. The server's text "
        "frames are ProcessServerFrame, the client's ProcessClientFrame. Closing it does not end the "
        "process. A "
        "close frame's reason is `{code, after, detail?}`.",
        bind_handler(api, async_open_process)};
    made.query = {k_after_byte_parameter};
    made.opens = Opens::websocket;
    made.headers = {{"Upgrade", "`websocket`."},
                    {"Sec-WebSocket-Key", "16 random bytes as base64 (RFC 6455)."},
                    {"Sec-WebSocket-Version", "`13`."}};
    made.responses = {{101, "The WebSocket.", "ProcessFrames"}};
    made.errors = lease_errors({Errc::invalid_field, Errc::upgrade_required, Errc::too_many_streams});
    return made;
}

Route output_route(Api& api) {
    Route made{Method::get, "/v1/sandboxes/{id}/processes/{processId}/output", "getProcessOutput",
               "What a process has written: a page of what is kept; with Accept: text/event-stream all from "
               "`after` on, live, until it has ended. A page is no activity of the conversation. A client "
               "that leaves ends nothing.",
               bind_handler(api, async_output)};
    made.query = {k_after_byte_parameter, k_named_parameter};
    made.headers = {
        {"Last-Event-ID", "Of an event stream: the id of the last frame that was seen; wins over `after`."}};
    made.responses = {{200, "A page.", "ProcessOutput"},
                      {200, "What it writes, and how it ends.", "ProcessStream", k_event_stream_type}};
    made.errors = lease_errors({Errc::invalid_field, Errc::too_many_streams});
    return made;
}

}  // namespace

std::vector<Route> process_follow_routes(Api& api) {
    std::vector<Route> routes;
    routes.push_back(socket_route(api));
    routes.push_back(output_route(api));
    return routes;
}

}  // namespace atl::http
