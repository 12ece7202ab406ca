// Kernel memory of a process that its memory limit does not cover, or covers late: buffers of sockets of
// every family, pipes, terminals, epoll watches, timers; each filled and never read.
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
constexpr int k_wanted_buffer = 1 << 30;  // as much as the host allows
// The kernel memory of one answer of NETLINK_ROUTE.
constexpr std::uint64_t k_answer_bytes = 2304;
constexpr int k_answers = 100;
constexpr std::uint64_t k_most_of_one = 256UL * 1024;

std::array<char, 32'000> filler;

/// Makes and fills one more of a kind. Returns its bytes, or -1 with errno set.
using Take = std::int64_t (*)();

std::int64_t fill(int fd) {
    std::int64_t held = 0;
    ssize_t count = 0;
    while (held < static_cast<std::int64_t>(k_most_of_one) &&
           (count = ::write(fd, filler.data(), filler.size())) > 0)
        held += count;
    return held;
}

void enlarge(int fd) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &k_wanted_buffer, sizeof k_wanted_buffer);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &k_wanted_buffer, sizeof k_wanted_buffer);
}

/// Asks for a dump that is never read, and for as many answers about the loopback as fit.
std::int64_t take_netlink() {
    const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -1;
    enlarge(fd);
    struct {
        nlmsghdr header;
        ifinfomsg link;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_GETLINK;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    std::int64_t held = 0;
    for (int sent = 0; sent <= k_answers; ++sent) {
        if (::send(fd, &request, sizeof request, 0) < 0)
            break;
        held += k_answer_bytes;
        request.header.nlmsg_flags = NLM_F_REQUEST;
        request.link.ifi_index = 1;
    }
    return held;
}

sockaddr_in loopback() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/// Binds to a free port and stores it in `address`. False: errno says why not.
bool bind_to_any(int fd, sockaddr_in& address) {
    socklen_t size = sizeof address;
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
           ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
}

/// Sends to itself.
std::int64_t take_udp() {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    enlarge(fd);
    sockaddr_in address = loopback();
    if (!bind_to_any(fd, address) ||
        ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return -1;
    // Sends as much as a default buffer holds: the kernel drops further data without an error.
    std::int64_t held = 0;
    for (int i = 0; i < 6 && ::send(fd, filler.data(), filler.size(), 0) > 0; ++i)
        held += static_cast<std::int64_t>(filler.size());
    return held;
}

std::int64_t take_tcp() {
    static int listener = -1;
    static sockaddr_in address = loopback();
    static pid_t owner = 0;
    if (owner != ::getpid()) {
        owner = ::getpid();
        address = loopback();
        listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listener < 0 || !bind_to_any(listener, address) || ::listen(listener, SOMAXCONN) != 0)
            return -1;
    }
    const int sender = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sender < 0 || ::connect(sender, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return -1;
    if (::accept(listener, nullptr, nullptr) < 0)
        return -1;
    ::fcntl(sender, F_SETFL, O_NONBLOCK);
    return fill(sender);
}

std::int64_t take_unix() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    enlarge(ends[0]);
    enlarge(ends[1]);
    return fill(ends[0]) + fill(ends[1]);
}

std::int64_t take_pipe() {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    return fill(ends[1]);
}

std::int64_t take_pty() {
    const int fd = ::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -1 : fill(fd);
}

std::int64_t take_epoll() {
    const int set = ::epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        return -1;
    constexpr std::int64_t k_watch_bytes = 200;
    constexpr int k_watched = 64;
    epoll_event event{};
    event.events = EPOLLIN;
    std::int64_t held = 0;
    for (int fd = 0; fd < std::min(set, k_watched); ++fd) {
        if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0)
            held += k_watch_bytes;
    }
    return held;
}

std::int64_t take_timer() {
    constexpr std::int64_t k_timer_bytes = 450;
    const int fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const itimerspec far{{3600, 0}, {3600, 0}};
    return fd >= 0 && ::timerfd_settime(fd, 0, &far, nullptr) == 0 ? k_timer_bytes : -1;
}

