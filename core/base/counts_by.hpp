// A counter for each entry of an enum: counting is an addition, with nothing to look up.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

namespace atl::base {

/// The enum's values are below k_max_entries.
template <class Enum>
class CountsBy {
  public:
    static constexpr std::size_t k_max_entries = 32;

    std::uint64_t& operator[](Enum entry) noexcept {
        assert(static_cast<std::size_t>(entry) < k_max_entries);
        return counts_[static_cast<std::size_t>(entry)];
    }
    std::uint64_t operator[](Enum entry) const noexcept {
        assert(static_cast<std::size_t>(entry) < k_max_entries);
        return counts_[static_cast<std::size_t>(entry)];
    }

  private:
    std::array<std::uint64_t, k_max_entries> counts_{};
};

}  // namespace atl::base
