// Tries to make sockets and to reach services, and is itself a service to be reached.
// An endpoint is written tcp:PORT:ADDRESS, unix:PATH or abstract:NAME.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr int k_answer_wait_ms = 60'000;
constexpr std::string_view k_request = "GET / HTTP/1.0\r\n\r\n";
constexpr std::string_view k_answer = "HTTP/1.0 200 OK\r\n\r\nanswer";

long raw_socket(long family, long type, long protocol) {
    const long fd = ::syscall(SYS_socket, family, type, protocol);
    if (fd >= 0)
        ::close(static_cast<int>(fd));
    return fd;
}

struct Type {
    const char* name;
    long value;
};
constexpr Type k_types[] = {{"stream", SOCK_STREAM}, {"dgram", SOCK_DGRAM},         {"raw", SOCK_RAW},
                            {"rdm", SOCK_RDM},       {"seqpacket", SOCK_SEQPACKET}, {"packet", SOCK_PACKET}};

/// NUMBER/TYPE for every family that there is or may be, with protocol 0.
void families(const Arguments&) {
    for (long family = 0; family < 64; ++family) {
        for (const Type& type : k_types)
            tell(std::to_string(family) + "/" + type.name, raw_socket(family, type.value, 0));
    }
}

/// The same sockets asked for in ways that a filter may overlook.
void disguises(const Arguments&) {
    tell("high-family", raw_socket(AF_PACKET | k_high_half, SOCK_DGRAM, 0));
    tell("high-type", raw_socket(AF_INET, SOCK_RAW | k_high_half, IPPROTO_ICMP));
    tell("flagged-type", raw_socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP));
    tell("high-protocol", raw_socket(AF_NETLINK | k_high_half, SOCK_RAW | k_high_half, NETLINK_GENERIC));
}

/// raw sockets of the Internet families that mean something: ICMP, TCP, everything.
void raw_internet(const Arguments&) {
    for (const int protocol : {1, 6, 58, 255}) {
        tell("inet/" + std::to_string(protocol), raw_socket(AF_INET, SOCK_RAW, protocol));
        tell("inet6/" + std::to_string(protocol), raw_socket(AF_INET6, SOCK_RAW, protocol));
    }
}

void netlink(const Arguments&) {
    for (long protocol = 0; protocol < 32; ++protocol)
        tell(std::to_string(protocol), raw_socket(AF_NETLINK, SOCK_RAW, protocol));
}

union Address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un local;
};

struct Endpoint {
    Address address{};
    socklen_t size = 0;
};

Endpoint parse_tcp(const std::string& text) {
    Endpoint made;
    const auto colon = text.find(':');
    const auto port = htons(static_cast<in_port_t>(std::stoi(text.substr(0, colon))));
    const std::string host = text.substr(colon + 1);
    if (::inet_pton(AF_INET, host.c_str(), &made.address.v4.sin_addr) == 1) {
        made.address.v4.sin_family = AF_INET;
        made.address.v4.sin_port = port;
        made.size = sizeof(sockaddr_in);
    } else if (::inet_pton(AF_INET6, host.c_str(), &made.address.v6.sin6_addr) == 1) {
        made.address.v6.sin6_family = AF_INET6;
        made.address.v6.sin6_port = port;
        made.size = sizeof(sockaddr_in6);
    } else {
        give_up("no address: " + host);
    }
    return made;
}

Endpoint parse_local(const std::string& name, std::size_t at) {
    Endpoint made;
    made.address.local.sun_family = AF_UNIX;
    if (at + name.size() >= sizeof made.address.local.sun_path)
        give_up("the name is too long: " + name);
    ::memcpy(made.address.local.sun_path + at, name.data(), name.size());
    // A path ends with its zero byte, an abstract name has none.
    made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
    return made;
}

Endpoint parse(const std::string& text) {
    const auto colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    const std::string rest = text.substr(colon + 1);
    if (kind == "tcp")
        return parse_tcp(rest);
    if (kind == "unix" || kind == "abstract")
        return parse_local(rest, kind == "unix" ? 0 : 1);
    give_up("no endpoint: " + text);
}

