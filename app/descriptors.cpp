#include "app/descriptors.hpp"

#include <algorithm>

#include "core/base/limits.hpp"

namespace atl::app {

DescriptorShares share_descriptors(std::size_t limit, const DescriptorShares& asked) noexcept {
    DescriptorShares given;
    given.connections = std::min(asked.connections, limit / 8 * 5);
    const std::size_t taken = given.connections + base::k_own_descriptors;
    const std::size_t left = limit > taken ? limit - taken : 0;
    given.sandboxes = std::min(asked.sandboxes, left / base::k_descriptors_per_sandbox);
    return given;
}

}  // namespace atl::app
