#include "tests/bench/paired.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace atl::bench {
namespace {

constexpr double k_max_outside = 0.05;

/// The largest k for which the true median lies between the k-th smallest and the k-th largest of `count`
/// values with the probability that is wanted; 0: not even between the smallest and the largest. Outside are
/// the cases in which fewer than k values lie on one side of it: binomial with probability 1/2.
std::size_t rank_of_interval(std::size_t count) {
    double outside = 0;
    double probability = 2 * std::pow(0.5, static_cast<double>(count));
    std::size_t rank = 0;
    for (; rank < count / 2; ++rank) {
        outside += probability;
        if (outside > k_max_outside)
            break;
        probability *= static_cast<double>(count - rank) / static_cast<double>(rank + 1);
    }
    return rank;
}

}  // namespace

Better better_of(std::string_view detail, Better of_result) {
    if (detail.ends_with("_us") || detail.ends_with("_ms") || detail.ends_with("_kb"))
        return Better::lower;
    return detail.ends_with("_s") ? Better::higher : of_result;
}

double cost_of(double a, double b, Better better) {
    return better == Better::lower ? b / a - 1 : 1 - b / a;
}

std::optional<Cost> compare(std::span<const double> a, std::span<const double> b, Better better) {
    std::vector<double> costs;
    for (std::size_t i = 0; i < a.size(); ++i)
        costs.push_back(cost_of(a[i], b[i], better));
    std::sort(costs.begin(), costs.end());
    const std::size_t rank = rank_of_interval(costs.size());
    if (rank == 0)
        return std::nullopt;
    const std::size_t middle = costs.size() / 2;
    return Cost{.median = costs.size() % 2 == 1 ? costs[middle] : (costs[middle - 1] + costs[middle]) / 2,
                .low = costs[rank - 1],
                .high = costs[costs.size() - rank]};
}

}  // namespace atl::bench