bool await(int fd, short events) {
    pollfd waiting{fd, events, 0};
    errno = ETIMEDOUT;
    return ::poll(&waiting, 1, k_answer_wait_ms) == 1;
}

/// 0 with an errno of the connection, as connect(2) gives it.
long finish_connecting(int fd) {
    int error = 0;
    socklen_t size = sizeof error;
    if (!await(fd, POLLOUT) || ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return -1;
    errno = error;
    return error == 0 ? 0 : -1;
}

/// OK only if the other side answers as serve() does.
long ask(const std::string& text) {
    const Endpoint peer = parse(text);
    const int fd = ::socket(peer.address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    long result = ::connect(fd, &peer.address.any, peer.size);
    if (result != 0 && errno == EINPROGRESS)
        result = finish_connecting(fd);
    char buffer[128];
    if (result != 0 || ::send(fd, k_request.data(), k_request.size(), MSG_NOSIGNAL) < 0 || !await(fd, POLLIN))
        return -1;
    const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
    ::close(fd);
    errno = EPROTO;
    return count > 0 && std::string_view(buffer, static_cast<std::size_t>(count)) == k_answer ? 0 : -1;
}

void connect_all(const Arguments& endpoints) {
    for (const auto& endpoint : endpoints)
        tell(endpoint, ask(endpoint));
}

/// The endpoint with the port that it got.
std::string bound_name(int fd, const std::string& text) {
    Address address{};
    socklen_t size = sizeof address;
    if (!text.starts_with("tcp:") || ::getsockname(fd, &address.any, &size) != 0)
        return text;
    const auto port = address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port;
    return "tcp:" + std::to_string(ntohs(port)) + text.substr(text.find(':', 4));
}

int listen_on(const std::string& text) {
    const Endpoint own = parse(text);
    const int fd = ::socket(own.address.any.sa_family, SOCK_STREAM, 0);
    const bool listens = fd >= 0 && ::bind(fd, &own.address.any, own.size) == 0 && ::listen(fd, 16) == 0;
    tell(listens ? bound_name(fd, text) : text, listens ? 0 : -1);
    return listens ? fd : -1;
}

void answer(int listener) {
    const int peer = ::accept(listener, nullptr, nullptr);
    char request[1024];
    if (peer >= 0 && await(peer, POLLIN) && ::recv(peer, request, sizeof request, 0) >= 0)
        ::send(peer, k_answer.data(), k_answer.size(), MSG_NOSIGNAL);
    ::close(peer);
}

/// Answers on the endpoints until it is killed. Port 0 means a free port: each endpoint is printed as bound.
void serve(const Arguments& endpoints) {
    ::umask(0);  // a socket with a path is open to everybody
    std::vector<pollfd> listeners;
    for (const auto& endpoint : endpoints) {
        if (const int fd = listen_on(endpoint); fd >= 0)
            listeners.push_back({fd, POLLIN, 0});
    }
    say("serving", std::to_string(listeners.size()));
    while (::poll(listeners.data(), listeners.size(), -1) > 0) {
        for (const pollfd& listener : listeners) {
            if (listener.revents != 0)
                answer(listener.fd);
        }
    }
}

/// A datagram has no connection: connecting only asks for a route.
void routes(const Arguments& addresses) {
    for (const auto& address : addresses) {
        const Endpoint peer = parse_tcp("53:" + address);
        const int fd = ::socket(peer.address.any.sa_family, SOCK_DGRAM, 0);
        tell(address, fd < 0 ? -1 : ::connect(fd, &peer.address.any, peer.size));
        ::close(fd);
    }
}

/// The names of all network interfaces, as NETLINK_ROUTE tells them.
void interfaces(const Arguments&) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return tell("getifaddrs", -1);
    std::set<std::string> names;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
        names.insert(entry->ifa_name);
    ::freeifaddrs(first);
    for (const auto& name : names)
        say(name, "OK");
}

}  // namespace

std::span<const Command> socket_commands() {
    static constexpr Command k_commands[] = {
        {"families", families}, {"disguises", disguises},  {"raw-internet", raw_internet},
        {"netlink", netlink},   {"connect", connect_all},  {"serve", serve},
        {"routes", routes},     {"interfaces", interfaces}};
    return k_commands;
}

}  // namespace atl::probe
