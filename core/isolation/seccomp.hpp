// The system calls of a sandbox (seccomp(2)), as two filters that bwrap installs one after the other:
// - calls: an allow-list by number, as container engines have it by default; an unknown call is ENOSYS, so
//   that libc falls back; a known dangerous call is EPERM; a call of a foreign ABI (i386, x32) kills the
//   process;
// - arguments: refused arguments of allowed calls: clone flags, ioctl requests, socket families and
//   protocols, filters, some limits. Compared in 32 bits where the kernel looks at 32 bits, so that a set
//   upper half is no way around (argument_filter.hpp).
// Inside a sandbox no further filter can be installed: the kernel's budget for compiled filters is the
// host's. ptrace and process_vm_* are allowed: the pid namespace holds only this sandbox's processes, the
// guest is undumpable, and since Linux 4.8 a tracer cannot get around a filter. Not here: how bwrap gets them
// (bubblewrap_launcher.cpp).
#pragma once

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

/// Both filters as BPF programs in sealed memory, compiled once at the start of the server.
class SeccompFilters {
  public:
    /// Errors: host_unsupported if libseccomp cannot make them.
    static base::Result<SeccompFilters> compile();

    /// A descriptor of its own offset for one launch: bwrap reads it to its end. Negative if the process
    /// has no descriptor left.
    base::UniqueFd open_calls() const;
    base::UniqueFd open_arguments() const;

  private:
    SeccompFilters(base::UniqueFd calls, base::UniqueFd arguments)
        : calls_(std::move(calls)), arguments_(std::move(arguments)) {}

    base::UniqueFd calls_;
    base::UniqueFd arguments_;
};

}  // namespace atl::isolation
