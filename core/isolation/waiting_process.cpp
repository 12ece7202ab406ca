#include "core/isolation/waiting_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/pidfd.hpp"
#include "core/isolation/zygote/request.hpp"

namespace atl::isolation {
namespace {

base::Error waiting_failed(const char* what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

}  // namespace

base::Result<WaitingProcess> WaitingProcess::start(const std::filesystem::path& program,
                                                   const std::vector<std::string>& args,
                                                   const std::vector<int>& more_fds, int group_fd) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return waiting_failed("socketpair");
    base::UniqueFd ours(ends[0]);
    const base::UniqueFd theirs(ends[1]);
    const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null)
        return waiting_failed("open /dev/null");
    ChildPlan plan;
    plan.fds = {theirs.get(), null.get(), STDERR_FILENO};
    plan.fds.insert(plan.fds.end(), more_fds.begin(), more_fds.end());
    plan.group_fd = group_fd;
    auto spawned = spawn(program, args, plan);
    if (!spawned)
        return spawned.error();
    return WaitingProcess(std::move(*spawned), std::move(ours));
}

WaitingProcess::~WaitingProcess() {
    if (!spawned_.pidfd)
        return;
    base::send_signal(spawned_.pidfd, SIGKILL);
    base::reap_later(std::move(spawned_.pidfd));
}

int WaitingProcess::send(std::string_view text, std::span<const int> fds) const {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(k_max_zygote_fds * sizeof(int))> control{};
    iovec part{const_cast<char*>(text.data()), text.size()};  // it is only read
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

}  // namespace atl::isolation
