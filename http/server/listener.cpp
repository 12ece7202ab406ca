#include "http/server/listener.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/fix.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::UniqueFd;

constexpr int k_backlog = 4096;
// Ports that the kernel chooses for one address before none is free for all of a name.
constexpr int k_port_tries = 16;
constexpr std::string_view k_unix = "unix:";
constexpr auto k_same_owner = static_cast<uid_t>(-1);  // chown(2)
// The most output to a client that the kernel holds before it is sent (TCP_NOTSENT_LOWAT, tcp(7)): without it
// a client that never reads costs net.ipv4.tcp_wmem's maximum, megabytes. Bytes in flight do not count.
constexpr int k_unsent_bytes = base::k_free_unsent_bytes;

Error failure(const std::string& spec, const char* call, int error_number, std::string_view remedy) {
    return Error(Errc::listen_failed, "Cannot listen on " + spec + ": " +
                                          base::errno_text(call, error_number) + ". " + std::string(remedy));
}

std::string_view remedy_for(int error_number) {
    switch (error_number) {
        case EADDRINUSE:
            return "Another process has this address: stop it, or choose another with --listen.";
        case EACCES:
            return "This port or path needs more rights: choose a port from 1024 up with --listen.";
        case EADDRNOTAVAIL:
            return "No interface of this host has this address: choose another with --listen, or start the "
                   "server once one has it.";
        default:
            return "Choose another address with --listen.";
    }
}

struct HostPort {
    std::string host;
    std::string port;
};

std::optional<HostPort> split_host_port(std::string_view spec) {
    const auto colon = spec.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
        return std::nullopt;
    auto host = spec.substr(0, colon);
    const auto port = parse_decimal(spec.substr(colon + 1));
    if (!port || *port > 65'535)
        return std::nullopt;
    if (host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
        return std::nullopt;
    return HostPort{std::string(host), std::to_string(*port)};
}

std::string address_text(const sockaddr_storage& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
        ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
        return std::string(text.data()) + ':' + std::to_string(ntohs(v4.sin_port));
    }
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return '[' + std::string(text.data()) + "]:" + std::to_string(ntohs(v6.sin6_port));
}

in_port_t& port_in(sockaddr_storage& address) {
    return address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                        : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
}

ListenerScope reach_of(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) {
        const auto ip = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
        return (ip >> 24U) == 127 ? ListenerScope::loopback : ListenerScope::network;
    }
    const auto& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip) ? ListenerScope::loopback : ListenerScope::network;
}

