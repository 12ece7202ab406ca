#include "bridge/guest/output_ring.hpp"

#include <algorithm>

namespace atl::guest {

void OutputRing::append(bridge::FrameType stream, std::string_view bytes) {
    while (!bytes.empty()) {
        if (pieces_.empty() || pieces_.back().stream != stream ||
            pieces_.back().bytes.size() >= k_ring_piece_bytes)
            pieces_.push_back({stream, end_, {}});
        std::string& last = pieces_.back().bytes;
        const std::string_view taken = bytes.substr(0, k_ring_piece_bytes - last.size());
        last.append(taken);
        end_ += taken.size();
        bytes.remove_prefix(taken.size());
        drop_oldest();
    }
}

void OutputRing::drop_oldest() {
    if (end_ - first_ > limit_bytes_)
        first_ = end_ - limit_bytes_;
    if (pieces_.size() > k_max_ring_pieces)
        first_ = std::max(first_, pieces_[1].begin);
    while (pieces_.size() > 1 && pieces_[1].begin <= first_)
        pieces_.pop_front();
}

OutputRing::Piece OutputRing::at(std::uint64_t offset) const {
    if (offset == end_)
        return {};
    const auto behind =
        std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                         [](std::uint64_t at, const Stored& piece) { return at < piece.begin; });
    const Stored& found = *std::prev(behind);
    return {found.stream, std::string_view(found.bytes).substr(offset - found.begin)};
}

}  // namespace atl::guest
