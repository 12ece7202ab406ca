#include <array>
#include <memory>

#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/sandbox_floor.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/shared.hpp"
#include "tests/bench/sleeper.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_at_once = 8;
constexpr double k_block_ms = 3000;
constexpr int k_blocks = 5;  // of each kind, in turns
constexpr double k_max_ratio = 1.5;

using Counts = std::array<std::size_t, k_at_once>;

/// How often `once` is done by each of eight processes in a block; `prepare` makes what it works with.
template <class Prepare, class Once>
std::size_t count(Prepare prepare, Once once) {
    const Shared<Counts> counts;
    const Until until(sized(k_block_ms));
    std::vector<Child> children;
    for (std::size_t at = 0; at < k_at_once; ++at) {
        children.emplace_back([&, at] {
            auto with = prepare();
            while (!until.passed()) {
                once(*with);
                ++(*counts)[at];
            }
        });
    }
    std::size_t all = 0;
    for (std::size_t at = 0; at < k_at_once; ++at) {
        children[at].wait();
        all += (*counts)[at];
    }
    return all;
}

double per_second(std::size_t done) {
    return static_cast<double>(done) / (sized(k_block_ms) * k_blocks / 1000);
}

}  // namespace

Result measure_storm() {
    Result result{.key = "create_storm_per_s",
                  .unit = "sandboxes/s",
                  .target = "ratio <= 1.5",
                  .better = Better::higher};
    const Server server;
    std::size_t floors = 0;
    std::size_t products = 0;
    for (int block = 0; block < k_blocks; ++block) {
        floors += count([] { return std::make_unique<SandboxFloor>(); },
                        [](SandboxFloor& floor) {
                            floor.start_ms();
                            floor.end_all();
                        });
        products +=
            count([&] { return std::make_unique<Connection>(server.port()); },
                  [&](Connection& connection) {
                      server.remove_conversation(connection, server.create_conversation(connection, "echo"));
                  });
    }
    result.value = per_second(products);
    result.floor = per_second(floors);
    result.ratio = *result.floor / *result.value;
    result.reached = *result.ratio <= k_max_ratio;
    return result;
}

}  // namespace atl::bench
