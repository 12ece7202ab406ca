// The check at the start that this host can run sandboxes: the probe runs one, bwrap with the whole profile
// and `true` as its guest, as the uid that sandboxes get. If it fails, the probe reads the kernel's settings
// for the reason and names the setting to change.
// Not here: the limits that the host enforces (cgroup), the profile itself.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/error.hpp"
#include "core/isolation/bubblewrap_launcher.hpp"

namespace atl::isolation {

/// Where the probe looks. Tests inject other places.
struct ProbePaths {
    std::filesystem::path proc_sys = "/proc/sys";
    std::filesystem::path guest = "/usr/bin/true";  // stands in for the guest; leaves at once with status 0
    std::filesystem::path uid_map = "/proc/self/uid_map";
};

/// Runs one sandbox to its end, at most 10 s, on a loop of its own; makes and removes a folder below
/// `config.run_dir`. Call before create(). Errors: host_unsupported, with the missing feature and its fix.
base::Result<void> probe_host(const LauncherConfig& config, const ProbePaths& paths = {});

/// How a crash in a sandbox can still reach the host's handler of core dumps, for the operator; empty if it
/// cannot. The core limit of sandboxes keeps their dumps from a handler that the kernel starts, but not from
/// a handler that listens on a socket (core(5), proc_sys_kernel(5), core_pattern).
std::string core_dump_risk(const ProbePaths& paths = {});

/// Does the work that is left before create(): probe_host(), a log line for core_dump_risk(), and, where
/// sandboxes have private uids, a run directory in memory (private_mounts.hpp). Call once. Errors:
/// host_unsupported, storage_failed.
base::Result<void> prepare_host(const LauncherConfig& config);

/// The version that bubblewrap tells of itself, such as "0.8.0"; empty where it tells none. Blocks for the
/// run of `bwrap --version`.
std::string bwrap_version(const std::string& bwrap);

/// The release of the kernel, as uname(2) has it.
std::string running_kernel();

/// True if RLIMIT_NPROC, set inside of a user namespace, counts only the processes of that namespace: since
/// Linux 5.14 (user_namespaces(7) does not say so; kernel/ucount.c). Earlier kernels counted all processes of
/// the host's user.
bool counts_processes_by_namespace(const std::string& kernel_release);

/// The enforcer of `maxProcesses`, if the groups of this host enforce `by_groups`: the guest, where they do
/// not limit processes and the kernel lets it.
ProcessLimit best_process_limit(const sandbox::Enforcement& by_groups,
                                const std::string& kernel_release = running_kernel());

}  // namespace atl::isolation
