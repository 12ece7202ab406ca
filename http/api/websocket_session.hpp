// A conversation on a WebSocket: its events from a cursor on, live, as text frames; messages and interrupts
// from the client; pings; a close frame that tells the client how to go on.
// Invariants: every frame with a seq is an event of the log, in order, so a client resumes from the last seq
// that it has seen; a refused frame is answered and changes nothing; a client that neither reads nor answers
// a ping, or leaves a message unfinished, is cut off; the rest of a long message is read only once it has a
// place in the body budget; a client whose few bytes inflate to long messages is read more slowly. Not here:
// frames (http/websocket/codec.hpp), the right to open a WebSocket (conversation_socket.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/shared_deflate.hpp"
#include "http/server/server_state.hpp"
#include "http/websocket/codec.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The actions of a client's frames. Every function except admit_frame must be set.
struct WebSocketActions {
    using Reply = std::function<void(base::Result<void>)>;
    /// `reply` once, possibly from inside the call, possibly after the WebSocket has ended.
    std::function<void(std::string content, std::string idempotency_key, Reply reply)> message;
    std::function<base::Result<void>()> interrupt;
    /// Asked for each message and control frame but a close; an error refuses it. None: there is no limit.
    std::function<base::Result<void>()> admit_frame;
};

/// Application codes beside those of RFC 6455. The reason of every close frame that the server begins is
/// `{"code":WORD,"after":SEQ,"detail"?}`: a client resumes from `after`.
inline constexpr auto k_close_conversation_ended = static_cast<CloseCode>(4404);
inline constexpr auto k_close_seq_expired = static_cast<CloseCode>(4410);

class WebSocketSession final : public Takeover {
  public:
    /// `deflate`: where permessage-deflate was agreed to; it must outlive the session.
    WebSocketSession(std::unique_ptr<EventFeed> feed, WebSocketActions actions, std::size_t message_bytes,
                     SharedDeflate* deflate = nullptr);

    base::Task<> async_run(Connection& connection, const ServerState& state) override;

  private:
    struct Shared;

    void advance(Connection& connection, const ServerState& state);
    void read_frames(Connection& connection, const ServerState& state);
    void pay_for_inflation(base::SteadyTime now);
    void on_frame();
    bool admit();
    void on_text(std::string_view text);
    base::Result<void> obey(std::string_view text);
    void send_message(std::string content, std::string idempotency_key);
    void take_reply();
    bool pull(std::size_t limit_bytes, base::SteadyTime now);
    std::size_t write_event(const conversation::EventPtr& event, base::SteadyTime now);
    void reject(const base::Error& error);
    void close(CloseCode code, std::string_view word, std::string_view detail = {});
    void close_for(const base::Error& error);
    bool may_read(const Connection& connection) const;
    bool has_place(Connection& connection, const ServerState& state);
    void set_message_deadline(const ServerState& state);
    base::Task<Io> async_wait(Connection& connection);
    bool on_deadline(const ServerState& state);
    bool awaits_close() const noexcept;
    base::Task<> async_end(Connection& connection, const ServerState& state);

    std::unique_ptr<EventFeed> feed_;
    WebSocketActions actions_;
    SharedDeflate* deflate_;
    WebSocketParser parser_;
    BodyBudget::Place place_;  // of a message that is not complete
    bool waited_for_place_ = false;
    std::shared_ptr<Shared> shared_;
    std::string out_;
    bool more_ = true;  // events that the last pull left
    bool closing_ = false;
    CloseCode close_code_ = CloseCode::normal;  // of a close frame that the server began
    bool awaits_pong_ = false;
    std::size_t over_limit_ = 0;  // frames in a row that were too many
    base::SteadyTime ping_at_{};
    base::SteadyTime message_until_ =
        base::SteadyTime::max();     // when a message that has begun must be complete
    base::SteadyTime read_after_{};  // input waits until then
};

}  // namespace atl::http
