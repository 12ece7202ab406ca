#include "core/isolation/zygote/arm.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace atl::isolation {
namespace {

constexpr std::size_t k_max_argument_bytes = 64;
using Descriptors = std::array<int, 3>;

void arm(const Descriptors& fds, const std::string& argument) {
    const std::string line = std::to_string(fds[0]) + " " + std::to_string(fds[1]) + " " + argument;
    (void)!::write(fds[2], line.data(), line.size());
}

}  // namespace

void arm_events(int socket) {
    while (true) {
        std::array<char, k_max_argument_bytes> bytes;
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Descriptors))> control{};
        iovec part{bytes.data(), bytes.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return;
        const cmsghdr* header = CMSG_FIRSTHDR(&message);
        if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof(Descriptors)))
            return;
        Descriptors fds{};
        std::memcpy(fds.data(), CMSG_DATA(header), sizeof fds);
        arm(fds, std::string(bytes.data(), static_cast<std::size_t>(count)));
        for (const int fd : fds)
            ::close(fd);
    }
}

}  // namespace atl::isolation
