// Shares out the descriptors of the process: each connection takes one, each living sandbox some, and the
// rest is for opening files and starting programs.
#pragma once

#include <cstddef>

namespace atl::app {

struct DescriptorShares {
    std::size_t connections = 0;
    std::size_t sandboxes = 0;
};

/// `limit` is RLIMIT_NOFILE (getrlimit(2)); `asked` has the wanted numbers. Connections get at most five
/// eighths, so that strangers cannot take the descriptors of sandboxes; sandboxes get the rest.
DescriptorShares share_descriptors(std::size_t limit, const DescriptorShares& asked) noexcept;

}  // namespace atl::app