// A client that vanished without a word, asleep or behind a NAT, is noticed within two minutes. Accepted
// sockets inherit it.
void probe_silent_clients(int fd) {
    const int on = 1;
    const int first_seconds = 60;
    const int each_seconds = 15;
    const int probes = 4;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &first_seconds, sizeof first_seconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_seconds, sizeof each_seconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/// Whose clients an IPv6 address takes.
enum class Families : std::uint8_t {
    as_host,  // `::` those of IPv4, too, unless the host says otherwise (ipv6(7))
    own,
};

// On an error none, and errno in `error_number` with the name of the call in `call`.
UniqueFd listen_at(const sockaddr* address, socklen_t length, Families families, const char*& call,
                   int& error_number) {
    UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    call = "socket";
    bool is_done = static_cast<bool>(fd);
    if (is_done) {
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        probe_silent_clients(fd.get());
        if (families == Families::own && address->sa_family == AF_INET6)
            ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        call = "bind";
        is_done = ::bind(fd.get(), address, length) == 0;
    }
    if (is_done) {
        call = "listen";
        is_done = ::listen(fd.get(), k_backlog) == 0;
    }
    error_number = is_done ? 0 : errno;
    return is_done ? std::move(fd) : UniqueFd();
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

base::Result<Addresses> look_up(const std::string& spec) {
    const auto target = split_host_port(spec);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int code = ::getaddrinfo(target->host.c_str(), target->port.c_str(), &hints, &found); code != 0)
        return Error(Errc::listen_failed, "Cannot listen on " + spec + ": " + ::gai_strerror(code) + '.');
    return Addresses(found, &::freeaddrinfo);
}

// Removes a socket file that nobody serves. EADDRINUSE if somebody does, 0 if the path is free now.
int free_unix_path(const sockaddr_un& address) {
    struct stat status {};
    if (::lstat(address.sun_path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode))
        return EADDRINUSE;
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool refused =
        ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
        errno == ECONNREFUSED;
    if (!refused)
        return EADDRINUSE;
    return ::unlink(address.sun_path) == 0 ? 0 : errno;
}

/// The remedy for an error with a socket's file.
std::string remedy_for_path(int error_number, const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (error_number == ENOENT)
        return "The folder " + folder + " does not exist: create it, or choose another path with --listen." +
               base::fix_line("mkdir -p " + folder);
    if (error_number == ENOTDIR)
        return folder + " is no folder: choose another path with --listen.";
    return std::string(remedy_for(error_number));
}

base::Result<UniqueFd> listen_unix(const std::string& spec, const std::string& path,
                                   std::optional<gid_t> group) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (const int error = free_unix_path(address); error != 0)
        return failure(spec, "bind", error, remedy_for(error));
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd)
        return failure(spec, "socket", errno, remedy_for(errno));
    const mode_t old_mask = ::umask(0177);  // the file is made with mode 0600 at once
    const int code = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int error = errno;
    ::umask(old_mask);
    if (code != 0)
        return failure(spec, "bind", error, remedy_for_path(error, path));
    // Connecting needs write permission on the file (unix(7)). The group first: until then 0660 is another's.
    if (group &&
        (::lchown(address.sun_path, k_same_owner, *group) != 0 || ::chmod(address.sun_path, 0660) != 0)) {
        const int cause = errno;
        ::unlink(address.sun_path);
        return failure(
            spec, "chown", cause,
            "Only root, or a member of the group, can give the socket to it: see --unix-socket-group.");
    }
    if (::listen(fd.get(), k_backlog) != 0)
        return failure(spec, "listen", errno, remedy_for(errno));
    return fd;
}

std::uint64_t inode_of(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

base::Result<void> check_listen_spec(const std::string& spec) {
    constexpr std::size_t k_path_bytes = sizeof(sockaddr_un::sun_path);
    if (!spec.starts_with(k_unix)) {
        if (!split_host_port(spec))
            return Error(Errc::listen_failed, "`" + spec + "` is not HOST:PORT, [V6]:PORT or unix:PATH.");
        const auto found = look_up(spec);
        return found.has_error() ? base::Result<void>(found.error()) : base::Result<void>();
    }
    if (spec.size() == k_unix.size() || spec.size() - k_unix.size() >= k_path_bytes)
        return Error(Errc::listen_failed, "The path of " + spec + " must have 1 to 107 bytes (unix(7)).");
    const std::string path = spec.substr(k_unix.size());
    const auto folder = std::filesystem::path(path).parent_path();
    const bool is_there = folder.empty() || ::access((folder / ".").c_str(), F_OK) == 0;
    const int cause = errno;
    return is_there ? base::Result<void>() : failure(spec, "bind", cause, remedy_for_path(cause, path));
}

Listener::Listener(base::Executor executor, UniqueFd fd, int family, ListenerScope reach)
    : descriptor_(executor, fd.release()), family_(family), reach_(reach) {}

Listener::~Listener() {
    close();
}

base::Result<std::vector<Listener>> Listener::open(base::Executor executor, const std::string& spec,
                                                   std::optional<gid_t> unix_group) {
    if (auto formed = check_listen_spec(spec); formed.has_error())
        return formed.error();
    if (spec.starts_with(k_unix)) {
        const std::string path = spec.substr(k_unix.size());
        auto fd = listen_unix(spec, path, unix_group);
        if (fd.has_error())
            return fd.error();
        std::vector<Listener> opened;
        opened.push_back(Listener(executor, std::move(*fd), AF_UNIX, ListenerScope::unix_socket));
        opened.back().address_ = spec;
        opened.back().unix_path_ = path;
        opened.back().unix_inode_ = inode_of(path);
        return opened;
    }
    const auto addresses = look_up(spec);
    if (addresses.has_error())
        return addresses.error();
    return open_all(executor, spec, addresses->get());
}

base::Result<std::vector<Listener>> Listener::open_all(base::Executor executor, const std::string& spec,
                                                       const addrinfo* addresses) {
    const char* call = "getaddrinfo";
    int error = EADDRNOTAVAIL;
    int tries = 1;
    // Where a name has both, `::` would take the port of 0.0.0.0.
    Families families = Families::as_host;
    for (const addrinfo* each = addresses; each != nullptr; each = each->ai_next) {
        if (each->ai_addr->sa_family == AF_INET)
            families = Families::own;
    }
    std::vector<Listener> opened;
    for (const addrinfo* at = addresses; at != nullptr;) {
        sockaddr_storage address{};
        std::memcpy(&address, at->ai_addr, at->ai_addrlen);
        const bool is_chosen = port_in(address) == 0 && !opened.empty();
        if (is_chosen)
            port_in(address) = htons(opened.front().port());
        socklen_t length = at->ai_addrlen;
        at = at->ai_next;
        // A name may have one address twice.
        if (std::ranges::find(opened, address_text(address), &Listener::address_) != opened.end())
            continue;
        UniqueFd fd = listen_at(reinterpret_cast<const sockaddr*>(&address), length, families, call, error);
        if (fd) {
            ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
            opened.push_back(Listener(executor, std::move(fd), address.ss_family, reach_of(address)));
            opened.back().address_ = address_text(address);
        } else if (is_chosen && error == EADDRINUSE && tries < k_port_tries) {
            ++tries;
            opened.clear();
            at = addresses;
        } else if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) {
            // Where it is taken, clients of the name could reach, and send their keys to, another program.
            const std::string taken = address_text(address);
            return failure(taken == spec ? spec : taken + ", an address of " + spec, call, error,
                           remedy_for(error));
        }
    }
    if (opened.empty())
        return failure(spec, call, error, remedy_for(error));
    return opened;
}

