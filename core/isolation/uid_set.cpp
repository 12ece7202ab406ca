#include "core/isolation/uid_set.hpp"

#include <algorithm>
#include <bit>

namespace atl::isolation {

bool UidSet::contains(std::uint32_t uid) const {
    const auto found = chunks_.find(uid / k_chunk_uids);
    return found != chunks_.end() && (found->second[word_of(uid)] & bit_of(uid)) != 0;
}

bool UidSet::insert(std::uint32_t uid) {
    std::uint64_t& word = chunks_[uid / k_chunk_uids][word_of(uid)];
    const bool is_new = (word & bit_of(uid)) == 0;
    word |= bit_of(uid);
    return is_new;
}

void UidSet::erase(std::uint32_t uid) {
    if (const auto found = chunks_.find(uid / k_chunk_uids); found != chunks_.end())
        found->second[word_of(uid)] &= ~bit_of(uid);
}

std::uint32_t UidSet::first_absent(std::uint32_t from, std::uint32_t end) const {
    while (from < end) {
        const auto found = chunks_.find(from / k_chunk_uids);
        if (found == chunks_.end())
            return from;
        const Chunk& chunk = found->second;
        for (std::size_t word = word_of(from); word < chunk.size(); ++word) {
            // The uids of the word from `from` on that are not in the set.
            const std::uint64_t absent = ~chunk[word] & (~std::uint64_t{0} << (from % k_word_uids));
            if (absent != 0)
                return std::min(
                    end, from - from % k_word_uids + static_cast<std::uint32_t>(std::countr_zero(absent)));
            from += k_word_uids - from % k_word_uids;
        }
    }
    return end;
}

}  // namespace atl::isolation
