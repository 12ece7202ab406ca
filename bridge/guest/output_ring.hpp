// The output of a kept process: the last bytes of both its streams in the order in which they were read,
// each piece with its stream, counted from 0. A terminal has one stream. Nothing is allocated before the
// first byte. Pure: no descriptor, no clock. Not here: who reads it (background_process.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "bridge/frame.hpp"

namespace atl::guest {

/// Bytes in one piece at most.
inline constexpr std::size_t k_ring_piece_bytes = 32UL * 1024;
/// Pieces of a ring: a program may change between its streams with each byte.
inline constexpr std::size_t k_max_ring_pieces = 16UL * 1024;

class OutputRing {
  public:
    explicit OutputRing(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

    /// Drops the oldest bytes beyond the limit.
    void append(bridge::FrameType stream, std::string_view bytes);

    /// The offset of the oldest byte that is kept, and the one behind the newest.
    std::uint64_t first() const noexcept { return first_; }
    std::uint64_t end() const noexcept { return end_; }

    struct Piece {
        bridge::FrameType stream = bridge::FrameType::output;
        std::string_view bytes;  // until the next append(); empty: none
    };
    /// Bytes of one stream from `offset` on, as many as lie together. Precondition: first() <= offset <=
    /// end().
    Piece at(std::uint64_t offset) const;

  private:
    struct Stored {
        bridge::FrameType stream;
        std::uint64_t begin;  // its offset
        std::string bytes;
    };
    void drop_oldest();

    const std::size_t limit_bytes_;
    std::deque<Stored> pieces_;  // the first may begin before first_
    std::uint64_t first_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace atl::guest
