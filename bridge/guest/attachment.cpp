#include "bridge/guest/attachment.hpp"

#include <signal.h>

#include <string>
#include <utility>

#include "bridge/guest/kept_process.hpp"

namespace atl::guest {

Attachment::Attachment(KeptProcess& process, Loop& loop, Connection& connection, std::uint64_t offset,
                       Use use)
    : FrameUser(connection),
      process_(process),
      use_(use),
      offset_(offset),
      window_(loop, [this](std::uint32_t bytes) {
          if (connection_ != nullptr)
              connection_->write(bridge::encode_grant(bytes));
      }) {}

Attachment::~Attachment() {
    if (connection_ == nullptr)
        return;
    connection_->follow(nullptr);
    connection_->break_off();
}

void Attachment::pump() {
    const OutputRing& ring = process_.output();
    if (use_ == Use::feed)
        offset_ = ring.end();
    while (connection_ != nullptr && connection_->wants_more() && offset_ != ring.end()) {
        if (offset_ < ring.first()) {
            connection_->write(bridge::encode_dropped(ring.first() - offset_));
            offset_ = ring.first();
        }
        const OutputRing::Piece piece = ring.at(offset_);
        std::string frame;
        frame.reserve(bridge::k_frame_header_bytes + piece.bytes.size());
        bridge::append_frame(frame, piece.stream, piece.bytes);
        connection_->write(frame);
        offset_ += piece.bytes.size();
    }
    if (ring.end() - offset_ <= k_kept_output_bytes / 2)
        slow_ = false;
    if (connection_ != nullptr && offset_ == ring.end() && process_.exit())
        send_exit();
}

bool Attachment::would_lose(std::uint64_t bytes) const {
    const std::uint64_t behind = process_.output().end() - offset_;
    return connection_ != nullptr && !slow_ && behind + bytes > k_kept_output_bytes;
}

void Attachment::send_exit() {
    Connection* const connection = std::exchange(connection_, nullptr);
    connection->follow(nullptr);
    connection->write(bridge::encode_exit(*process_.exit()));
    connection->break_off();
}

/// False: nothing that the host may send.
bool Attachment::obey(const bridge::Frame& frame) {
    switch (frame.type) {
        case bridge::FrameType::input:
            return pass_on(frame.bytes);
        case bridge::FrameType::input_end:
            process_.end_input();
            return true;
        case bridge::FrameType::signal:
            if (frame.number == 0 || frame.number >= static_cast<std::uint64_t>(NSIG))
                return false;
            process_.signal(static_cast<int>(frame.number));
            return true;
        case bridge::FrameType::resize:
            process_.resize({static_cast<std::uint16_t>(frame.number & 0xFFFF),
                             static_cast<std::uint16_t>(frame.number >> 16U)});
            return frame.number != 0;
        default:
            return false;
    }
}

bool Attachment::pass_on(std::string_view bytes) {
    if (!window_.take(bytes.size()))
        return false;
    process_.write_input(*this, bytes);
    return true;
}

void Attachment::on_drained(Connection&) {
    pump();
    process_.on_read();
}

void Attachment::on_closed(Connection&) {
    connection_ = nullptr;
    process_.leave_input(*this);
    process_.on_read();
}

}  // namespace atl::guest
