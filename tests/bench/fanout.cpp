#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <optional>
#include <stdexcept>
#include <system_error>

#include "tests/bench/beast_server.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/sockets.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_sockets = 1000;
constexpr std::size_t k_rounds = 200;
constexpr std::size_t k_warm_up = 5;
constexpr double k_budget_ms = 30'000;
constexpr double k_max_ratio = 2;
// Our WebSocket codec stays if its time is at most this share of Beast's.
constexpr double k_max_beast_ratio = 0.9;

/// The floor: a process that holds the same connections and writes the same bytes to each when told so.
class BareFanOut {
  public:
    explicit BareFanOut(std::string bytes) : bytes_(std::move(bytes)) {
        const LoopbackListener listener;
        SocketPair pair;
        child_.emplace([&] { serve(listener.fd.get(), pair.theirs.get()); });
        trigger_ = std::move(pair.ours);
        port_ = listener.port;
    }
    std::uint16_t port() const { return port_; }
    void publish() {
        if (::send(trigger_.get(), "x", 1, MSG_NOSIGNAL) != 1)
            throw std::system_error(errno, std::generic_category(), "send");
    }

  private:
    void serve(int listener, int trigger) const {
        std::vector<base::UniqueFd> clients;
        while (clients.size() < sized(k_sockets)) {
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
    for (std::size_t i = 0; i < sized(k_sockets); ++i)
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

bool is_done(std::string_view payload) {
    return payload.find(R"("type":"done")") != std::string_view::npos;
}

constexpr char k_message[] = R"({"type":"message","content":"hello"})";

/// A thousand sockets that listen, and one that sends the messages.
class Clients {
  public:
    Clients(std::uint16_t port, const std::string& target, const std::string& key, const std::string& after)
        : sender_(port, target + after, key), sockets_(open_all(port, target + after, key)) {}
    double round() {
        const double ms = round_ms(sockets_, [&] { sender_.send_text(k_message); });
        sender_.await(is_done);
        return ms;
    }
    /// Waits until each socket has received the turn that was recorded before.
    void await_first() {
        await_all_done(sockets_);
        sender_.await(is_done);
    }

  private:
    WebSocket sender_;
    std::vector<WebSocket> sockets_;
};

/// The frames of a turn on a WebSocket.
struct Turn {
    std::string bytes;
    std::vector<std::string> payloads;
    std::size_t seen_before = 0;  // events of the log before this turn
};

Turn record_turn(const Server& server, const std::string& target) {
    Turn turn;
    WebSocket sample(server.port(), target, server.key());
    sample.send_text(k_message);
    sample.await([&](std::string_view payload) { return ++turn.seen_before, is_done(payload); });
    sample.send_text(k_message);
    while (!is_done(turn.bytes))
        turn.bytes += sample.receive_some();
    FrameReader reader;
    reader.feed(turn.bytes, [&](std::string_view payload) { turn.payloads.emplace_back(payload); });
    return turn;
}

}  // namespace

std::vector<Result> measure_fanout(Scope scope) {
    Result result{.key = "fanout_ms", .unit = "ms", .target = "ratio <= 2"};
    Result to_beast{.key = "fanout_to_beast", .unit = "ms", .target = "ratio <= 0.9"};
    allow_open_files(3 * k_sockets + 200);
    const Server server;
    Connection connection(server.port());
    const std::string target = "/v1/conversations/" + server.create_conversation(connection, "echo") + "/ws";
    const Turn turn = record_turn(server, target);
    BareFanOut floor(turn.bytes);
    auto floor_sockets = open_all(floor.port(), "", "");
    const BeastServer beast(turn.payloads);
    Clients beast_clients(beast.port(), "/", "", "");
    std::optional<Clients> clients;
    if (has_product(scope)) {
        clients.emplace(server.port(), target, server.key(), "?after=" + std::to_string(turn.seen_before));
        clients->await_first();
    }
    Samples floors;
    Samples beasts;
    Samples products;
    double cpu_before_ms = 0;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < k_warm_up + sized(k_rounds) && ms_since(began) < k_budget_ms;
         ++round) {
        const bool with_floors = has_floor(scope);
        const double floor_ms = with_floors ? round_ms(floor_sockets, [&] { floor.publish(); }) : 0;
        const double beast_ms = with_floors ? beast_clients.round() : 0;
        const double ms = clients ? clients->round() : 0;
        if (round + 1 == k_warm_up)
            cpu_before_ms = server.cpu_ms();
        if (round < k_warm_up)
            continue;
        floors.add(floor_ms);
        beasts.add(beast_ms);
        products.add(ms);
    }
    if (has_product(scope))
        result.more["server_cpu_ms"] =
            (server.cpu_ms() - cpu_before_ms) / static_cast<double>(products.size());
    if (!has_floor(scope)) {
        result.p50 = products.p50();
        result.p95 = products.p95();
        return {result};
    }
    result.floor = floors.p50();
    result.more["bytes"] = static_cast<double>(turn.bytes.size());
    result.more["iterations"] = static_cast<double>(floors.size());
    to_beast.floor = beasts.p50();
    to_beast.more["floor_p95"] = beasts.p95();
    if (has_product(scope)) {
        result.p50 = to_beast.p50 = products.p50();
        result.p95 = to_beast.p95 = products.p95();
        result.ratio = *result.p50 / *result.floor;
        result.reached = *result.ratio <= k_max_ratio;
        to_beast.ratio = *to_beast.p50 / *to_beast.floor;
        to_beast.reached = *to_beast.ratio <= k_max_beast_ratio;
    }
    return {result, to_beast};
}

}  // namespace atl::bench
