#include "tests/bench/p99.hpp"

#include <algorithm>

namespace atl::bench {
namespace {

constexpr double k_max_ratio = 3;
constexpr double k_felt_ms = 5;

}  // namespace

double p99_limit_ms(const P99& p99) {
    return std::max(k_max_ratio * p99.bare_ms, k_felt_ms);
}

const P99& worst_p99(std::span<const P99> all) {
    const auto share = [](const P99& p99) { return p99.ms / p99_limit_ms(p99); };
    return *std::max_element(all.begin(), all.end(),
                             [&](const P99& a, const P99& b) { return share(a) < share(b); });
}

}  // namespace atl::bench
