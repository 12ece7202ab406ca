#include "core/isolation/socket_maker.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/isolation/zygote/socket_task.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::isolation {

using base::Errc;
using base::Error;
using base::Result;
using base::UniqueFd;

Result<std::unique_ptr<SocketMaker>> SocketMaker::start(const base::Executor& executor, base::Timers& timers,
                                                        const std::filesystem::path& program,
                                                        const UniqueFd& net,
                                                        std::shared_ptr<std::uint32_t> kept) {
    auto process = WaitingProcess::start(program, {std::string(k_socket_task)}, {net.get()});
    if (!process)
        return process.error();
    UniqueFd socket(::fcntl(process->socket(), F_DUPFD_CLOEXEC, 0));
    if (!socket)
        return Error(Errc::sandbox_failed, base::errno_text("dup", errno));
    std::unique_ptr<SocketMaker> made(
        new SocketMaker(executor, timers, std::move(*process), std::move(socket), std::move(kept)));
    made->ask();
    return made;
}

SocketMaker::SocketMaker(const base::Executor& executor, base::Timers& timers, WaitingProcess process,
                         UniqueFd socket, std::shared_ptr<std::uint32_t> kept)
    : executor_(executor),
      timers_(timers),
      process_(std::move(process)),
      socket_(executor, std::move(socket)),
      kept_(std::move(kept)) {}

SocketMaker::~SocketMaker() {
    timers_.cancel(deadline_);
    *kept_ -= static_cast<std::uint32_t>(ipv4_.size() + ipv6_.size());
    for (auto& ready : waiters_)
        boost::asio::post(executor_, std::move(ready));
}

Result<UniqueFd> SocketMaker::take(int family) {
    auto& sockets = family == AF_INET ? ipv4_ : ipv6_;
    if (sockets.empty() && (broken_ || (family == AF_INET6 && lacks_ipv6_)))
        return Error(Errc::host_unsupported, "The server's helper cannot make sockets inside this sandbox.");
    if (sockets.empty())
        return Error(Errc::capacity, "The sockets to this sandbox are used up for the moment.");
    UniqueFd taken = std::move(sockets.back());
    sockets.pop_back();
    --*kept_;
    if (sockets.size() < base::k_kept_inner_sockets / 2)
        ask();
    return taken;
}

void SocketMaker::ask() {
    if (deadline_ != 0 || broken_)
        return;
    const std::array<unsigned char, 2> wanted = {
        static_cast<unsigned char>(base::k_kept_inner_sockets - ipv4_.size()),
        static_cast<unsigned char>(lacks_ipv6_ ? 0 : base::k_kept_inner_sockets - ipv6_.size())};
    if (::send(socket_.fd().get(), wanted.data(), wanted.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        broken_ = true;
        return end_wait();
    }
    deadline_ = timers_.arm(base::k_inner_socket_deadline, [this] {
        deadline_ = 0;
        socket_.stop();
        broken_ = true;
        end_wait();
    });
    socket_.wait(base::FdWatch::Event::readable, [this] { on_answer(); });
}

void SocketMaker::on_answer() {
    timers_.cancel(std::exchange(deadline_, 0));
    // Without IPv4 there is no way in: connections try that first.
    if (!read_answer() || ipv4_.empty())
        broken_ = true;
    end_wait();
}

bool SocketMaker::read_answer() {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * base::k_kept_inner_sockets * sizeof(int))> control{};
    unsigned char ipv4_count = 0;
    iovec part{&ipv4_count, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.fd().get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    std::size_t count = 0;
    for (cmsghdr* header = size < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (std::size_t at = 0; at < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++at) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + at * sizeof fd, sizeof fd);
            (count++ < ipv4_count ? ipv4_ : ipv6_).emplace_back(fd);
            ++*kept_;
        }
    }
    lacks_ipv6_ = ipv6_.empty();
    const bool is_whole = size == 1 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    could_not_join_ = is_whole && count == 0;
    return is_whole && count > 0;
}

void SocketMaker::end_wait() {
    // A waiter may destroy this object, so the loop calls each of them later.
    for (const auto& ready : std::exchange(waiters_, {}))
        boost::asio::post(executor_, ready);
}

}  // namespace atl::isolation
