// A conversation on a WebSocket: its events from a cursor on, live, as text frames; messages, interrupts
// and permissions from the client. Invariants: every frame with a seq is an event of the log, in order, so a
// client resumes from the last seq that it has seen; a refused frame is answered and changes nothing, except
// for a message that the store is late with, whose answer says whether its turn runs. Not here: the loop,
// pings, the end (frame_session.hpp), frames (http/websocket/codec.hpp), the right to open a WebSocket
// (conversation_socket.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/conversation/requests.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/forms.hpp"
#include "http/api/frame_session.hpp"

namespace atl::http {

/// The actions of a client's frames. Every function except admit_frame must be set. `reply` comes once,
/// possibly from inside the call, possibly after the WebSocket has ended.
struct WebSocketActions {
    using Reply = conversation::Reply<conversation::TurnTicket>;
    std::function<void(std::string content, std::string idempotency_key, conversation::MessageReply when,
                       Reply reply)>
        message;
    /// Replies with the turn that is interrupted, and the last event before that.
    std::function<void(Reply reply)> interrupt;
    /// Answers a permission; an empty option cancels it. Replies likewise.
    std::function<void(std::string permission_id, std::string option_id, Reply reply)> permission;
    AdmitFrame admit_frame;
};

class WebSocketSession final : public FrameSession {
  public:
    /// `expires_at`: of the client's credential; from then on no frame is obeyed and no event sent. max:
    /// never.
    WebSocketSession(std::unique_ptr<EventFeed> feed, WebSocketActions actions, std::size_t message_bytes,
                     base::SteadyTime expires_at = base::SteadyTime::max());

  private:
    struct Shared;

    void begin(const std::shared_ptr<WakeEvent>& wake) override;
    void settle() override { take_reply(); }
    void on_message(Opcode opcode, std::string_view payload) override;
    void on_refused(const base::Error& error) override;
    void produce(base::SteadyTime now) override;
    bool is_busy() const override;
    bool has_work() const override;
    std::uint64_t resume_point() const override { return feed_->cursor(); }
    std::string_view log_epoch() const override { return feed_->epoch(); }

    void on_text(std::string_view text);
    WebSocketActions::Reply await_reply(ClientFrame::Kind kind, std::string id);
    void send_message(ClientFrame frame);
    void take_reply();
    bool pull(std::size_t limit_bytes);
    void tell_stalled();
    void accept(const conversation::TurnTicket& ticket, std::string_view id);
    std::string find_id() const;
    void close_for(const base::Error& error);

    std::unique_ptr<EventFeed> feed_;
    WebSocketActions actions_;
    std::shared_ptr<Shared> shared_;
    ClientFrame::Kind asked_{};      // the frame that has no reply yet
    std::string asked_id_;           // its id, as JSON; empty: it has none
    std::uint64_t untold_turn_ = 0;  // the client's last, of which nothing has told it yet; 0: none
    bool more_ = true;               // events that the last pull left
};

}  // namespace atl::http
