#include "http/api/websocket_session.hpp"

#include <algorithm>
#include <optional>

#include "core/base/json_writer.hpp"

namespace atl::http {

using base::Errc;
using base::Error;

/// State that callbacks set; a callback may come after the session has ended.
struct WebSocketSession::Shared {
    bool woken = true;
    bool busy = false;  // a frame has no reply yet: later ones wait
    std::optional<base::Result<conversation::TurnTicket>> reply;
    std::shared_ptr<WakeEvent> wake;
};

WebSocketSession::WebSocketSession(std::unique_ptr<EventFeed> feed, WebSocketActions actions,
                                   std::size_t message_bytes, base::SteadyTime expires_at)
    : FrameSession({message_bytes, expires_at, std::move(actions.admit_frame)}),
      feed_(std::move(feed)),
      actions_(std::move(actions)),
      shared_(std::make_shared<Shared>()) {}

void WebSocketSession::begin(const std::shared_ptr<WakeEvent>& wake) {
    shared_->wake = wake;
    feed_->on_wake([shared = shared_] {
        shared->woken = true;
        shared->wake->post();
    });
}

bool WebSocketSession::is_busy() const {
    return shared_->busy;
}

// A long replay has more.
bool WebSocketSession::has_work() const {
    return shared_->reply || more_ || shared_->woken;
}

void WebSocketSession::produce(base::SteadyTime /*now*/) {
    if (more_ || std::exchange(shared_->woken, false))
        more_ = pull(base::k_replay_batch_bytes);
}

void WebSocketSession::on_refused(const Error& error) {
    write_rejection(out(), error, find_id());
}

void WebSocketSession::on_message(Opcode opcode, std::string_view payload) {
    if (opcode == Opcode::text)
        return on_text(payload);
    close(CloseCode::unsupported_data, word_of(CloseCode::unsupported_data), "frames are JSON text");
}

void WebSocketSession::on_text(std::string_view text) {
    const auto json = parse(text);
    if (json.has_error())
        return write_rejection(out(), json.error(), {});
    const std::string id = frame_id(*json).value_or("");
    auto frame = read_client_frame(*json);
    if (frame.has_error())
        return write_rejection(out(), frame.error(), id);
    if (frame->kind == ClientFrame::Kind::message)
        return send_message(std::move(*frame));
    if (frame->kind == ClientFrame::Kind::permission)
        return actions_.permission(std::move(frame->permission_id), std::move(frame->option_id),
                                   await_reply(frame->kind, id));
    actions_.interrupt(await_reply(frame->kind, id));
}

WebSocketActions::Reply WebSocketSession::await_reply(ClientFrame::Kind kind, std::string id) {
    shared_->busy = true;
    asked_ = kind;
    asked_id_ = std::move(id);
    return [shared = shared_](base::Result<conversation::TurnTicket> result) {
        shared->reply = std::move(result);
        shared->wake->post();
    };
}

// Without an id the events of the turn tell of it, after their commit, or `rejected` where the store does not
// take them in time. `accepted` is a promise, so it waits for that commit.
void WebSocketSession::send_message(ClientFrame frame) {
    using conversation::MessageReply;
    const auto when = frame.id.empty() ? MessageReply::at_once : MessageReply::committed;
    actions_.message(std::move(frame.content), std::move(frame.idempotency_key), when,
                     await_reply(frame.kind, std::move(frame.id)));
}

void WebSocketSession::take_reply() {
    if (!shared_->reply)
        return;
    const std::string id = std::exchange(asked_id_, {});
    if (shared_->reply->has_error())
        write_rejection(out(), shared_->reply->error(), id);
    else if (id.empty() && asked_ == ClientFrame::Kind::message)
        // The store has a turn that is replayed.
        untold_turn_ = (*shared_->reply)->replayed ? 0 : (*shared_->reply)->turn;
    else
        accept(**shared_->reply, id);
    shared_->reply.reset();
    shared_->busy = false;
}

// Appends the events after the cursor. True: there are more.
bool WebSocketSession::pull(std::size_t limit_bytes) {
    std::size_t taken = 0;
    while (taken < limit_bytes) {
        const auto batch = feed_->next(limit_bytes - taken);
        if (batch.has_error()) {
            close_for(batch.error());
            return false;
        }
        for (const auto& event : batch->events) {
            if (event->turn == untold_turn_)
                untold_turn_ = 0;
            write_frame(out(), Opcode::text, event->json);
            taken += event->cost_bytes();
        }
        if (batch->gone) {
            close(k_close_conversation_ended, base::code_name(Errc::conversation_ended));
            return false;
        }
        if (batch->stalled)
            tell_stalled();
        if (batch->events.empty())
            return false;
    }
    return true;
}

// To the client whose message it is, once: other readers wait on.
void WebSocketSession::tell_stalled() {
    const std::uint64_t turn = std::exchange(untold_turn_, 0);
    if (turn != 0)
        write_rejection(out(), Error(Errc::storage_failed,
                                     "The database does not take the turn " + conversation::turn_name(turn) +
                                         ": it runs, and its events come when the database takes writes "
                                         "again."));
}

// A frame without an id is accepted silently.
void WebSocketSession::accept(const conversation::TurnTicket& ticket, std::string_view id) {
    if (id.empty())
        return;
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    json.key("type").string("accepted");
    json.key("id").raw(id);
    json.key("turn").string(conversation::turn_name(ticket.turn));
    json.key("after").number(ticket.after);
    json.end_object();
    write_frame(out(), Opcode::text, text);
}

// The id of a frame that is refused unread, as JSON; empty: it has none.
std::string WebSocketSession::find_id() const {
    if (parser().opcode() != Opcode::text || parser().payload().size() > base::k_searched_frame_bytes)
        return {};
    base::JsonBudget budget = base::k_client_json;
    const auto json = parse_json(parser().payload(), budget);
    return json.has_error() ? std::string() : frame_id(*json).value_or("");
}

void WebSocketSession::close_for(const Error& error) {
    auto code = CloseCode::internal_error;
    if (error.code() == Errc::seq_expired || error.code() == Errc::log_replaced)
        code = k_close_cursor_void;
    else if (error.code() == Errc::conversation_ended)
        code = k_close_conversation_ended;
    close(code, base::code_name(error.code()));
}

}  // namespace atl::http
