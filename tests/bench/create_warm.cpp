#include <optional>
#include <stdexcept>

#include "tests/bench/measures.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr double k_budget_ms = 20'000;  // of all batches at the client's place
constexpr std::size_t k_batch = 50;
constexpr std::size_t k_batches = 8;
constexpr std::size_t k_paired_batches = 4;
constexpr std::size_t k_warm_up = 5;
constexpr double k_max_ratio = 2;

class Product {
  public:
    Product() : server_({"--pool", "echo=" + std::to_string(k_batch)}), connection_(server_.port()) {}

    /// Back when the pool is full.
    void await_pool() { server_.await_pool(connection_, k_batch); }
    double create_ms() {
        const auto began = Clock::now();
        const Response response = connection_.exchange(create_);
        const double ms = ms_since(began);
        ids_.push_back(Server::created_id(response.status, response.body));
        return ms;
    }
    double round_trip_ms() {
        const auto began = Clock::now();
        const Response response = connection_.exchange(health_);
        const double ms = ms_since(began);
        if (response.status != 200)
            throw std::runtime_error("/healthz: " + response.body);
        return ms;
    }
    void end_all() {
        for (const std::string& id : ids_)
            server_.remove_conversation(connection_, id);
        ids_.clear();
    }

  private:
    Server server_;
    Connection connection_;
    std::string health_ = server_.request("GET", "/healthz");
    std::string create_ = server_.request("POST", "/v1/conversations", R"({"agent":"echo"})");
    std::vector<std::string> ids_;
};

/// Round trips and creates in turn.
struct Pairs {
    Samples floors;
    Samples products;

    double ratio() const { return products.p50() / floors.p50(); }
};

Pairs measure_pairs(Product& product, Cpu of_client, std::size_t batches) {
    Pairs pairs;
    const auto began = Clock::now();
    for (std::size_t batch = 0; batch < sized(batches) && ms_since(began) < k_budget_ms; ++batch) {
        product.await_pool();
        const OneCpu confined(of_client);
        for (std::size_t pair = 0; pair < k_batch; ++pair) {
            const double floor_ms = product.round_trip_ms();
            const double product_ms = product.create_ms();
            if (pair < k_warm_up)
                continue;
            pairs.floors.add(floor_ms);
            pairs.products.add(product_ms);
        }
        product.end_all();
    }
    return pairs;
}

}  // namespace

// Which of two processors the scheduler gives a client changes a round trip more than twofold, so both are
// measured: a client of its own processor, as one elsewhere is, and one that shares the server's. The server
// and all that it starts, the refilling of the pool too, have the first. With one processor both are the
// same.
Result measure_create_warm(Scope scope) {
    Result result{.key = "create_warm_ms", .unit = "ms", .target = "ratio <= 2"};
    std::optional<Product> product;
    {
        const OneCpu of_server(Cpu::first);
        product.emplace();
    }
    const std::size_t batches = has_floor(scope) ? k_batches : k_paired_batches;
    const Pairs apart = measure_pairs(*product, Cpu::last, batches);
    const Pairs together = measure_pairs(*product, Cpu::first, batches / 2);
    result.p50 = apart.products.p50();
    result.p95 = apart.products.p95();
    result.floor = apart.floors.p50();
    result.ratio = apart.ratio();
    result.reached = *result.ratio <= k_max_ratio;
    result.more["floor_p95"] = apart.floors.p95();
    result.more["iterations"] = static_cast<double>(apart.products.size());
    result.more["one_cpu_p50"] = together.products.p50();
    result.more["one_cpu_floor"] = together.floors.p50();
    result.more["one_cpu_ratio"] = together.ratio();
    return result;
}

}  // namespace atl::bench
