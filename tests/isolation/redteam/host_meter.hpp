// The free resources of the host, in numbers that an attack from a sandbox must not change.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace atl::test {

/// Name -> value; a value that this host does not show this user is left out:
///   available_mb (MemAvailable), unreclaimable_mb (SUnreclaim), vmalloc_mb (VmallocUsed), sockets (the
///   host's net namespace), ptys, aio, files (open file descriptions), groups (cgroups of the
///   largest hierarchy), processes (below this one, so of its servers and sandboxes), and for root jit_kb
///   (programs of the BPF JIT) and socket_slabs (sockets of all net namespaces).
using HostSample = std::map<std::string, std::int64_t>;
HostSample measure_host();

/// How much of each the host may have more (or of available_mb less) than before.
const HostSample& default_slack();

/// Waits until the host has everything back, within `slack`. Returns "" or the missing resources with
/// numbers. Names that `slack` lacks are ignored.
std::string still_taken(const HostSample& before, std::chrono::milliseconds deadline,
                        const HostSample& slack = default_slack());

}  // namespace atl::test
