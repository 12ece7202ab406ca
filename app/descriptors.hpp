// How the descriptors that the process may have are shared out: each connection takes one, each living
// sandbox some, and what is left opens files and starts programs.
#pragma once

#include <cstddef>

namespace atl::app {

struct DescriptorShares {
    std::size_t connections = 0;
    std::size_t sandboxes = 0;
};

/// `limit` is RLIMIT_NOFILE (getrlimit(2)); the others are what is asked for. Connections have at most five
/// eighths, so that strangers leave the rest to sandboxes; sandboxes get what that leaves.
DescriptorShares share_descriptors(std::size_t limit, const DescriptorShares& asked) noexcept;

}  // namespace atl::app
