// Frames: how input and output of a program travel behind the reply to `exec` and `attach`. A frame is a
// little-endian u32, the length of the payload; a u8, the type; the payload. Pure and header-only: host and
// guest share it.
//
// The decoder keeps no payload of data: pieces are handed out as they come, so a frame costs no memory. What
// it checks: lengths, which side may send a type, and the order (no input behind the end of stdin, nothing
// behind an exit). Which types a command has is its user's to check.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/plain/guest_limits.hpp"

namespace atl::bridge {

enum class FrameType : std::uint8_t {
    input = 0,      // host: bytes for stdin
    output = 1,     // guest: bytes of stdout
    error = 2,      // guest: bytes of stderr
    input_end = 3,  // host: stdin is closed behind what came before; empty
    signal = 4,     // host: u8, the number of a signal for the process group
    grant = 5,      // guest: u32, so many bytes more may come for stdin
    exit = 6,       // guest, the last frame: ExitStatus
    resize = 7,     // host, of an attached process with a terminal: u16 columns, u16 rows
    dropped = 8,    // guest, of an attached process: u64, so many bytes of output are not kept any more
};

inline constexpr std::size_t k_frame_header_bytes = 5;

/// How a program ended.
struct ExitStatus {
    std::uint8_t code = 0;    // as given to exit(3); 0 if a signal ended it
    std::uint8_t signal = 0;  // that ended it; 0: none
    bool timed_out = false;

    bool operator==(const ExitStatus&) const = default;
};

inline std::array<char, k_frame_header_bytes> frame_header(FrameType type, std::size_t payload_bytes) {
    const auto byte = [payload_bytes](unsigned shift) {
        return static_cast<char>(payload_bytes >> shift & 0xFF);
    };
    return {byte(0), byte(8), byte(16), byte(24), static_cast<char>(type)};
}

/// Appends one frame. `payload` is within base::k_max_frame_bytes, and of the size that the type has.
inline void append_frame(std::string& out, FrameType type, std::string_view payload) {
    const auto header = frame_header(type, payload.size());
    out.append(header.data(), header.size()).append(payload);
}

inline std::string encode_grant(std::uint32_t bytes) {
    std::string out;
    const auto number = frame_header(FrameType::grant, bytes);  // the same four bytes
    append_frame(out, FrameType::grant, {number.data(), 4});
    return out;
}

inline std::string encode_signal(std::uint8_t number) {
    std::string out;
    append_frame(out, FrameType::signal, std::string(1, static_cast<char>(number)));
    return out;
}

inline std::string encode_exit(const ExitStatus& status) {
    const char payload[] = {static_cast<char>(status.code), static_cast<char>(status.signal),
                            static_cast<char>(status.timed_out ? 1 : 0)};
    std::string out;
    append_frame(out, FrameType::exit, {payload, sizeof payload});
    return out;
}

inline std::string encode_resize(std::uint16_t columns, std::uint16_t rows) {
    std::string out;
    const auto size = frame_header(FrameType::resize, columns | std::size_t{rows} << 16U);
    append_frame(out, FrameType::resize, {size.data(), 4});
    return out;
}

inline std::string encode_dropped(std::uint64_t bytes) {
    char payload[8];
    for (unsigned at = 0; at < sizeof payload; ++at)
        payload[at] = static_cast<char>(bytes >> (8 * at) & 0xFF);
    std::string out;
    append_frame(out, FrameType::dropped, {payload, sizeof payload});
    return out;
}

/// A frame that the decoder found, or a piece of one.
struct Frame {
    FrameType type = FrameType::input;
    std::string_view bytes;    // of data: a piece, empty only where the host sent nothing
    std::uint64_t number = 0;  // of a signal, a grant or dropped bytes; rows << 16 | columns of a resize
    ExitStatus exit;
};

class FrameDecoder {
  public:
    enum class Sender : std::uint8_t { host, guest };
    enum class Found : std::uint8_t { frame, need_more, refused };

    /// Decodes the frames that `sender` writes.
    explicit FrameDecoder(Sender sender) noexcept : sender_(sender) {}

