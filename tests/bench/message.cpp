#include <optional>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/measures.hpp"
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

}  // namespace

Result measure_message(Scope scope) {
    Result result{.key = "message_ms", .unit = "ms", .target = "ratio <= 2 and p50 < 0.3 ms"};
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
    Samples floors;
    Samples products;
    const auto began = Clock::now();
    for (std::size_t block = 0; block < k_blocks && ms_since(began) < k_budget_ms; ++block) {
        exchange(floor_connection, floor_request, k_block, &floors);
        if (product)
            exchange(product->connection, product->request, k_block, &products);
    }
    result.floor = floors.p50();
    result.more["floor_p95"] = floors.p95();
    result.more["iterations"] = static_cast<double>(floors.size());
    if (product) {
        result.p50 = products.p50();
        result.p95 = products.p95();
        result.ratio = products.p50() / floors.p50();
        result.reached = *result.ratio <= k_max_ratio && products.p50() < k_max_p50_ms;
    }
    return result;
}

}  // namespace atl::bench
