// Shares out the descriptors of the process: each connection takes one, each living sandbox some, and the
// rest is for opening files and starting programs.
#pragma once

#include <cstddef>

#include "core/base/error.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::app {

struct DescriptorShares {
    std::size_t connections = 0;
    std::size_t sandboxes = 0;
    std::size_t preview_doors = base::k_max_preview_doors;  // listened on at a time
};

/// `limit` is RLIMIT_NOFILE (getrlimit(2)); `asked` has the wanted numbers. Connections get at most five
/// eighths, so that strangers cannot take the descriptors of sandboxes; sandboxes get the rest, with the
/// ports of their previews. Those of paused sandboxes get what is left.
DescriptorShares share_descriptors(std::size_t limit, const DescriptorShares& asked) noexcept;

/// Raises the soft limit of descriptors to the hard limit (getrlimit(2)), since many sandboxes need many, and
/// returns it; 0 if it cannot be told.
std::size_t raise_descriptor_limit();

/// The shares of a process that may have `limit` descriptors, with --max-sandboxes and the server's bound of
/// connections as what is asked. Fewer sandboxes than asked for are logged, as a warning where
/// they are not the default. Errors: host_unsupported where not
/// one fits.
base::Result<DescriptorShares> bound_sandboxes(std::size_t limit, std::size_t max_sandboxes);

}  // namespace atl::app
