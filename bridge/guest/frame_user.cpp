#include "bridge/guest/frame_user.hpp"

namespace atl::guest {

std::size_t FrameUser::on_input(Connection& connection, std::string_view bytes) {
    const std::size_t size = bytes.size();
    bridge::Frame frame;
    while (connection_ != nullptr) {
        const auto found = decoder_.next(bytes, frame);
        if (found == bridge::FrameDecoder::Found::need_more)
            break;
        // Closing is cancelling: on_closed() follows.
        if (found == bridge::FrameDecoder::Found::refused || !handle(frame))
            connection.close();
    }
    return size;
}

}  // namespace atl::guest
