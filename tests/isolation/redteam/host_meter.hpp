// What the host has left, in numbers that an attack from a sandbox must leave as they were.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace atl::test {

/// Name -> value; what this host or user does not tell is left out:
///   available_mb (MemAvailable), unreclaimable_mb (SUnreclaim), vmalloc_mb (VmallocUsed), sockets (the
///   host's net namespace), ptys, aio, files (open file descriptions), groups (cgroups of the
///   largest hierarchy), processes (below this one, so of its servers and sandboxes), and for root jit_kb
///   (programs of the BPF JIT) and socket_slabs (sockets of all net namespaces).
using HostSample = std::map<std::string, std::int64_t>;
HostSample measure_host();

/// How much of each the host may have more (or of available_mb less) than before.
const HostSample& default_slack();

/// Waits until the host has all back, within `slack`; then "", else what is missing, with numbers. Names that
/// `slack` lacks are not looked at.
std::string still_taken(const HostSample& before, std::chrono::milliseconds deadline,
                        const HostSample& slack = default_slack());

}  // namespace atl::test
