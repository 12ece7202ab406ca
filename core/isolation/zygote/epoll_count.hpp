// A task of this program, `atoll-zygote epoll-count SECONDS ENOUGH PID...`: which pid namespace's processes
// hold the most registrations with epoll(7). It runs on its own because the kernel writes a line for each of
// them.
#pragma once

#include <string>
#include <vector>

namespace atl::isolation {

/// Each of `pids` is process 1 of a namespace. Writes "PID COUNT" of the namespace with most registrations to
/// stdout, or nothing if none has any. Registrations that were not counted within `seconds` are missing in
/// COUNT. An epoll set that several processes have open counts for each of them; a set that is too long for
/// the kernel to write counts as k_countless.
void count_epoll(unsigned seconds, unsigned long long enough, const std::vector<std::string>& pids);

inline constexpr unsigned long long k_countless = 1ULL << 31;

}  // namespace atl::isolation
