#include "tests/bench/sample.hpp"

#include <algorithm>
#include <cmath>

namespace atl::bench {
namespace {

constexpr std::size_t k_short_share = 20;

std::size_t& divisor() {
    static std::size_t s_divisor = 1;
    return s_divisor;
}

}  // namespace

void make_run_short() {
    divisor() = k_short_share;
}

bool is_short_run() {
    return divisor() == k_short_share;
}

std::size_t sized(std::size_t whole) {
    return std::max<std::size_t>(whole / divisor(), 1);
}

double sized(double whole_ms) {
    return whole_ms / static_cast<double>(divisor());
}

double Samples::percentile(double share) const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted.at(std::clamp<std::size_t>(rank, 1, sorted.size()) - 1);
}

}  // namespace atl::bench
