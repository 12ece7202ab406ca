#include <optional>

#include "tests/bench/measures.hpp"
#include "tests/bench/sandbox_floor.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr double k_budget_ms = 30'000;
constexpr std::size_t k_pairs = 300;
// So many of each kind run at once before both are ended: the kernel takes a namespace apart in the
// background, which would fall into the next start.
constexpr std::size_t k_batch = 20;
constexpr std::size_t k_warm_up = 3;
constexpr double k_max_ratio = 1.25;

class Product {
  public:
    Product() : connection_(server_.port()) {}

    double start_ms() {
        const auto began = Clock::now();
        ids_.push_back(server_.create_conversation(connection_, "echo"));
        return ms_since(began);
    }
    void end_all() {
        for (const std::string& id : ids_)
            server_.remove_conversation(connection_, id);
        ids_.clear();
    }

  private:
    Server server_;
    Connection connection_;
    std::vector<std::string> ids_;
};

}  // namespace

Result measure_create(Scope scope) {
    Result result{.key = "create_cold_ms", .unit = "ms", .target = "ratio <= 1.25"};
    SandboxFloor floor;
    std::optional<Product> product;
    if (has_product(scope))
        product.emplace();
    Samples floors;
    Samples products;
    const auto began = Clock::now();
    for (std::size_t pair = 0; pair < k_warm_up + sized(k_pairs) && ms_since(began) < k_budget_ms; ++pair) {
        // Each goes first in every other pair.
        const double floor_first_ms = pair % 2 == 0 ? floor.start_ms() : 0;
        const double product_ms = product ? product->start_ms() : 0;
        const double floor_ms = pair % 2 == 0 ? floor_first_ms : floor.start_ms();
        if (pair >= k_warm_up) {
            floors.add(floor_ms);
            products.add(product_ms);
        }
        if (pair % k_batch == k_batch - 1) {
            floor.end_all();
            if (product)
                product->end_all();
        }
    }
    floor.end_all();
    result.floor = floors.p50();
    result.more["floor_p95"] = floors.p95();
    result.more["iterations"] = static_cast<double>(floors.size());
    if (product) {
        product->end_all();
        result.p50 = products.p50();
        result.p95 = products.p95();
        result.ratio = products.p50() / floors.p50();
        result.reached = *result.ratio <= k_max_ratio;
    }
    return result;
}

}  // namespace atl::bench
