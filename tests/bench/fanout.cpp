#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_sockets = 1000;
constexpr std::size_t k_rounds = 200;
constexpr std::size_t k_warm_up = 5;
constexpr double k_budget_ms = 30'000;
constexpr double k_max_ratio = 2;

/// The floor: a process that holds the same connections and writes the same bytes to each when told so.
class BareFanOut {
  public:
    explicit BareFanOut(std::string bytes) : bytes_(std::move(bytes)) {
        base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        std::array<int, 2> pair;
        if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
            ::listen(listener.get(), SOMAXCONN) != 0 ||
            ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
            ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
            throw std::system_error(errno, std::generic_category(), "the floor's sockets");
        trigger_.reset(pair[0]);
        base::UniqueFd theirs(pair[1]);
        child_.emplace([&] { serve(listener.get(), theirs.get()); });
        port_ = ntohs(address.sin_port);
    }
    std::uint16_t port() const { return port_; }
    void publish() {
        if (::send(trigger_.get(), "x", 1, MSG_NOSIGNAL) != 1)
            throw std::system_error(errno, std::generic_category(), "send");
    }

  private:
    void serve(int listener, int trigger) const {
        std::vector<base::UniqueFd> clients;
        while (clients.size() < k_sockets) {
            clients.emplace_back(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            const int on = 1;
            ::setsockopt(clients.back().get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        }
        for (char byte = 0; ::recv(trigger, &byte, 1, 0) == 1;) {
            for (const auto& client : clients)
                ::send(client.get(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
        }
    }

    std::string bytes_;
    std::uint16_t port_ = 0;
    base::UniqueFd trigger_;
    std::optional<Child> child_;
};

std::vector<WebSocket> open_all(std::uint16_t port, const std::string& target, const std::string& key) {
    std::vector<WebSocket> sockets;
    for (std::size_t i = 0; i < k_sockets; ++i)
        sockets.emplace_back(port, target, key);
    return sockets;
}

/// Milliseconds from `publish` until the last socket has its event.
template <class Publish>
double round_ms(std::vector<WebSocket>& sockets, Publish publish) {
    const auto began = Clock::now();
    publish();
    await_all_done(sockets);
    return ms_since(began);
}

}  // namespace

Result measure_fanout(Scope scope) {
    Result result{.key = "fanout_ms", .unit = "ms", .target = "ratio <= 2"};
    allow_open_files(2 * k_sockets + 100);
    const Server server;
    Connection connection(server.port());
    const std::string id = server.create_conversation(connection, "echo");
    const std::string target = "/v1/conversations/" + id + "/ws";
    const std::string message = R"({"type":"message","content":"hello"})";
    // What a turn puts on a WebSocket is what the floor writes.
    WebSocket sample(server.port(), target, server.key());
    const auto is_done = [](std::string_view payload) {
        return payload.find(R"("type":"done")") != std::string_view::npos;
    };
    std::size_t seen = 0;
    sample.send_text(message);
    sample.await([&](std::string_view payload) { return ++seen, is_done(payload); });
    sample.send_text(message);
    std::string bytes;
    while (!is_done(bytes))
        bytes += sample.receive_some();
    BareFanOut floor(bytes);
    auto floor_sockets = open_all(floor.port(), "", "");
    std::vector<WebSocket> sockets;
    if (scope == Scope::product_and_floor)
        // The turn of the sample is in it, too: it goes before the first round.
        sockets = open_all(server.port(), target + "?after=" + std::to_string(seen), server.key());
    if (scope == Scope::product_and_floor)
        await_all_done(sockets);
    Samples floors;
    Samples products;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < k_warm_up + k_rounds && ms_since(began) < k_budget_ms; ++round) {
        const double floor_ms = round_ms(floor_sockets, [&] { floor.publish(); });
        if (round >= k_warm_up)
            floors.add(floor_ms);
        if (scope == Scope::floor_only)
            continue;
        const double ms = round_ms(sockets, [&] { sample.send_text(message); });
        sample.await(is_done);
        if (round >= k_warm_up)
            products.add(ms);
    }
    result.floor = floors.p50();
    result.more["bytes"] = static_cast<double>(bytes.size());
    result.more["iterations"] = static_cast<double>(floors.size());
    if (scope == Scope::floor_only)
        return result;
    result.p50 = products.p50();
    result.p95 = products.p95();
    result.ratio = *result.p50 / *result.floor;
    result.reached = *result.ratio <= k_max_ratio;
    return result;
}

}  // namespace atl::bench
