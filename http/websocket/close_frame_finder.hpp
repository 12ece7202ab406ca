// Finds a client's close frame behind frames that no longer count: the rest of a message that is too long, or
// messages that crossed the server's own close frame. Keeps no payload and checks none. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atl::http {

/// The point at which a frame parser stopped: the bytes of an incomplete head, or the length of a payload's
/// rest.
struct FramePosition {
    std::string_view head;  // at most 14 bytes; a complete head counts as not yet read
    std::uint64_t payload_left = 0;
    bool in_close = false;  // the payload is a close frame's
};

class CloseFrameFinder {
  public:
    explicit CloseFrameFinder(const FramePosition& from);

    /// True once the close frame is complete; later input is ignored. A client may never send a close frame:
    /// the caller has a deadline.
    bool feed(std::string_view input);

  private:
    std::size_t head_size() const noexcept;
    void end_head() noexcept;

    std::array<unsigned char, 14> head_{};
    std::size_t head_bytes_ = 0;
    std::uint64_t payload_left_ = 0;
    bool in_close_ = false;
    bool found_ = false;
};

}  // namespace atl::http
