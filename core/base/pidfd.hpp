// Processes by pidfd: a handle that can never mean another process (pidfd_open(2)). A bare pid is only
// trusted while its parent, us, has not reaped it.
#pragma once

#include <sys/types.h>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::base {

/// How a child ended, as waitid(2) tells it.
struct ChildExit {
    enum class How { exited, signalled };
    How how;
    int code;  // exit status or signal number
};

/// A pidfd of `pid`, close-on-exec. The caller knows that `pid` is still the process it means.
Result<UniqueFd> open_pidfd(pid_t pid);

/// Sends `signal_number`; false if the process is gone.
bool send_signal(const UniqueFd& pidfd, int signal_number) noexcept;

/// Reaps our own child behind `pidfd` without blocking; an error if it still runs or is not ours.
Result<ChildExit> reap(const UniqueFd& pidfd);

/// Reaps our own child behind `pidfd` once it is dead: now, or in a later call of this function or of
/// reap_what_ended(). Never waits; until then the child may stay a zombie. Ignores an invalid descriptor.
void reap_later(UniqueFd pidfd);

/// Reaps the children of reap_later() that have died meanwhile.
void reap_what_ended() noexcept;

}  // namespace atl::base
