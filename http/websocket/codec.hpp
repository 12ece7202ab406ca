// WebSocket frames (RFC 6455) as a server reads and writes them: a parser of the client's bytes, writers of
// the server's frames. Pure: no socket, no clock. Every byte of a client is hostile. Not here: the opening
// handshake (handshake.hpp), when to ping and to close (http/api/frame_session.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/plain/utf8.hpp"
#include "http/websocket/close_frame_finder.hpp"
#include "http/wire/text.hpp"

namespace atl::http {

/// Close codes of RFC 6455 section 7.4.1 and the registry of IANA.
enum class CloseCode : std::uint16_t {
    normal = 1000,
    going_away = 1001,
    protocol_error = 1002,
    unsupported_data = 1003,
    no_status = 1005,  // never on the wire: the peer's close frame was empty
    invalid_payload = 1007,
    policy_violation = 1008,
    message_too_big = 1009,
    internal_error = 1011,
    try_again_later = 1013,
};

enum class Opcode : std::uint8_t {
    continuation = 0x0,
    text = 0x1,
    binary = 0x2,
    close = 0x8,
    ping = 0x9,
    pong = 0xa,
};

inline constexpr std::size_t k_max_control_bytes = 125;  // RFC 6455 section 5.5

/// Reads a client's frames, joins fragments and makes all checks of the RFC. Text is checked as it arrives,
/// so that a message that cannot become valid ends early.
class WebSocketParser {
  public:
    struct Limits {
        std::size_t message_bytes;  // of a whole message; more is message_too_big
    };

    explicit WebSocketParser(Limits limits) noexcept : limits_(limits) {}

    /// The result of the last feed().
    enum class Outcome : std::uint8_t {
        incomplete,  // all of the input was taken; more is needed
        message,     // text or binary: opcode() and payload()
        control,     // close, ping or pong: opcode() and payload()
        failed,      // the connection has to be closed: close_code() and reason(); feed() must not be called
    };
    struct Step {
        std::size_t used = 0;
        Outcome outcome = Outcome::incomplete;
    };
    /// Takes `input` up to the end of one message or control frame.
    Step feed(std::string_view input);

    Opcode opcode() const noexcept { return done_opcode_; }
    /// Valid until the next feed().
    std::string_view payload() const noexcept { return is_control(done_opcode_) ? control_ : message_; }

    /// The bytes so far of the message that is not complete.
    std::size_t held_bytes() const noexcept { return message_.size(); }
    /// The most that they may become, as far as the frames tell.
    std::size_t most_bytes() const noexcept;
    /// Gives back the memory of payload(), which is not valid any more, and of a message that is not
    /// complete, which then cannot be completed.
    void drop_payload() noexcept;

    /// A frame or a message has begun and is not complete.
    bool is_inside() const noexcept { return head_bytes_ > 0 || in_payload_ || message_opcode_.has_value(); }

    /// Where in the frames the last feed() stopped, also after a failure. Valid until the next feed().
    FramePosition position() const noexcept {
        return {{reinterpret_cast<const char*>(head_.data()), head_bytes_},
                in_payload_ ? payload_left_ : 0,
                in_payload_ && frame_opcode_ == Opcode::close};
    }

    CloseCode close_code() const noexcept { return close_code_; }
    std::string_view reason() const noexcept { return reason_; }

    static bool is_control(Opcode opcode) noexcept { return static_cast<unsigned>(opcode) >= 0x8; }

  private:
    Outcome fail(CloseCode code, std::string_view reason) noexcept;
    std::size_t take_head(std::string_view input);
    Outcome begin_frame();
    Outcome take_payload(std::string_view bytes);
    Outcome end_frame();
    Outcome check_close();
    std::size_t head_size() const noexcept;

    Limits limits_;
    std::array<unsigned char, 14> head_{};
    std::size_t head_bytes_ = 0;
    bool in_payload_ = false;
    bool done_ = false;  // payload() is of a message that the next feed() drops
    Opcode frame_opcode_ = Opcode::continuation;
    bool frame_is_final_ = false;
    std::uint64_t payload_left_ = 0;
    std::array<unsigned char, 4> mask_{};
    std::size_t mask_at_ = 0;
    std::optional<Opcode> message_opcode_;  // of a message that is not complete
    std::string message_;
    std::string control_;
    base::Utf8Check utf8_;
    Opcode done_opcode_ = Opcode::continuation;
    CloseCode close_code_ = CloseCode::normal;
    std::string_view reason_;
};

/// The code of a client's close frame; no_status if the frame was empty. Precondition: the parser gave the
/// payload.
CloseCode read_close_code(std::string_view payload) noexcept;

/// Appends one unfragmented, unmasked frame. A control frame's payload is at most k_max_control_bytes.
void write_frame(std::string& out, Opcode opcode, std::string_view payload);

/// Appends a close frame; `reason` is UTF-8; it is cut to the frame's limit at a character's boundary.
void write_close_frame(std::string& out, CloseCode code, std::string_view reason);

}  // namespace atl::http
