#include "http/api/websocket_session.hpp"

#include <algorithm>
#include <optional>

#include "core/base/json_writer.hpp"
#include "http/api/forms.hpp"
#include "http/server/problem.hpp"
#include "http/wire/heartbeat.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// Frames of one client in one turn of the loop: others wait meanwhile.
constexpr int k_frames_a_turn = 32;
// A buffer that an idle WebSocket keeps.
constexpr std::size_t k_kept_output_bytes = 1024;

// How long input waits after a message that inflation made longer by `gained_bytes`.
std::chrono::microseconds pause_for(std::size_t gained_bytes) {
    return std::chrono::microseconds(gained_bytes * 1'000'000 / base::k_inflate_gain_bytes_per_s);
}

// Inflation may gain 256 KiB without a pause. This is the pause for that gain.
constexpr std::chrono::milliseconds k_free_pause{125};

/// The stable word for the close code of a client's mistake.
std::string_view word_of(CloseCode code) {
    switch (code) {
        case CloseCode::unsupported_data:
            return "unsupported_data";
        case CloseCode::invalid_payload:
            return "invalid_payload";
        case CloseCode::message_too_big:
            return "message_too_big";
        default:
            return "protocol_error";
    }
}

}  // namespace

/// State that callbacks set; a callback may come after the session has ended.
struct WebSocketSession::Shared {
    bool woken = true;
    bool busy = false;  // a message has no reply yet: later frames wait
    std::optional<base::Result<void>> reply;
    std::shared_ptr<WakeEvent> wake;
};

WebSocketSession::WebSocketSession(std::unique_ptr<EventFeed> feed, WebSocketActions actions,
                                   std::size_t message_bytes, SharedDeflate* deflate)
    : feed_(std::move(feed)),
      actions_(std::move(actions)),
      deflate_(deflate),
      parser_({message_bytes}, deflate == nullptr ? nullptr : &deflate->inflater()),
      shared_(std::make_shared<Shared>()) {}

base::Task<> WebSocketSession::async_run(Connection& connection, const ServerState& state) {
    shared_->wake = connection.wake();
    feed_->on_wake([shared = shared_](std::size_t together) {
        shared->woken = true;
        shared->wake->post(lane_among(together));
    });
    const auto now = connection.now();
    ping_at_ = now + first_heartbeat(state.settings.heartbeat_interval, now);
    for (;;) {
        advance(connection, state);
        if (!out_.empty()) {
            const Io io = co_await connection.async_send(out_);
            out_.clear();
            if (out_.capacity() > k_kept_output_bytes)
                std::string().swap(out_);
            if (io != Io::ok)
                co_return;
        }
        if (closing_) {
            parser_.drop_payload();
            place_.release();
            co_await async_end(connection, state);
            co_return;
        }
        const Io io = co_await async_wait(connection);
        // Input that arrived before the end still counts.
        const bool has_input = may_read(connection);
        if (io == Io::deadline ? !on_deadline(state) : io != Io::ok && !(io == Io::eof && has_input))
            co_return;
    }
}

// No close frame will follow if the peer sent one already, or if its bytes cannot be read as frames.
bool WebSocketSession::awaits_close() const noexcept {
    return parser_.opcode() != Opcode::close && close_code_ != CloseCode::protocol_error;
}

// RFC 6455 section 7.1.1: the connection ends once both have sent a close frame. A proxy may take the
// server's shutdown for the end of the whole connection. A client that is still sending would then lose the
// server's close frame.
base::Task<> WebSocketSession::async_end(Connection& connection, const ServerState& state) {
    CloseFrameFinder finder(parser_.position());
    connection.set_deadline(state.settings.linger_deadline);
    while (awaits_close() && !finder.feed(connection.input())) {
        connection.consume(connection.input().size());
        const Io io = co_await connection.async_fill();
        if (io != Io::ok)
            co_return;
    }
    co_await connection.async_linger();
}

