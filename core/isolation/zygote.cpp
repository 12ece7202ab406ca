#include "core/isolation/zygote.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/pidfd.hpp"
#include "core/isolation/zygote/request.hpp"

namespace atl::isolation {
namespace {

// It waits in recvmsg(2) or for its group: it dies at once, or is reaped by init after us.
constexpr int k_end_wait_ms = 100;

base::Error failed(const char* what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

}  // namespace

base::Result<Zygote> Zygote::start(const base::Executor& executor, const std::filesystem::path& program,
                                   int group_fd, const std::vector<int>& join_fds) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failed("socketpair");
    base::UniqueFd ours(ends[0]);
    const base::UniqueFd theirs(ends[1]);
    const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null)
        return failed("open /dev/null");
    ChildPlan plan;
    plan.fds = {theirs.get(), null.get(), STDERR_FILENO};
    plan.fds.insert(plan.fds.end(), join_fds.begin(), join_fds.end());
    plan.group_fd = group_fd;
    auto spawned = spawn(executor, program, {std::to_string(join_fds.size())}, plan);
    if (!spawned)
        return spawned.error();
    return Zygote(std::move(*spawned), std::move(ours));
}

Zygote::~Zygote() {
    if (!spawned_.pidfd)
        return;
    base::send_signal(spawned_.pidfd, SIGKILL);
    pollfd gone{spawned_.pidfd.get(), POLLIN, 0};
    ::poll(&gone, 1, k_end_wait_ms);
    (void)base::reap(spawned_.pidfd);
}

base::Result<Spawned> Zygote::become(const std::string& program, const std::vector<std::string>& args,
                                     const ChildPlan& plan) {
    std::string text = encode({program, args, plan});
    std::vector<int> fds = plan.fds;
    if (plan.mount_namespace >= 0)
        fds.push_back(plan.mount_namespace);
    if (fds.size() > k_max_zygote_fds || text.size() > k_max_zygote_message_bytes)
        return base::Error(base::Errc::sandbox_failed, "the paths of this sandbox are too long");
    alignas(cmsghdr) std::array<char, CMSG_SPACE(k_max_zygote_fds * sizeof(int))> control{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return failed("the process that was to become a sandbox is gone");
    return std::move(spawned_);
}

}  // namespace atl::isolation