std::optional<Listener> Listener::open_loopback(base::Executor executor, int family, std::uint16_t port,
                                                int& error_number) {
    sockaddr_storage address{};
    socklen_t length = sizeof(sockaddr_in);
    if (family == AF_INET) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(address);
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        v6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
        length = sizeof v6;
    }
    const char* call = nullptr;
    UniqueFd fd =
        listen_at(reinterpret_cast<const sockaddr*>(&address), length, Families::as_host, call, error_number);
    if (!fd)
        return std::nullopt;
    Listener listener(executor, std::move(fd), family, ListenerScope::loopback);
    listener.address_ = address_text(address);
    return listener;
}

Listener Listener::adopt(base::Executor executor, UniqueFd fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    Listener listener(executor, std::move(fd), address.ss_family, reach_of(address));
    listener.address_ = address_text(address);
    return listener;
}

std::uint16_t Listener::port() const noexcept {
    const auto number = parse_decimal(std::string_view(address_).substr(address_.rfind(':') + 1));
    return family_ == AF_UNIX ? 0 : static_cast<std::uint16_t>(number.value_or(0));
}

base::Task<bool> Listener::async_wait() {
    boost::system::error_code error;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable_t<base::Executor>{}, error);
    co_await descriptor_.async_wait(Descriptor::wait_read, token);
    co_return !error && descriptor_.is_open();
}

std::optional<Accepted> Listener::accept(bool& exhausted) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd = ::accept4(descriptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer), &length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return std::nullopt;
    }
    if (family_ != AF_UNIX) {
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &k_unsent_bytes, sizeof k_unsent_bytes);
    }
    UniqueFd owner(fd);
    boost::system::error_code error;
    Socket socket(descriptor_.get_executor());
    socket.assign(boost::asio::generic::stream_protocol(family_, 0), fd, error);
    if (error)
        return std::nullopt;
    owner.release();
    socket.non_blocking(true,
                        error);  // no system call: the descriptor is non-blocking already, Asio has to know
    return Accepted{std::move(socket), address_of(peer)};
}

void Listener::close() {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    if (!unix_path_.empty() && inode_of(unix_path_) == unix_inode_)
        ::unlink(unix_path_.c_str());
    unix_path_.clear();
}

}  // namespace atl::http
