#include <optional>
#include <stdexcept>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_conversations = 20;
constexpr std::size_t k_windows = 5;
constexpr std::size_t k_paired_windows = 2;
constexpr double k_window_ms = 3'000;
constexpr double k_warm_up_ms = 300;
constexpr double k_min_turns_per_s = 10'000;
constexpr double k_min_ratio = 0.45;

/// Twenty kept-alive connections, each sending its message again as soon as the last turn has ended.
class Load {
  public:
    Load(std::uint16_t port, std::vector<std::string> requests) : requests_(std::move(requests)) {
        for (std::size_t i = 0; i < requests_.size(); ++i)
            connections_.emplace_back(port);
    }

    double turns_per_s(double window_ms) {
        std::size_t turns = 0;
        const auto began = Clock::now();
        const auto on_response = [&](std::size_t index, const Connection& connection) -> std::string_view {
            if (connection.response().status() != 200)
                Server::check_turn(connection.response().status(), connection.response().body());
            ++turns;
            return ms_since(began) < window_ms ? std::string_view(requests_[index]) : std::string_view();
        };
        const auto deadline = began + std::chrono::milliseconds(static_cast<int>(window_ms) + 5'000);
        if (drive(connections_, requests_, on_response, deadline) != 0)
            throw std::runtime_error("a turn was not answered within 5 s");
        if (window_ms > sized(k_warm_up_ms))
            turns_ += turns;
        return static_cast<double>(turns) / ms_since(began) * 1000;
    }
    /// The turns of all windows but the first, which is to warm up.
    std::size_t turns() const { return turns_; }

  private:
    std::vector<std::string> requests_;
    std::vector<Connection> connections_;
    std::size_t turns_ = 0;
};

std::vector<std::string> make_conversations(const Server& server) {
    Connection connection(server.port());
    std::vector<std::string> requests;
    for (std::size_t i = 0; i < k_conversations; ++i) {
        requests.push_back(server.message_request(server.create_conversation(connection, "echo")));
        const Response response = connection.exchange(requests.back());
        Server::check_turn(response.status, response.body);
    }
    return requests;
}

struct Product {
    Server server;
    Load load{server.port(), make_conversations(server)};
};

}  // namespace

Result measure_turns(Scope scope) {
    Result result{.key = "turns_per_s",
                  .unit = "turns/s",
                  .target = ">= 10,000 and ratio >= 0.45",
                  .better = Better::higher};
    const std::size_t windows = has_floor(scope) ? k_windows : k_paired_windows;
    const BareLoop floor(k_conversations, Persist::sqlite);
    const std::string request = request_text("POST", "/", {}, R"({"content":"hello"})", Accept::event_stream);
    Load floor_load(floor.port(), std::vector<std::string>(k_conversations, request));
    std::optional<Product> product;
    if (has_product(scope))
        product.emplace();
    floor_load.turns_per_s(sized(k_warm_up_ms));
    if (product)
        product->load.turns_per_s(sized(k_warm_up_ms));
    const double cpu_before_ms = product ? product->server.cpu_ms() : 0;
    Samples floors;
    Samples products;
    for (std::size_t window = 0; window < windows; ++window) {
        if (has_floor(scope))
            floors.add(floor_load.turns_per_s(sized(k_window_ms)));
        if (product)
            products.add(product->load.turns_per_s(sized(k_window_ms)));
    }
    result.more["windows"] = static_cast<double>(windows);
    if (product) {
        result.value = products.p50();
        // The CPU time of all turns gives a number that other load on the machine changes little.
        result.more["server_cpu_us"] =
            (product->server.cpu_ms() - cpu_before_ms) * 1000 / static_cast<double>(product->load.turns());
    }
    if (has_floor(scope))
        result.floor = floors.p50();
    if (result.value && result.floor) {
        result.ratio = products.p50() / floors.p50();
        result.reached = *result.value >= k_min_turns_per_s && *result.ratio >= k_min_ratio;
    }
    return result;
}

}  // namespace atl::bench
