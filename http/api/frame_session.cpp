#include "http/api/frame_session.hpp"

#include <algorithm>
#include <utility>

#include "core/base/json_writer.hpp"
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

}  // namespace

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

void write_rejection(std::string& out, const Error& error, std::string_view id) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    json.key("type").string("rejected");
    if (!id.empty())
        json.key("id").raw(id);
    json.key("code").string(base::code_name(error.code()));
    json.key("detail").string(error_detail(error));
    json.end_object();
    write_frame(out, Opcode::text, text);
}

AdmitFrame frame_limit(const RequestContext& context) {
    if (context.limits == nullptr)
        return {};
    return [&limits = *context.limits, limited = context.limited](std::size_t nodes) {
        const auto now = std::chrono::steady_clock::now();
        if (nodes == 0)
            return limits.frame(limited, now);
        limits.charge(limited, nodes, now);
        return base::Result<void>();
    };
}

FrameSession::FrameSession(Options options)
    : expires_at_(options.expires_at),
      admit_frame_(std::move(options.admit_frame)),
      parser_({options.message_bytes}) {}

base::Task<> FrameSession::async_run(Connection& connection, const ServerState& state) {
    begin(connection.wake());
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
            on_closing();
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
bool FrameSession::awaits_close() const noexcept {
    return parser_.opcode() != Opcode::close && close_code_ != CloseCode::protocol_error;
}

// RFC 6455 section 7.1.1: the connection ends once both have sent a close frame. A proxy may take the
// server's shutdown for the end of the whole connection. A client that is still sending would then lose the
// server's close frame.
base::Task<> FrameSession::async_end(Connection& connection, const ServerState& state) {
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
bool FrameSession::on_deadline(const ServerState& state) {
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
    if (place_.is_waiting() || is_busy())
        awaits_pong_ = false;
    write_frame(out_, Opcode::ping, {});
    ping_at_ = now + state.settings.heartbeat_interval;
    return !std::exchange(awaits_pong_, true);
}

bool FrameSession::may_read(const Connection& connection) const {
    return !is_busy() && !connection.input().empty() && !place_.is_waiting();
}

base::Task<Io> FrameSession::async_wait(Connection& connection) {
    if (has_work() || may_read(connection)) {
        connection.wake()->post();
    } else {
        const auto until = std::min({ping_at_, message_until_, expires_at_, wakes_at()});
        connection.set_deadline(std::chrono::ceil<base::Millis>(until - connection.now()));
    }
    co_return co_await connection.async_idle();
}

// Does all work that is possible now; the output is in out_ afterwards.
void FrameSession::advance(Connection& connection, const ServerState& state) {
    settle();
    if (state.clock.steady_now() >= expires_at_)
        return close(k_close_token_bad, base::code_name(Errc::token_expired),
                     "get a new token and connect again");
    read_frames(connection, state);
    set_message_deadline(state);
    if (closing_)
        return;
    produce(connection.now());
    if (state.stopping)
        close(CloseCode::going_away, base::code_name(Errc::shutting_down));
}

// The wait for a place has a deadline, and the rest of the message has another.
void FrameSession::set_message_deadline(const ServerState& state) {
    const bool changed = std::exchange(waited_for_place_, place_.is_waiting()) != place_.is_waiting();
    if (!parser_.is_inside() || is_busy())
        message_until_ = base::SteadyTime::max();
    else if (changed || message_until_ == base::SteadyTime::max())
        message_until_ = state.clock.steady_now() + state.settings.body_deadline;
}

// True if more of the message that has begun may be read.
bool FrameSession::has_place(Connection& connection, const ServerState& state) {
    if (parser_.held_bytes() <= base::k_free_body_bytes)
        return !place_.is_waiting();
    const auto asked = place_.ask(state.bodies, connection.payer(), parser_.most_bytes(), connection.wake());
    if (asked.has_error())
        close(CloseCode::try_again_later, base::code_name(asked.error().code()), asked.error().detail());
    return place_.is_held();
}

void FrameSession::read_frames(Connection& connection, const ServerState& state) {
    for (int frames = 0; frames < k_frames_a_turn && !closing_; ++frames) {
        if (!may_read(connection) || !has_place(connection, state))
            return;
        const auto step = parser_.feed(connection.input());
        connection.consume(step.used);
        awaits_pong_ = false;
        if (step.outcome == WebSocketParser::Outcome::failed)
            return close(parser_.close_code(), word_of(parser_.close_code()), parser_.reason());
        if (step.outcome != WebSocketParser::Outcome::incomplete && admit())
            on_frame();
        if (step.outcome == WebSocketParser::Outcome::message) {
            message_until_ = base::SteadyTime::max();  // the next one has its own time
            parser_.drop_payload();
        }
        settle();
        if (step.outcome == WebSocketParser::Outcome::message && !keeps_message())
            place_.release();
    }
}

// False: the frame exceeds the limit. A message is answered with its refusal; a ping or pong gets nothing.
bool FrameSession::admit() {
    if (!admit_frame_ || parser_.opcode() == Opcode::close)
        return true;
    const auto admitted = admit_frame_(0);
    if (admitted.has_value()) {
        over_limit_ = 0;
        return true;
    }
    if (++over_limit_ > base::k_max_frames_over_limit)
        close(CloseCode::policy_violation, base::code_name(admitted.error().code()),
              "the client went on sending more than it may");
    else if (!WebSocketParser::is_control(parser_.opcode()))
        on_refused(admitted.error());
    return false;
}

void FrameSession::on_frame() {
    switch (parser_.opcode()) {
        case Opcode::text:
        case Opcode::binary:
            return on_message(parser_.opcode(), parser_.payload());
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

base::Result<Json> FrameSession::parse(std::string_view text, base::JsonBudget budget) const {
    auto json = parse_json(text, budget);
    if (admit_frame_ && budget.used > 0)
        (void)admit_frame_(budget.used);
    return json;
}

void FrameSession::close(CloseCode code, std::string_view word, std::string_view detail) {
    if (std::exchange(closing_, true))
        return;
    close_code_ = code;
    write_close_frame(out_, code, close_reason(word, resume_point(), detail, log_epoch()));
}

}  // namespace atl::http