// False: the client is gone.
bool WebSocketSession::on_deadline(const ServerState& state) {
    const auto now = state.clock.steady_now();
    if (now >= message_until_ && place_.is_waiting()) {
        close(CloseCode::try_again_later, base::code_name(Errc::capacity),
              "the server has no memory left for long messages");
        return true;
    }
    if (now >= message_until_) {
        close(CloseCode::policy_violation, base::code_name(Errc::request_timeout),
              "a message has to be complete in time");
        return true;
    }
    if (now < ping_at_)
        return true;
    // Its pong may lie behind input that is not read yet.
    if (place_.is_waiting())
        awaits_pong_ = false;
    write_frame(out_, Opcode::ping, {});
    ping_at_ = now + state.settings.heartbeat_interval;
    return !std::exchange(awaits_pong_, true);
}

bool WebSocketSession::may_read(const Connection& connection) const {
    if (shared_->busy || connection.input().empty() || place_.is_waiting())
        return false;
    return deflate_ == nullptr || connection.now() >= read_after_;
}

base::Task<Io> WebSocketSession::async_wait(Connection& connection) {
    if (shared_->reply) {
        connection.wake()->post();
    } else if (more_ || may_read(connection)) {
        // A long replay, and a client that never pauses.
        connection.wake()->post(WakeLane::step);
    } else if (shared_->woken) {
        connection.wake()->post();
    } else {
        auto until = std::min(ping_at_, message_until_);
        if (!shared_->busy && !place_.is_waiting() && !connection.input().empty())
            until = std::min(until, read_after_);
        connection.set_deadline(std::chrono::ceil<base::Millis>(until - connection.now()));
    }
    co_return co_await connection.async_idle();
}

// Does all work that is possible now; the output is in out_ afterwards.
void WebSocketSession::advance(Connection& connection, const ServerState& state) {
    take_reply();
    read_frames(connection, state);
    set_message_deadline(state);
    if (closing_)
        return;
    if (state.stopping)
        return close(CloseCode::going_away, base::code_name(Errc::shutting_down));
    if (more_ || std::exchange(shared_->woken, false))
        more_ = pull(base::k_replay_batch_bytes, connection.now());
}

// The wait for a place has a deadline, and the rest of the message has another.
void WebSocketSession::set_message_deadline(const ServerState& state) {
    const bool changed = std::exchange(waited_for_place_, place_.is_waiting()) != place_.is_waiting();
    if (!parser_.is_inside() || shared_->busy)
        message_until_ = base::SteadyTime::max();
    else if (changed || message_until_ == base::SteadyTime::max())
        message_until_ = state.clock.steady_now() + state.settings.body_deadline;
}

// Whether more of the message that has begun may be read.
bool WebSocketSession::has_place(Connection& connection, const ServerState& state) {
    if (parser_.held_bytes() > base::k_free_body_bytes)
        place_.ask(state.bodies, parser_.most_bytes(), connection.wake());
    return !place_.is_waiting();
}

void WebSocketSession::read_frames(Connection& connection, const ServerState& state) {
    for (int frames = 0; frames < k_frames_a_turn && !closing_; ++frames) {
        if (!may_read(connection) || !has_place(connection, state))
            return;
        const auto step = parser_.feed(connection.input());
        connection.consume(step.used);
        awaits_pong_ = false;
        if (step.outcome == WebSocketParser::Outcome::failed)
            return close(parser_.close_code(), word_of(parser_.close_code()), parser_.reason());
        if (step.outcome != WebSocketParser::Outcome::incomplete) {
            pay_for_inflation(connection.now());
            if (admit())
                on_frame();
        }
        if (step.outcome == WebSocketParser::Outcome::message) {
            parser_.drop_payload();
            place_.release();
        }
        take_reply();
    }
}

// False: the frame exceeds the limit. A message is answered with its refusal; a ping or pong gets nothing.
bool WebSocketSession::admit() {
    if (!actions_.admit_frame || parser_.opcode() == Opcode::close)
        return true;
    const auto admitted = actions_.admit_frame();
    if (admitted.has_value()) {
        over_limit_ = 0;
        return true;
    }
    if (++over_limit_ > base::k_max_frames_over_limit)
        close(CloseCode::policy_violation, base::code_name(admitted.error().code()),
              "the client went on sending more than it may");
    else if (!WebSocketParser::is_control(parser_.opcode()))
        reject(admitted.error());
    return false;
}

