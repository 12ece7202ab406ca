#include <optional>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr double k_budget_ms = 20'000;
constexpr std::size_t k_warm_up = 200;
constexpr std::size_t k_block = 100;
constexpr std::size_t k_blocks = 150;
constexpr double k_max_ratio = 2;
constexpr double k_max_p50_ms = 0.3;

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

struct Product {
    Product() : connection(server.port()) {
        request = server.message_request(server.create_conversation(connection, "echo"));
        const Response response = connection.exchange(request);
        Server::check_turn(response.status, response.body);
    }
    Server server;
    Connection connection;
    std::string request;
};

struct Pair {
    Samples floors;
    Samples products;
};

Pair measure(Scope scope) {
    const BareLoop floor(1, Persist::nothing);
    Connection floor_connection(floor.port());
    const std::string floor_request =
        request_text("POST", "/", {}, R"({"content":"hello"})", Accept::event_stream);
    std::optional<Product> product;
    if (scope == Scope::product_and_floor)
        product.emplace();
    exchange(floor_connection, floor_request, k_warm_up, nullptr);
    if (product)
        exchange(product->connection, product->request, k_warm_up, nullptr);
    Pair pair;
    const auto began = Clock::now();
    for (std::size_t block = 0; block < k_blocks && ms_since(began) < k_budget_ms; ++block) {
        exchange(floor_connection, floor_request, k_block, &pair.floors);
        if (product)
            exchange(product->connection, product->request, k_block, &pair.products);
    }
    return pair;
}

}  // namespace

// Client, server and the other end take turns: one CPU serves them. With more, the scheduler keeps the
// floor's three on one and spreads the product's, each hop then waking an idle CPU; the ratio would be of
// places, not of programs. That, too, is told, as `free_`.
Result measure_message(Scope scope) {
    Result result{.key = "message_ms", .unit = "ms", .target = "ratio <= 2 and p50 < 0.3 ms"};
    const Pair free = measure(scope);
    const OneCpu confined;
    const Pair pair = measure(scope);
    result.floor = pair.floors.p50();
    result.more["floor_p95"] = pair.floors.p95();
    result.more["iterations"] = static_cast<double>(pair.floors.size());
    result.more["free_floor"] = free.floors.p50();
    if (scope == Scope::floor_only)
        return result;
    result.p50 = pair.products.p50();
    result.p95 = pair.products.p95();
    result.ratio = *result.p50 / *result.floor;
    result.more["free_p50"] = free.products.p50();
    result.more["free_ratio"] = free.products.p50() / free.floors.p50();
    result.reached = *result.ratio <= k_max_ratio && free.products.p50() < k_max_p50_ms;
    return result;
}

}  // namespace atl::bench
