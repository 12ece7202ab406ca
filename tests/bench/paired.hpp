// The arithmetic of paired runs: two builds of the server measured in turns, A with a trick and B without it.
// It gives the cost of the simpler build, an interval of it, and the verdict. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace atl::bench {

/// Which numbers a user likes.
enum class Better : std::uint8_t { lower, higher };

/// The same of a number beside a result (Result::more), by the unit that its name ends with; else as the
/// result's.
Better better_of(std::string_view detail, Better of_result);

/// By how much B is worse than A, as a share of A: 0.1 is 10 % slower, or 10 % less of it. Negative: B is
/// better. Precondition: a > 0.
double cost_of(double a, double b, Better better);

struct Cost {
    double median = 0;
    double low = 0;   // of an interval that holds the true median
    double high = 0;  // with a probability of 95 % at least
};

/// The median of the costs of all pairs, and the interval of their order statistics: no assumption on how
/// they are distributed but that pairs are independent (the sign test, inverted). None for fewer than 6
/// pairs, of which no interval is that sure. Precondition: as many `a` as `b`.
std::optional<Cost> compare(std::span<const double> a, std::span<const double> b, Better better);

/// A trick stays only if a user surely feels its loss: the whole interval is at 10 % or above.
constexpr double k_felt_share = 0.1;
constexpr bool trick_stays(const Cost& cost) {
    return cost.low >= k_felt_share;
}

}  // namespace atl::bench