    /// Takes the next frame, or the next piece of one with data, from the front of `bytes`. need_more: all of
    /// `bytes` was taken. refused: refusal() says why, and says it again with each further call.
    Found next(std::string_view& bytes, Frame& frame) {
        if (exited_ && !bytes.empty())
            refusal_ = "bytes behind the exit";
        while (refusal_ == nullptr) {
            if (head_bytes_ < k_frame_header_bytes) {
                if (!fill(bytes, k_frame_header_bytes))
                    return Found::need_more;
                begin();
                continue;
            }
            if (is_data())
                return next_piece(bytes, frame);
            if (!fill(bytes, k_frame_header_bytes + left_bytes_))
                return Found::need_more;
            head_bytes_ = 0;
            return finish(frame);
        }
        return Found::refused;
    }
    /// A sentence that quotes nothing of the bytes; null while all is well.
    const char* refusal() const noexcept { return refusal_; }
    /// False at the end of the stream: it breaks off inside a frame.
    bool is_between_frames() const noexcept { return head_bytes_ == 0; }

  private:
    static constexpr std::size_t k_exit_bytes = 3;
    static constexpr std::size_t k_number_bytes = 4;
    static constexpr std::size_t k_dropped_bytes = 8;

    FrameType type() const noexcept { return static_cast<FrameType>(head_[4]); }
    bool is_input() const noexcept { return type() == FrameType::input || type() == FrameType::input_end; }
    bool is_data() const noexcept {
        return type() == FrameType::input || type() == FrameType::output || type() == FrameType::error;
    }
    std::uint64_t number_at(std::size_t at, std::size_t size) const noexcept {
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < size; ++i)
            number |= std::uint64_t{head_[at + i]} << (8 * i);
        return number;
    }

    /// Collects the first `size` bytes of a frame; true once they are there.
    bool fill(std::string_view& bytes, std::size_t size) {
        const std::size_t taken = std::min(size - head_bytes_, bytes.size());
        std::copy_n(bytes.begin(), taken, reinterpret_cast<char*>(head_.data()) + head_bytes_);
        head_bytes_ += taken;
        bytes.remove_prefix(taken);
        return head_bytes_ == size;
    }

    /// Checks a header that is complete.
    void begin() {
        left_bytes_ = number_at(0, 4);
        refusal_ = refuse_header();
    }
    const char* refuse_header() const {
        const bool from_host = type() == FrameType::input || type() == FrameType::input_end ||
                               type() == FrameType::signal || type() == FrameType::resize;
        const bool from_guest = type() == FrameType::output || type() == FrameType::error ||
                                type() == FrameType::grant || type() == FrameType::exit ||
                                type() == FrameType::dropped;
        if (!(sender_ == Sender::host ? from_host : from_guest))
            return "a frame of a type that may not come";
        if (input_ended_ && is_input())
            return "input behind its end";
        if (is_data())
            return refuse_data();
        return left_bytes_ == payload_bytes() ? nullptr : "a frame of the wrong size";
    }
    /// Frames of nothing would cost the host work that no bound of bytes counts.
    const char* refuse_data() const {
        if (left_bytes_ > base::k_max_frame_bytes)
            return "a frame beyond its bound";
        return left_bytes_ == 0 && sender_ == Sender::guest ? "an empty frame of output" : nullptr;
    }
    std::size_t payload_bytes() const noexcept {
        switch (type()) {
            case FrameType::signal:
                return 1;
            case FrameType::grant:
            case FrameType::resize:
                return k_number_bytes;
            case FrameType::dropped:
                return k_dropped_bytes;
            case FrameType::exit:
                return k_exit_bytes;
            default:
                return 0;
        }
    }

    Found next_piece(std::string_view& bytes, Frame& frame) {
        if (bytes.empty() && left_bytes_ != 0)
            return Found::need_more;
        frame = {};
        frame.type = type();
        frame.bytes = bytes.substr(0, left_bytes_);
        bytes.remove_prefix(frame.bytes.size());
        left_bytes_ -= frame.bytes.size();
        if (left_bytes_ == 0)
            head_bytes_ = 0;
        return Found::frame;
    }

    Found finish(Frame& frame) {
        frame = {};
        frame.type = type();
        input_ended_ = input_ended_ || type() == FrameType::input_end;
        exited_ = type() == FrameType::exit;
        if (exited_)
            frame.exit = {head_[5], head_[6], head_[7] != 0};
        else
            frame.number = number_at(k_frame_header_bytes, left_bytes_);
        return Found::frame;
    }

    const Sender sender_;
    std::array<std::uint8_t, k_frame_header_bytes + k_dropped_bytes> head_{};
    std::size_t head_bytes_ = 0;  // collected of the frame that has begun
    std::size_t left_bytes_ = 0;  // of its payload
    bool input_ended_ = false;
    bool exited_ = false;
    const char* refusal_ = nullptr;
};

}  // namespace atl::bridge
