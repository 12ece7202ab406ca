#include "http/websocket/codec.hpp"

#include <algorithm>
#include <cassert>

#include "core/plain/utf8.hpp"
#include "http/websocket/frame_bits.hpp"

namespace atl::http {
namespace {

constexpr unsigned char k_final = 0x80;
constexpr unsigned char k_reserved = 0x70;
constexpr std::size_t k_least_in_2 = 126;
constexpr std::size_t k_least_in_8 = 65536;
// The memory of a message is kept for the next message up to this size.
constexpr std::size_t k_kept_bytes = 1024;

bool is_known(unsigned opcode) noexcept {
    return opcode <= 0x2 || (opcode >= 0x8 && opcode <= 0xa);
}

// RFC 6455 section 7.4: the codes that an endpoint may put into a close frame.
bool may_be_sent(unsigned code) noexcept {
    const bool registered = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
    return registered || (code >= 3000 && code <= 4999);
}

unsigned first_two(std::string_view payload) noexcept {
    return static_cast<unsigned>(static_cast<unsigned char>(payload[0])) << 8 |
           static_cast<unsigned char>(payload[1]);
}

}  // namespace

WebSocketParser::Outcome WebSocketParser::fail(CloseCode code, std::string_view reason) noexcept {
    close_code_ = code;
    reason_ = reason;
    return Outcome::failed;
}

WebSocketParser::Step WebSocketParser::feed(std::string_view input) {
    if (std::exchange(done_, false)) {
        if (is_control(done_opcode_))
            control_.clear();
        else
            drop_payload();
    }
    Step step;
    for (;;) {
        if (!in_payload_) {
            step.used += take_head(input.substr(step.used));
            if (head_bytes_ < head_size())
                return step;
            step.outcome = begin_frame();
        } else {
            const auto rest = input.substr(step.used);
            const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), payload_left_));
            step.used += count;
            step.outcome = take_payload(rest.substr(0, count));
        }
        if (step.outcome == Outcome::incomplete && in_payload_ && payload_left_ == 0)
            step.outcome = end_frame();
        if (step.outcome != Outcome::incomplete || (in_payload_ && step.used == input.size()))
            return step;
    }
}

std::size_t WebSocketParser::most_bytes() const noexcept {
    const bool is_last = in_payload_ && frame_is_final_ && !is_control(frame_opcode_);
    return is_last ? message_.size() + static_cast<std::size_t>(payload_left_) : limits_.message_bytes;
}

void WebSocketParser::drop_payload() noexcept {
    message_.clear();
    if (message_.capacity() > k_kept_bytes)
        std::string().swap(message_);
    control_.clear();
    done_ = false;
}

// How long the head of this frame is, as far as its first two bytes are known.
std::size_t WebSocketParser::head_size() const noexcept {
    if (head_bytes_ < 2)
        return 2;
    const unsigned char length = head_[1] & k_length;
    const std::size_t extended = length == k_length_in_2 ? 2 : length == k_length_in_8 ? 8 : 0;
    return 2 + extended + ((head_[1] & k_masked) != 0 ? k_mask_bytes : 0);
}

std::size_t WebSocketParser::take_head(std::string_view input) {
    std::size_t used = 0;
    while (used < input.size() && head_bytes_ < head_size())
        head_[head_bytes_++] = static_cast<unsigned char>(input[used++]);
    return used;
}

WebSocketParser::Outcome WebSocketParser::begin_frame() {
    const unsigned opcode = head_[0] & k_opcode;
    if ((head_[0] & k_reserved) != 0)
        return fail(CloseCode::protocol_error, "a reserved bit is set");
    if (!is_known(opcode))
        return fail(CloseCode::protocol_error, "unknown opcode");
    if ((head_[1] & k_masked) == 0)
        return fail(CloseCode::protocol_error, "a client's frames must be masked");
    frame_opcode_ = static_cast<Opcode>(opcode);
    frame_is_final_ = (head_[0] & k_final) != 0;
    payload_left_ = head_[1] & k_length;
    const std::size_t mask_offset = head_size() - k_mask_bytes;
    if (payload_left_ >= k_length_in_2) {
        const std::size_t least = payload_left_ == k_length_in_2 ? k_least_in_2 : k_least_in_8;
        payload_left_ = 0;
        for (std::size_t i = 2; i < mask_offset; ++i)
            payload_left_ = payload_left_ << 8 | head_[i];
        if (payload_left_ < least || payload_left_ > INT64_MAX)
            return fail(CloseCode::protocol_error, "a length is not in its shortest form");
    }
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(mask_offset), k_mask_bytes, mask_.begin());
    mask_at_ = 0;
    head_bytes_ = 0;
    in_payload_ = true;
    if (is_control(frame_opcode_)) {
        if (!frame_is_final_ || payload_left_ > k_max_control_bytes)
            return fail(CloseCode::protocol_error, "a control frame is fragmented or too long");
        return Outcome::incomplete;
    }
    const bool continues = frame_opcode_ == Opcode::continuation;
    if (continues != message_opcode_.has_value())
        return fail(CloseCode::protocol_error,
                    continues ? "a continuation without a beginning" : "a message begins inside another");
    if (!continues) {
        message_opcode_ = frame_opcode_;
        utf8_ = {};
    }
    if (payload_left_ > limits_.message_bytes - message_.size())
        return fail(CloseCode::message_too_big, "the message is too long");
    return Outcome::incomplete;
}

