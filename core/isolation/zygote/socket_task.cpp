#include "core/isolation/zygote/socket_task.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace atl::isolation {
namespace {

constexpr int k_socket = 0;
constexpr int k_net = 3;
constexpr std::size_t k_most = 64;

// A process that is privileged in the user namespace that owns the net namespace may join that (setns(2)):
// because it is in it, as with subordinate ids, or because its user made it.
bool join() {
    if (::setns(k_net, CLONE_NEWNET) != 0) {
        const int owner = ::ioctl(k_net, NS_GET_USERNS);
        if (owner < 0 || ::setns(owner, CLONE_NEWUSER) != 0 || ::setns(k_net, CLONE_NEWNET) != 0)
            return false;
        ::close(owner);
    }
    ::close(k_net);
    return true;
}

bool answer_task(std::size_t ipv4_wanted, std::size_t ipv6_wanted) {
    std::array<int, k_most> fds{};
    std::size_t count = 0;
    unsigned char ipv4_count = 0;
    for (std::size_t at = 0; at < ipv4_wanted + ipv6_wanted && count < k_most; ++at) {
        const int family = at < ipv4_wanted ? AF_INET : AF_INET6;
        const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        fds[count++] = fd;
        if (family == AF_INET)
            ++ipv4_count;
    }
    if (count == 0)
        return false;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(k_most * sizeof(int))> control{};
    iovec part{&ipv4_count, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
    const bool sent = ::sendmsg(k_socket, &message, MSG_NOSIGNAL) == 1;
    for (std::size_t at = 0; at < count; ++at)
        ::close(fds[at]);
    return sent;
}

}  // namespace

int make_sockets() {
    const bool joined = join();
    if (!joined)
        std::perror("atoll: cannot join the net namespace of a sandbox");
    std::array<unsigned char, 2> wanted{};
    for (;;) {
        const ssize_t size = ::recv(k_socket, wanted.data(), wanted.size(), 0);
        if (size < 0 && errno == EINTR)
            continue;
        if (!joined) {
            // Behind the question, so that no reset overtakes it.
            const unsigned char none = 0;
            (void)::send(k_socket, &none, sizeof none, MSG_NOSIGNAL);
            return EXIT_FAILURE;
        }
        if (size != static_cast<ssize_t>(wanted.size()) || !answer_task(wanted[0], wanted[1]))
            return size == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
}

}  // namespace atl::isolation