// Also for a message that is refused then: it has been inflated.
void WebSocketSession::pay_for_inflation(base::SteadyTime now) {
    const std::size_t gained = WebSocketParser::is_control(parser_.opcode()) ? 0 : parser_.gained_bytes();
    if (gained > 0)
        read_after_ = std::max(read_after_, now - k_free_pause) + pause_for(gained);
}

void WebSocketSession::on_frame() {
    switch (parser_.opcode()) {
        case Opcode::text:
            return on_text(parser_.payload());
        case Opcode::binary:
            return close(CloseCode::unsupported_data, word_of(CloseCode::unsupported_data),
                         "frames are JSON text");
        case Opcode::ping:
            return write_frame(out_, Opcode::pong, parser_.payload());
        case Opcode::close:
            // RFC 6455 section 5.5.1: answered with the same code.
            closing_ = true;
            return write_frame(out_, Opcode::close, parser_.payload().substr(0, 2));
        case Opcode::pong:
        case Opcode::continuation:
            return;
    }
}

void WebSocketSession::on_text(std::string_view text) {
    if (const auto done = obey(text); done.has_error())
        reject(done.error());
}

base::Result<void> WebSocketSession::obey(std::string_view text) {
    const auto json = parse_json(text);
    if (json.has_error())
        return json.error();
    auto frame = read_client_frame(*json);
    if (frame.has_error())
        return frame.error();
    if (frame->kind == ClientFrame::Kind::interrupt)
        return actions_.interrupt();
    send_message(std::move(frame->content), std::move(frame->idempotency_key));
    return {};
}

void WebSocketSession::send_message(std::string content, std::string idempotency_key) {
    shared_->busy = true;
    actions_.message(std::move(content), std::move(idempotency_key),
                     [shared = shared_](base::Result<void> result) {
                         shared->reply = std::move(result);
                         shared->wake->post();
                     });
}

void WebSocketSession::take_reply() {
    if (!shared_->reply)
        return;
    if (shared_->reply->has_error())
        reject(shared_->reply->error());
    shared_->reply.reset();
    shared_->busy = false;
}

// Appends the events after the cursor. True: there are more.
bool WebSocketSession::pull(std::size_t limit_bytes, base::SteadyTime now) {
    std::size_t taken = 0;
    std::size_t worked = 0;
    const std::size_t most = deflate_ == nullptr ? limit_bytes : base::k_deflate_turn_bytes;
    while (taken < limit_bytes && worked < base::k_deflate_turn_bytes) {
        const auto batch = feed_->next(std::min(limit_bytes - taken, most));
        if (batch.has_error()) {
            close_for(batch.error());
            return false;
        }
        for (const auto& event : batch->events) {
            worked += write_event(event, now);
            taken += event->cost_bytes();
        }
        if (batch->gone) {
            close(k_close_conversation_ended, base::code_name(Errc::conversation_ended));
            return false;
        }
        if (batch->events.empty())
            return false;
    }
    return true;
}

// Gives the bytes that had to be compressed for it.
std::size_t WebSocketSession::write_event(const conversation::EventPtr& event, base::SteadyTime now) {
    SharedDeflate::Payload payload;
    if (deflate_ != nullptr)
        payload = deflate_->payload_of(event, now);
    if (payload.bytes.empty())
        write_frame(out_, Opcode::text, event->json);
    else
        write_deflated_text(out_, payload.bytes);
    return payload.worked_bytes;
}

void WebSocketSession::reject(const Error& error) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    json.key("type").string("rejected");
    json.key("code").string(base::code_name(error.code()));
    json.key("detail").string(error_detail(error));
    json.end_object();
    write_frame(out_, Opcode::text, text);
}

void WebSocketSession::close_for(const Error& error) {
    const auto code = error.code() == Errc::seq_expired ? k_close_seq_expired : CloseCode::internal_error;
    close(code, base::code_name(error.code()));
}

void WebSocketSession::close(CloseCode code, std::string_view word, std::string_view detail) {
    if (std::exchange(closing_, true))
        return;
    close_code_ = code;
    std::string reason;
    base::JsonWriter json(reason);
    json.begin_object();
    json.key("code").string(word);
    json.key("after").number(feed_->cursor());
    if (!detail.empty())
        json.key("detail").string(detail);
    json.end_object();
    write_close_frame(out_, code, reason);
}

}  // namespace atl::http
