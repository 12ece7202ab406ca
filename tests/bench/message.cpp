#include <optional>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/beast_server.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr double k_budget_ms = 18'000;
constexpr std::size_t k_warm_up = 200;
constexpr std::size_t k_block = 100;
constexpr std::size_t k_blocks = 150;
constexpr double k_max_ratio = 2;
constexpr double k_max_p50_ms = 0.3;
constexpr double k_max_socket_ratio = 1.5;

void exchange(Connection& connection, const std::string& request, std::size_t count, Samples* samples) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto began = Clock::now();
        const Response response = connection.exchange(request);
        const double ms = ms_since(began);
        if (samples)
            samples->add(ms);
        if (response.status != 200)
            Server::check_turn(response.status, response.body);
    }
}

/// Messages over HTTP, each to the end of its turn.
struct HttpProduct {
    HttpProduct() : connection(server.port()) {
        request = server.message_request(server.create_conversation(connection, "echo"));
        const Response response = connection.exchange(request);
        Server::check_turn(response.status, response.body);
    }
    void run(std::size_t count, Samples* samples) { exchange(connection, request, count, samples); }

    Server server;
    Connection connection;
    std::string request;
};

/// Messages over an open WebSocket, each to its first event and to the end of its turn. The next one waits
/// for that.
class SocketClient {
  public:
    SocketClient(std::uint16_t port, const std::string& target, const std::string& key)
        : socket_(port, target, key) {}
    void await(std::string_view what) {
        socket_.await([&](std::string_view payload) { return payload.find(what) != payload.npos; });
    }
    void run(std::size_t count, Samples* firsts, Samples* turns) {
        for (std::size_t i = 0; i < count; ++i) {
            bool done = false;
            const auto look = [&](std::string_view payload) {
                done = done || payload.find(R"("type":"done")") != payload.npos;
                return true;
            };
            const auto began = Clock::now();
            socket_.send_text(R"({"type":"message","content":"hello"})");
            socket_.await(look);
            if (firsts)
                firsts->add(ms_since(began));
            while (!done)
                socket_.await(look);
            if (turns)
                turns->add(ms_since(began));
        }
    }

  private:
    WebSocket socket_;
};

struct SocketProduct {
    SocketProduct() : connection(server.port()) {
        const std::string id = server.create_conversation(connection, "echo");
        client.emplace(server.port(), "/v1/conversations/" + id + "/ws", server.key());
        client->await("sandbox_ready");
    }
    void run(std::size_t count, Samples* samples) { client->run(count, samples, samples ? &turns : nullptr); }

    Server server;
    Connection connection;
    std::optional<SocketClient> client;
    Samples turns;
};

/// A Beast server that answers with as many messages as a turn of ours has events, of like lengths.
struct BeastEcho {
    void run(std::size_t count, Samples* samples) { client.run(count, nullptr, samples); }

    BeastServer server{
        {R"({"seq":1,"type":"turn_start","at":"2000-01-01T00:00:00.000Z","turn":1,"data":{"content":"hello"}})",
         R"({"seq":2,"type":"message","at":"2000-01-01T00:00:00.000Z","turn":1,"data":{"content":"hello"}})",
         R"({"seq":3,"type":"done","at":"2000-01-01T00:00:00.000Z","turn":1,"data":{}})"}};
    SocketClient client{server.port(), "/", ""};
};

struct Pair {
    Samples floors;
    Samples products;
    double server_cpu_us = 0;  // of a message
};

template <class Product>
Pair measure(Scope scope) {
    const BareLoop floor(1, Persist::nothing);
    Connection floor_connection(floor.port());
    const std::string floor_request =
        request_text("POST", "/", {}, R"({"content":"hello"})", Accept::event_stream);
    std::optional<Product> product;
    if (has_product(scope))
        product.emplace();
    exchange(floor_connection, floor_request, k_warm_up, nullptr);
    if (product)
        product->run(k_warm_up, nullptr);
    Pair pair;
    const double cpu_before_ms = product ? product->server.cpu_ms() : 0;
    const auto began = Clock::now();
    for (std::size_t block = 0; block < sized(k_blocks) && ms_since(began) < k_budget_ms; ++block) {
        if (has_floor(scope))
            exchange(floor_connection, floor_request, k_block, &pair.floors);
        if (product)
            product->run(k_block, &pair.products);
    }
    if (product)
        pair.server_cpu_us =
            (product->server.cpu_ms() - cpu_before_ms) * 1000 / static_cast<double>(pair.products.size());
    return pair;
}

// Client, server and the other end take turns: one CPU serves them. With more, the scheduler keeps the
// floor's three on one and spreads the product's, each hop then waking an idle CPU; the ratio would be of
// places, not of programs. That, too, is told, as `free_`.
template <class Product>
void measure_both(Scope scope, Result& result) {
    const Pair free = measure<Product>(scope);
    const OneCpu confined;
    const Pair pair = measure<Product>(scope);
    if (has_floor(scope)) {
        result.floor = pair.floors.p50();
        result.more["floor_p95"] = pair.floors.p95();
        result.more["iterations"] = static_cast<double>(pair.floors.size());
        result.more["free_floor"] = free.floors.p50();
    }
    if (!has_product(scope))
        return;
    result.p50 = pair.products.p50();
    result.p95 = pair.products.p95();
    result.more["free_p50"] = free.products.p50();
    result.more["server_cpu_us"] = pair.server_cpu_us;
    if (!has_floor(scope))
        return;
    result.ratio = *result.p50 / *result.floor;
    result.more["free_ratio"] = free.products.p50() / free.floors.p50();
}

/// Ours also checks, stores and numbers what it sends: no target.
Result measure_beside_beast(Scope scope) {
    Result result{.key = "ws_message_to_beast", .unit = "ms"};
    const OneCpu confined;
    BeastEcho beast;
    std::optional<SocketProduct> product;
    if (has_product(scope))
        product.emplace();
    beast.run(k_warm_up, nullptr);
    if (product)
        product->run(k_warm_up, nullptr);
    Samples beasts;
    Samples firsts;
    const auto began = Clock::now();
    for (std::size_t block = 0; block < sized(k_blocks) && ms_since(began) < k_budget_ms / 2; ++block) {
        beast.run(k_block, &beasts);
        if (product)
            product->run(k_block, &firsts);
    }
    result.floor = beasts.p50();
    result.more["floor_p95"] = beasts.p95();
    if (product) {
        result.p50 = product->turns.p50();
        result.p95 = product->turns.p95();
        result.ratio = *result.p50 / *result.floor;
    }
    return result;
}

}  // namespace

Result measure_message(Scope scope) {
    Result result{.key = "message_ms", .unit = "ms", .target = "ratio <= 2 and p50 < 0.3 ms"};
    measure_both<HttpProduct>(scope, result);
    if (result.ratio)
        result.reached = *result.ratio <= k_max_ratio && result.more["free_p50"] < k_max_p50_ms;
    return result;
}

std::vector<Result> measure_socket_message(Scope scope) {
    Result result{.key = "ws_message_ms", .unit = "ms", .target = "ratio <= 1.5"};
    measure_both<SocketProduct>(scope, result);
    if (result.ratio)
        result.reached = *result.ratio <= k_max_socket_ratio;
    if (!has_floor(scope))
        return {result};
    return {result, measure_beside_beast(scope)};
}

}  // namespace atl::bench
