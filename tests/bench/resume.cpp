#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/bench/measures.hpp"
#include "tests/bench/sandbox_floor.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr double k_budget_ms = 30'000;
constexpr std::size_t k_pairs = 200;
constexpr std::size_t k_warm_rounds = 500;
// So many of each kind run at once before all are ended or paused, as in create.cpp.
constexpr std::size_t k_batch = 20;
constexpr std::size_t k_warm_up = 3;
constexpr double k_max_cold_ratio = 1.35;
constexpr double k_max_warm_ms = 5;

/// `echo` conversations that are paused and resumed.
class Paused {
  public:
    Paused(std::string_view mode, std::size_t count) : connection_(server_.port()) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::string path = "/v1/conversations/" + server_.create_conversation(connection_, "echo");
            pauses_.push_back(
                server_.request("POST", path + "/pause", "{\"mode\":\"" + std::string(mode) + "\"}"));
            resumes_.push_back(server_.request("POST", path + "/resume"));
        }
    }

    void pause_all(std::string_view as) {
        for (const std::string& pause : pauses_)
            exchange(pause, as);
    }
    /// From the POST to its answer: the sandbox is ready.
    double resume_ms(std::size_t which) {
        const auto began = Clock::now();
        exchange(resumes_[which], "\"sandboxStatus\":\"ready\"");
        return ms_since(began);
    }

  private:
    void exchange(const std::string& request, std::string_view expected) {
        const Response response = connection_.exchange(request);
        if (response.status != 200 || response.body.find(expected) == std::string::npos)
            throw std::runtime_error("a pause or resume was answered " + std::to_string(response.status) +
                                     ": " + response.body);
    }

    Server server_;
    Connection connection_;
    std::vector<std::string> pauses_;
    std::vector<std::string> resumes_;
};

}  // namespace

Result measure_resume_cold(Scope scope) {
    Result result{.key = "resume_cold_ms", .unit = "ms", .target = "ratio <= 1.35"};
    SandboxFloor floor;
    std::optional<Paused> product;
    if (has_product(scope))
        product.emplace("cold", k_batch);
    Samples floors;
    Samples products;
    const auto began = Clock::now();
    for (std::size_t pair = 0; pair < k_warm_up + sized(k_pairs) && ms_since(began) < k_budget_ms; ++pair) {
        if (pair % k_batch == 0) {
            floor.end_all();
            if (product)
                product->pause_all("\"sandboxStatus\":\"terminated\"");
        }
        // Each goes first in every other pair.
        const double floor_first_ms = pair % 2 == 0 ? floor.start_ms() : 0;
        const double product_ms = product ? product->resume_ms(pair % k_batch) : 0;
        const double floor_ms = pair % 2 == 0 ? floor_first_ms : floor.start_ms();
        if (pair >= k_warm_up) {
            floors.add(floor_ms);
            products.add(product_ms);
        }
    }
    floor.end_all();
    result.floor = floors.p50();
    result.more["floor_p95"] = floors.p95();
    result.more["iterations"] = static_cast<double>(floors.size());
    if (product) {
        result.p50 = products.p50();
        result.p95 = products.p95();
        result.ratio = products.p50() / floors.p50();
        result.reached = *result.ratio <= k_max_cold_ratio;
    }
    return result;
}

Result measure_resume_warm() {
    Result result{.key = "resume_warm_ms", .unit = "ms", .target = "p50 <= 5 ms"};
    Paused product("warm", 1);
    Samples resumes;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < k_warm_up + sized(k_warm_rounds) && ms_since(began) < k_budget_ms;
         ++round) {
        product.pause_all("\"sandboxStatus\":\"frozen\"");
        const double ms = product.resume_ms(0);
        if (round >= k_warm_up)
            resumes.add(ms);
    }
    result.p50 = resumes.p50();
    result.p95 = resumes.p95();
    result.more["iterations"] = static_cast<double>(resumes.size());
    result.reached = *result.p50 <= k_max_warm_ms;
    return result;
}

}  // namespace atl::bench
