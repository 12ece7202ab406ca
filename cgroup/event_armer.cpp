#include "cgroup/event_armer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/pidfd.hpp"

namespace atl::cgroup {
namespace {

// It waits in recvmsg(2), or in the kernel for a few milliseconds.
constexpr int k_end_wait_ms = 100;

base::Error failed(const char* what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

}  // namespace

base::Result<EventArmer> EventArmer::start(const base::Executor& executor,
                                           const std::filesystem::path& program) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failed("socketpair");
    base::UniqueFd ours(ends[0]);
    const base::UniqueFd theirs(ends[1]);
    const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null)
        return failed("open /dev/null");
    isolation::ChildPlan plan;
    plan.fds = {theirs.get(), null.get(), STDERR_FILENO};
    auto spawned = isolation::spawn(executor, program, {"arm"}, plan);
    if (!spawned)
        return spawned.error();
    return EventArmer(std::move(*spawned), std::move(ours));
}

EventArmer::~EventArmer() {
    if (!spawned_.pidfd)
        return;
    base::send_signal(spawned_.pidfd, SIGKILL);
    pollfd gone{spawned_.pidfd.get(), POLLIN, 0};
    ::poll(&gone, 1, k_end_wait_ms);
    (void)base::reap(spawned_.pidfd);
}

int EventArmer::arm(int events, int file, int control, std::string_view argument) {
    const std::array<int, 3> fds{events, file, control};
    std::string text(argument);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> space{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
    return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

}  // namespace atl::cgroup
