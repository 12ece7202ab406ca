#include "core/base/pidfd.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace atl::base {

namespace {

// Children belong to the process as a whole, and so does this.
std::vector<UniqueFd>& ending_children() {
    static std::vector<UniqueFd> children;
    return children;
}

/// False while it runs.
bool has_been_reaped(const UniqueFd& pidfd) noexcept {
    siginfo_t info{};
    return ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info,
                    WEXITED | WNOHANG) != 0 ||
           info.si_pid != 0;
}

}  // namespace

Result<UniqueFd> open_pidfd(pid_t pid) {
    const long fd = ::syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return Error(Errc::internal, errno_text("pidfd_open", errno));
    return UniqueFd(static_cast<int>(fd));
}

bool send_signal(const UniqueFd& pidfd, int signal_number) noexcept {
    return pidfd && ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal_number, nullptr, 0) == 0;
}

Result<ChildExit> reap(const UniqueFd& pidfd) {
    siginfo_t info{};
    if (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG) !=
        0)
        return Error(Errc::internal, errno_text("waitid", errno));
    if (info.si_pid == 0)
        return Error(Errc::internal, "the process still runs");
    if (info.si_code == CLD_EXITED)
        return ChildExit{ChildExit::How::exited, info.si_status};
    return ChildExit{ChildExit::How::signalled, info.si_status};
}

void reap_later(UniqueFd pidfd) {
    reap_what_ended();
    if (pidfd && !has_been_reaped(pidfd))
        ending_children().push_back(std::move(pidfd));
}

void reap_what_ended() noexcept {
    std::erase_if(ending_children(), has_been_reaped);
}

}  // namespace atl::base
