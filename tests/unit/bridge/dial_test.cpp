// `dial` of a real guest that shares the test's network.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bridge/protocol.hpp"
#include "guest_process.hpp"

namespace atl::test::dial_test {
namespace {

/// Listens on a free port of the loopback.
class Listener {
  public:
    explicit Listener(int family = AF_INET) : socket_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in6 ipv6{};
        sockaddr_in ipv4{};
        ipv4.sin_family = AF_INET;
        ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ipv6.sin6_family = AF_INET6;
        ipv6.sin6_addr = in6addr_loopback;
        const bool is_ipv4 = family == AF_INET;
        auto* address = is_ipv4 ? reinterpret_cast<sockaddr*>(&ipv4) : reinterpret_cast<sockaddr*>(&ipv6);
        socklen_t size = is_ipv4 ? sizeof ipv4 : sizeof ipv6;
        usable = bind(socket_.get(), address, size) == 0 && listen(socket_.get(), 4) == 0 &&
                 getsockname(socket_.get(), address, &size) == 0;
        port = ntohs(is_ipv4 ? ipv4.sin_port : ipv6.sin6_port);
    }
    base::UniqueFd accept() const {
        pollfd waiting{socket_.get(), POLLIN, 0};
        REQUIRE(poll(&waiting, 1, k_client_deadline_ms) == 1);
        base::UniqueFd peer(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        const timeval deadline{k_client_deadline.count(), 0};
        setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
        setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
        return peer;
    }
    void close() { socket_.reset(); }

    std::uint16_t port = 0;
    bool usable = false;

  private:
    base::UniqueFd socket_;
};

std::string dial(std::uint64_t port) {
    return "{\"cmd\":\"dial\",\"port\":" + std::to_string(port) + "}";
}

/// All until the end, or `most` bytes.
std::string read_all(int fd, std::size_t most = ~std::size_t{0}) {
    std::string text;
    char chunk[65536];
    while (text.size() < most) {
        const ssize_t size = recv(fd, chunk, std::min(sizeof chunk, most - text.size()), 0);
        REQUIRE(size >= 0);
        if (size == 0)
            break;
        text.append(chunk, static_cast<std::size_t>(size));
    }
    return text;
}

void send_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        REQUIRE(size > 0);
        text.remove_prefix(static_cast<std::size_t>(size));
    }
}

}  // namespace

TEST_CASE("dial gives the bytes of a connection, and each side ends by itself") {
    const GuestProcess guest;
    const int family = GENERATE(AF_INET, AF_INET6);
    const Listener listener(family);
    if (!listener.usable)
        SKIP("no such loopback on this host");
    Client host = guest.send(dial(listener.port));
    CHECK(host.line() == R"({"ok":true})");
    const base::UniqueFd peer = listener.accept();
    host.send("from the host");
    CHECK(read_all(peer.get(), 13) == "from the host");
    SECTION("the host first") {
        shutdown(host.fd(), SHUT_WR);
        CHECK(read_all(peer.get()).empty());
        send_all(peer.get(), "still there");
        shutdown(peer.get(), SHUT_WR);
        CHECK(read_all(host.fd()) == "still there");
    }
    SECTION("the peer first") {
        send_all(peer.get(), "last words");
        shutdown(peer.get(), SHUT_WR);
        CHECK(read_all(host.fd()) == "last words");
        host.send("still there");
        shutdown(host.fd(), SHUT_WR);
        CHECK(read_all(peer.get()) == "still there");
    }
    SECTION("a host that closes it ends it") {
        host.close();
        CHECK(read_all(peer.get()).empty());
    }
    SECTION("a peer that resets it ends it") {
        const linger now{1, 0};
        setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
        ::close(const_cast<base::UniqueFd&>(peer).release());
        CHECK(read_all(host.fd()).empty());
    }
}

TEST_CASE("bytes that come with the dial are not lost") {
    const GuestProcess guest;
    const Listener listener;
    Client host = guest.connect();
    host.send(dial(listener.port) + "\nearly");
    shutdown(host.fd(), SHUT_WR);
    const base::UniqueFd peer = listener.accept();
    CHECK(read_all(peer.get()) == "early");
}

TEST_CASE("a side that does not read holds the other one back and nothing else") {
    const GuestProcess guest;
    const Listener listener;
    Client host = guest.send(dial(listener.port));
    CHECK(host.line() == R"({"ok":true})");
    const base::UniqueFd peer = listener.accept();
    const std::string bytes(20'000'000, 'x');
    const bool from_host = GENERATE(true, false);
    const int writer = from_host ? host.fd() : peer.get();
    const int reader = from_host ? peer.get() : host.fd();
    // The test sends until all buffers are full, with no reader. The guest must still answer others then.
    std::size_t sent = 0;
    for (pollfd writable{writer, POLLOUT, 0}; poll(&writable, 1, 200) == 1;) {
        const ssize_t size =
            ::send(writer, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        REQUIRE(size > 0);
        sent += static_cast<std::size_t>(size);
    }
    CHECK(sent < bytes.size());
    CHECK(guest.ask("{}").at("error") == "not a command");
    shutdown(writer, SHUT_WR);
    CHECK(read_all(reader).size() == sent);
}

TEST_CASE("ports that cannot be dialled are refused") {
    const GuestProcess guest;
    Listener listener;
    const std::uint16_t free_port = listener.port;
    listener.close();
    CHECK(guest.ask(dial(free_port)) ==
          nlohmann::json{{"ok", false},
                         {"error", "port " + std::to_string(free_port) + " is not listened on"},
                         {"code", "no_listener"}});
    for (const std::uint64_t port : {0UL, 65536UL, 3128UL, 3129UL}) {
        const auto reply = guest.ask(dial(port));
        CHECK(reply.at("ok") == false);
        CHECK(reply.at("code") == "invalid");
    }
    for (const std::string_view members : {"", ",\"port\":\"80\"", ",\"port\":-1", ",\"port\":1.5",
                                           ",\"port\":[1]", ",\"port\":null", ",\"port\":80,\"port\":3128"})
        CHECK(guest.ask("{\"cmd\":\"dial\"" + std::string(members) + "}").at("error") ==
              "`port` is not a port");
}

}  // namespace atl::test::dial_test
