#include "http/websocket/close_frame_finder.hpp"

#include <algorithm>

#include "http/websocket/frame_bits.hpp"

namespace atl::http {
namespace {

// RFC 6455 section 5.2.
constexpr unsigned char k_close = 0x8;

}  // namespace

CloseFrameFinder::CloseFrameFinder(const FramePosition& from)
    : payload_left_(from.payload_left), in_close_(from.in_close) {
    // A payload of no bytes is over.
    found_ = in_close_ && payload_left_ == 0;
    feed(from.head);
}

bool CloseFrameFinder::feed(std::string_view input) {
    while (!found_ && !input.empty()) {
        if (payload_left_ > 0) {
            const auto count = std::min<std::uint64_t>(payload_left_, input.size());
            input.remove_prefix(count);
            payload_left_ -= count;
        } else {
            head_[head_bytes_++] = static_cast<unsigned char>(input.front());
            input.remove_prefix(1);
            if (head_bytes_ < head_size())
                continue;
            end_head();
        }
        found_ = in_close_ && payload_left_ == 0;
    }
    return found_;
}

// The size of the frame's head; 2 until its first two bytes, which tell the size, are known.
std::size_t CloseFrameFinder::head_size() const noexcept {
    if (head_bytes_ < 2)
        return 2;
    const unsigned length = head_[1] & k_length;
    const std::size_t extended = length < k_length_in_2 ? 0 : length == k_length_in_2 ? 2 : 8;
    return 2 + extended + ((head_[1] & k_masked) != 0 ? k_mask_bytes : 0);
}

void CloseFrameFinder::end_head() noexcept {
    payload_left_ = head_[1] & k_length;
    if (payload_left_ >= k_length_in_2) {
        const std::size_t extended = payload_left_ == k_length_in_2 ? 2 : 8;
        payload_left_ = 0;
        for (std::size_t i = 2; i < 2 + extended; ++i)
            payload_left_ = payload_left_ << 8U | head_[i];
    }
    in_close_ = (head_[0] & k_opcode) == k_close;
    head_bytes_ = 0;
}

}  // namespace atl::http
