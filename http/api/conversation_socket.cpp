// The route of a conversation's WebSocket.
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/websocket_session.hpp"
#include "http/websocket/handshake.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;
using conversation::Manager;
using conversation::TurnTicket;

// A read-only client needs no room for messages: a frame of this size is enough to get the refusal.
constexpr std::size_t k_reader_frame_bytes = 4096;

WebSocketActions actions_on(Api& api, const std::string& id, const std::string& by) {
    WebSocketActions actions;
    actions.message = [&api, id, by](std::string content, std::string key, Manager::MessageReply when,
                                     WebSocketActions::Reply reply) {
        api.conversations.message(id, {std::move(content), std::move(key), by}, when, std::move(reply));
    };
    const auto tell_turn = [](WebSocketActions::Reply reply) {
        return [reply = std::move(reply)](const Result<conversation::View>& done) {
            if (done.has_error())
                reply(done.error());
            else
                reply(TurnTicket{done->record.last_turn, done->record.last_seq, false});
        };
    };
    actions.interrupt = [&api, id, tell_turn](WebSocketActions::Reply reply) {
        api.conversations.interrupt(id, tell_turn(std::move(reply)));
    };
    actions.permission = [&api, id, tell_turn](const std::string& permission_id, const std::string& option_id,
                                               WebSocketActions::Reply reply) {
        api.conversations.answer_permission(id, permission_id, option_id, tell_turn(std::move(reply)));
    };
    return actions;
}

/// The actions of a client that may only follow.
WebSocketActions no_actions() {
    const base::Error refusal(Errc::read_only_token,
                              "This token is for reading; get one with the scope chat.");
    WebSocketActions actions;
    actions.message = [refusal](std::string, std::string, Manager::MessageReply,
                                const WebSocketActions::Reply& reply) { reply(refusal); };
    actions.interrupt = [refusal](const WebSocketActions::Reply& reply) { reply(refusal); };
    actions.permission = [refusal](const std::string&, const std::string&,
                                   const WebSocketActions::Reply& reply) { reply(refusal); };
    return actions;
}

Task<Result<std::unique_ptr<EventFeed>>> async_open_feed(Api& api, RequestContext& context,
                                                         const std::string& id,
                                                         const conversation::Cursor& after,
                                                         StreamLease lease) {
    using Subscription = std::unique_ptr<conversation::Subscription>;
    auto start = [&](Manager::Reply<Subscription> reply) {
        api.conversations.subscribe(id, after, std::move(reply));
    };
    auto subscription = co_await context.async_reply<Subscription>(start);
    if (subscription.has_value()) {
        (*subscription)->follow();
        co_return std::unique_ptr<EventFeed>(
            std::make_unique<SubscriptionFeed>(std::move(*subscription), std::move(lease)));
    }
    // A token was made for a conversation that was there.
    const bool is_removed = context.principal.is_token() && subscription.error().code() == Errc::not_found;
    const Errc code = subscription.error().code();
    if (code != Errc::seq_expired && code != Errc::log_replaced && !is_removed)
        co_return subscription.error();
    const base::Error error = is_removed ? base::Error(Errc::conversation_ended) : subscription.error();
    conversation::Cursor from = api.conversations.log_beginning();
    if (code != Errc::log_replaced)
        from.seq = after.seq;
    co_return std::unique_ptr<EventFeed>(std::make_unique<RefusedFeed>(error, std::move(from)));
}

Task<Result<Response>> async_open_socket(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    if (const auto valid = check_handshake(context.request); valid.has_error())
        co_return valid.error();
    const auto after = log_cursor(context);
    if (after.has_error())
        co_return after.error();
    auto lease = context.stream_lease(*id);
    if (lease.has_error())
        co_return lease.error();
    lease->reader = api.subscribers.enter(SubscriberKind::websocket);
    auto feed = co_await async_open_feed(api, context, *id, *after, std::move(*lease));
    if (feed.has_error())
        co_return feed.error();
    const bool reads_only = context.principal.scope == Scope::read;
    WebSocketActions actions =
        reads_only ? no_actions() : actions_on(api, *id, sender_name(context.principal));
    actions.admit_frame = frame_limit(context);
    auto payer = (*feed)->payer();
    auto session = std::make_unique<WebSocketSession>(
        std::move(*feed), std::move(actions), reads_only ? k_reader_frame_bytes : base::k_max_body_bytes,
        context.principal.expires_at);
    Response response = accept_handshake(context.request, std::move(session));
    response.payer = std::move(payer);
    co_return response;
}

}  // namespace

std::vector<Route> socket_routes(Api& api) {
    std::vector<Route> routes(1);
    Route& socket = routes[0];
    socket.method = Method::get;
    socket.pattern = "/v1/conversations/{id}/ws";
    socket.name = "openWebSocket";
    socket.summary =
        "A WebSocket: each text frame of the server is one Event from `after` on, live, or Accepted or "
        "Rejected; the client's are ClientFrame. A close frame's reason is `{logEpoch, code, after, "
        "detail?}`. A bad or expired token gets the WebSocket and "
        "the close code 4401, one for something else 4403, as does a page whose origin is not allowed; a "
        "cursor of another log, 4410 `log_replaced`.";
    socket.handler = bind_handler(api, async_open_socket);
    socket.query = {k_log_cursor_parameter, k_token_parameter};
    socket.auth = Auth::token_or_key;
    socket.opens = Opens::websocket;
    socket.headers = {{"Upgrade", "`websocket`."},
                      {"Sec-WebSocket-Key", "16 random bytes as base64 (RFC 6455)."},
                      {"Sec-WebSocket-Version", "`13`."}};
    socket.responses = {{101, "The WebSocket.", "WebSocketFrames"}};
    socket.errors = {Errc::not_found, Errc::invalid_field, Errc::upgrade_required, Errc::storage_failed,
                     Errc::too_many_streams};
    return routes;
}

}  // namespace atl::http