/// Headers for packets that the socket never sends: each option of RFC 2292 holds 64 KiB of them twice.
std::int64_t take_option() {
    constexpr int k_pktoptions = 6;          // IPV6_2292PKTOPTIONS of linux/in6.h
    constexpr int k_hop_limit = 8;           // IPV6_2292HOPLIMIT
    constexpr std::size_t k_bytes = 65'520;  // net.core.optmem_max counts it twice
    static std::array<char, k_bytes> options;
    for (std::size_t at = 0; at + CMSG_SPACE(sizeof(int)) <= k_bytes; at += CMSG_SPACE(sizeof(int))) {
        auto* const header = reinterpret_cast<cmsghdr*>(options.data() + at);
        header->cmsg_len = CMSG_LEN(sizeof(int));
        header->cmsg_level = IPPROTO_IPV6;
        header->cmsg_type = k_hop_limit;
    }
    const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    for (std::size_t bytes = k_bytes; bytes > CMSG_SPACE(sizeof(int)); bytes /= 2) {
        if (::setsockopt(fd, IPPROTO_IPV6, k_pktoptions, options.data(), static_cast<socklen_t>(bytes)) == 0)
            return static_cast<std::int64_t>(bytes);
    }
    return -1;
}

struct Kind {
    std::string_view name;
    Take take;
};

constexpr Kind k_kinds[] = {{"netlink", take_netlink}, {"udp", take_udp},     {"tcp", take_tcp},
                            {"unix", take_unix},       {"pipe", take_pipe},   {"pty", take_pty},
                            {"epoll", take_epoll},     {"timer", take_timer}, {"option", take_option}};

struct Shared {
    SharedCounter made;
    SharedCounter bytes;
    SharedCounter finished;
    SharedCounter stopped;  // by a bound, or because no kind gives any more
};

/// In turns, until this process has no descriptors left. A kind that gives nothing more is left out.
void take_all(std::vector<Kind> kinds, const Shared& shared, const Options& options) {
    for (std::size_t next = 0; !kinds.empty() && !is_late(); ++next) {
        if (shared.made.value() >= options.max_count ||
            shared.bytes.value() / k_bytes_per_mb >= options.max_mb)
            break;
        const std::size_t at = next % kinds.size();
        const std::int64_t held = kinds[at].take();
        if (held < 0 && errno == EMFILE)
            return;
        if (held < 0) {
            refused(kinds[at].name);
            kinds.erase(kinds.begin() + static_cast<std::ptrdiff_t>(at));
            continue;
        }
        shared.made.add(1);
        shared.bytes.add(static_cast<std::uint64_t>(held));
    }
    shared.stopped.add(1);
}

void buffers(const Options& options) {
    std::vector<Kind> kinds;
    for (const Kind& kind : k_kinds) {
        if (std::find(options.words.begin(), options.words.end(), kind.name) != options.words.end())
            kinds.push_back(kind);
    }
    if (kinds.empty() || kinds.size() != options.words.size())
        give_up("needs the kinds of buffers");
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const Shared shared;
    std::uint64_t children = 0;
    while (shared.stopped.value() == 0 && !is_late()) {
        const int made = child([&] {
            take_all(kinds, shared, options);
            shared.finished.add(1);
        });
        if (made < 0) {
            refused("processes");
            break;
        }
        ++children;
        while (shared.finished.value() < children && !is_late())
            ::sched_yield();
    }
    taken("made", shared.made.value());
    taken("mb", shared.bytes.value() / k_bytes_per_mb);
    hold();
}

const Registration k_buffers{
    {"buffers",
     "netlink|udp|tcp|unix|pipe|pty|epoll|timer|option...: --max-count of them, or --max-mb in them",
     buffers}};

}  // namespace
}  // namespace atl::attack
