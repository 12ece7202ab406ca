#include "fs-guard/space_ledger.hpp"

#include <algorithm>

namespace atl::fs_guard {

std::uint64_t growth_of_gap(Space then, Space now) {
    const auto inodes = std::max<std::int64_t>(now.inodes - then.inodes, 0);
    const auto needed = static_cast<std::uint64_t>(inodes) * k_least_bytes_an_inode;
    const auto bytes = std::max<std::int64_t>(now.bytes - then.bytes, 0);
    return std::max(needed, static_cast<std::uint64_t>(bytes));
}

Space lower_of(Space one, Space other) {
    return {std::min(one.bytes, other.bytes), std::min(one.inodes, other.inodes)};
}

}  // namespace atl::fs_guard
