// The row ids of turns and events: the conversation's key above, the number of the turn or the event below.
#pragma once

#include <cstdint>

#include "core/base/clock.hpp"
#include "core/store/schema.hpp"

namespace atl::store {

inline std::int64_t row_id(std::int64_t key, std::uint64_t low) {
    return (key << k_seq_bits) | static_cast<std::int64_t>(low);
}
inline std::uint64_t low_of(std::int64_t id) {
    return static_cast<std::uint64_t>(id & ((std::int64_t{1} << k_seq_bits) - 1));
}

/// Times are columns of milliseconds since 1970.
inline std::int64_t millis(base::WallTime time) {
    return time.time_since_epoch().count();
}
inline base::WallTime wall(std::int64_t value) {
    return base::WallTime{base::Millis{value}};
}

}  // namespace atl::store
