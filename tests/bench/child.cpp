#include "tests/bench/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/plain/unique_fd.hpp"

namespace atl::bench {

Child::Child(const std::function<void()>& run) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0)
        throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ > 0)
        return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        ::_exit(1);
    try {
        run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench: a process of it: %s\n", error.what());
        ::_exit(1);
    }
    ::_exit(0);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

bool Child::has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
}

bool Child::ends_within(std::chrono::milliseconds time) const {
    const base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd end{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
    int ended = 0;
    // A process that was stopped and goes on waits anew (signal(7)).
    while ((ended = ::poll(&end, 1, static_cast<int>(time.count()))) < 0 && errno == EINTR) {
    }
    if (!pidfd || ended < 0)
        throw std::system_error(errno, std::generic_category(), "waiting for a process");
    return ended == 1;
}

void Child::wait() {
    int status = 0;
    if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0)
        throw std::system_error(errno, std::generic_category(), "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw std::runtime_error("a process of the measurement failed: see above");
}

Child::~Child() {
    if (pid_ <= 0)
        return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

}  // namespace atl::bench
