// A set of host uids as bits: 512 bytes for each 4,096 neighbours of which one is in it. A server has a
// million of them, and blocks of uids are leased whole.
#pragma once

#include <array>
#include <cstdint>
#include <map>

namespace atl::isolation {

class UidSet {
  public:
    bool contains(std::uint32_t uid) const;
    /// False if it was in it.
    bool insert(std::uint32_t uid);
    void erase(std::uint32_t uid);
    void clear() { chunks_.clear(); }
    /// The first uid from `from` on that is not in it, `end` if there is none below `end`.
    std::uint32_t first_absent(std::uint32_t from, std::uint32_t end) const;

  private:
    static constexpr std::uint32_t k_word_uids = 64;
    static constexpr std::uint32_t k_chunk_uids = 4096;
    using Chunk = std::array<std::uint64_t, k_chunk_uids / k_word_uids>;

    static std::size_t word_of(std::uint32_t uid) { return uid % k_chunk_uids / k_word_uids; }
    static std::uint64_t bit_of(std::uint32_t uid) { return std::uint64_t{1} << (uid % k_word_uids); }

    std::map<std::uint32_t, Chunk> chunks_;  // by uid / k_chunk_uids
};

}  // namespace atl::isolation
