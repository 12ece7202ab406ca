// The loop of a WebSocket, whatever runs on it: reads the client's frames, pings, and ends it as RFC 6455
// wants it ended, also when the client's credential expires. Invariants: a client that neither reads nor
// answers a ping, or leaves a message unfinished, is cut off; the rest of a long message is read only once it
// has a place in the body budget; while the session is busy no frame is read. Not here: what messages mean
// and what is sent (websocket_session.hpp, process_socket.hpp), frames (http/websocket/codec.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/server/context.hpp"
#include "http/server/server_state.hpp"
#include "http/websocket/closing.hpp"
#include "http/websocket/codec.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Asked with 0 for each message and control frame but a close; an error refuses it. Told how many values the
/// JSON of a message had, once it is parsed. Empty: there is no limit.
using AdmitFrame = std::function<base::Result<void>(std::size_t nodes)>;
/// Frames count as requests of the client that opened the WebSocket.
AdmitFrame frame_limit(const RequestContext& context);

class FrameSession : public Takeover {
  public:
    base::Task<> async_run(Connection& connection, const ServerState& state) final;

  protected:
    struct Options {
        std::size_t message_bytes;
        /// When the client's credential expires: from then on no frame is obeyed. max: never.
        base::SteadyTime expires_at = base::SteadyTime::max();
        AdmitFrame admit_frame;
    };
    explicit FrameSession(Options options);

    /// The WebSocket begins; `wake` is posted to have advance() called.
    virtual void begin(const std::shared_ptr<WakeEvent>& wake) = 0;
    /// Each turn, first; and behind each frame.
    virtual void settle() {}
    /// A text or a binary message.
    virtual void on_message(Opcode opcode, std::string_view payload) = 0;
    /// A message exceeds the limit of frames.
    virtual void on_refused(const base::Error& error) = 0;
    /// Each turn, behind the frames: puts into out() what there is to send, or closes.
    virtual void produce(base::SteadyTime now) = 0;
    /// No frame is read.
    virtual bool is_busy() const = 0;
    /// The next turn begins at once; else at this time at the latest.
    virtual bool has_work() const = 0;
    virtual base::SteadyTime wakes_at() const { return base::SteadyTime::max(); }
    /// Where a client goes on, for the reason of a close frame.
    virtual std::uint64_t resume_point() const = 0;
    /// The epoch of the log that resume_point() is a place in; empty: there is none.
    virtual std::string_view log_epoch() const { return {}; }
    /// True while a message is still held: its place in the budget is, too, until give_place_back().
    virtual bool keeps_message() const { return false; }
    /// Nothing is read or sent any more but close frames.
    virtual void on_closing() {}

    /// The bytes to send next.
    std::string& out() noexcept { return out_; }
    const WebSocketParser& parser() const noexcept { return parser_; }
    void close(CloseCode code, std::string_view word, std::string_view detail = {});
    /// The JSON of a message. Errors: as RequestContext::json_body().
    base::Result<Json> parse(std::string_view text, base::JsonBudget budget = base::k_client_json) const;
    void give_place_back() { place_.release(); }

  private:
    void advance(Connection& connection, const ServerState& state);
    void read_frames(Connection& connection, const ServerState& state);
    void on_frame();
    bool admit();
    bool may_read(const Connection& connection) const;
    bool has_place(Connection& connection, const ServerState& state);
    void set_message_deadline(const ServerState& state);
    base::Task<Io> async_wait(Connection& connection);
    bool on_deadline(const ServerState& state);
    bool awaits_close() const noexcept;
    base::Task<> async_end(Connection& connection, const ServerState& state);

    const base::SteadyTime expires_at_;
    AdmitFrame admit_frame_;
    WebSocketParser parser_;
    BodyBudget::Place place_;  // of a message that is not complete, or not used yet
    bool waited_for_place_ = false;
    std::string out_;
    bool closing_ = false;
    CloseCode close_code_ = CloseCode::normal;  // of a close frame that the server began
    bool awaits_pong_ = false;
    std::size_t over_limit_ = 0;  // frames in a row that were too many
    base::SteadyTime ping_at_{};
    base::SteadyTime message_until_ =
        base::SteadyTime::max();  // when a message that has begun must be complete
};

/// `{"type":"rejected", …}`, as a frame. `id`: of the client's frame, as JSON; empty: it has none.
void write_rejection(std::string& out, const base::Error& error, std::string_view id = {});

/// The stable word for the close code of a client's mistake.
std::string_view word_of(CloseCode code);

}  // namespace atl::http