WebSocketParser::Outcome WebSocketParser::take_payload(std::string_view bytes) {
    std::string& target = is_control(frame_opcode_) ? control_ : message_;
    const std::size_t before = target.size();
    target.resize(before + bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
        target[before + i] =
            static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ mask_[(mask_at_ + i) % k_mask_bytes]);
    mask_at_ = (mask_at_ + bytes.size()) % k_mask_bytes;
    payload_left_ -= bytes.size();
    const bool is_text = !is_control(frame_opcode_) && message_opcode_ == Opcode::text;
    if (is_text && !utf8_.feed(std::string_view(target).substr(before)))
        return fail(CloseCode::invalid_payload, "the text is not UTF-8");
    return Outcome::incomplete;
}

WebSocketParser::Outcome WebSocketParser::end_frame() {
    in_payload_ = false;
    if (is_control(frame_opcode_)) {
        done_opcode_ = frame_opcode_;
        done_ = true;
        return frame_opcode_ == Opcode::close ? check_close() : Outcome::control;
    }
    if (!frame_is_final_)
        return Outcome::incomplete;
    if (message_opcode_ == Opcode::text && !utf8_.is_complete())
        return fail(CloseCode::invalid_payload, "the text ends inside a character");
    done_opcode_ = *message_opcode_;
    message_opcode_.reset();
    done_ = true;
    return Outcome::message;
}

WebSocketParser::Outcome WebSocketParser::check_close() {
    if (control_.size() == 1 || (!control_.empty() && !may_be_sent(first_two(control_))))
        return fail(CloseCode::protocol_error, "a close frame without a usable code");
    if (control_.size() > 2 && !base::is_utf8(std::string_view(control_).substr(2)))
        return fail(CloseCode::invalid_payload, "the reason of a close frame is not UTF-8");
    return Outcome::control;
}

CloseCode read_close_code(std::string_view payload) noexcept {
    return payload.size() < 2 ? CloseCode::no_status : static_cast<CloseCode>(first_two(payload));
}

void write_frame(std::string& out, Opcode opcode, std::string_view payload) {
    assert(!WebSocketParser::is_control(opcode) || payload.size() <= k_max_control_bytes);
    out += static_cast<char>(k_final | static_cast<unsigned>(opcode));
    const std::size_t size = payload.size();
    std::size_t extended = 0;
    if (size < k_least_in_2) {
        out += static_cast<char>(size);
    } else {
        extended = size < k_least_in_8 ? 2 : 8;
        out += static_cast<char>(extended == 2 ? k_length_in_2 : k_length_in_8);
    }
    for (std::size_t i = extended; i > 0; --i)
        out += static_cast<char>(size >> (8 * (i - 1)) & 0xff);
    out += payload;
}

void write_close_frame(std::string& out, CloseCode code, std::string_view reason) {
    const auto number = static_cast<std::uint16_t>(code);
    std::string payload{static_cast<char>(number >> 8), static_cast<char>(number & 0xff)};
    std::size_t size = std::min(reason.size(), k_max_control_bytes - payload.size());
    // Not inside a character: continuation bytes are 10xxxxxx.
    while (size < reason.size() && size > 0 && (static_cast<unsigned char>(reason[size]) & 0xc0) == 0x80)
        --size;
    payload += reason.substr(0, size);
    write_frame(out, Opcode::close, payload);
}

}  // namespace atl::http
