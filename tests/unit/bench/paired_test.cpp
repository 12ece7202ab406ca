#include "tests/bench/paired.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <vector>

namespace paired_test {

namespace {

using atl::bench::Better;
using atl::bench::better_of;
using atl::bench::compare;
using atl::bench::Cost;
using atl::bench::cost_of;
using atl::bench::trick_stays;
using Catch::Approx;

/// A build that takes 1 each time, and one that takes 1 more by these shares.
auto compare_costs(const std::vector<double>& costs) {
    const std::vector<double> a(costs.size(), 1);
    std::vector<double> b;
    for (const double cost : costs)
        b.push_back(1 + cost);
    return compare(a, b, Better::lower);
}

}  // namespace

TEST_CASE("paired: a cost is a share of the build with the trick, and negative where the other is better") {
    CHECK(cost_of(10, 11, Better::lower) == Approx(0.1));
    CHECK(cost_of(10, 9, Better::lower) == Approx(-0.1));
    CHECK(cost_of(1000, 900, Better::higher) == Approx(0.1));
    CHECK(cost_of(1000, 1100, Better::higher) == Approx(-0.1));
}

TEST_CASE("paired: of a number beside a result its unit says which is better") {
    CHECK(better_of("server_cpu_us", Better::higher) == Better::lower);
    CHECK(better_of("sse_mb_s", Better::lower) == Better::higher);
    CHECK(better_of("p95", Better::lower) == Better::lower);
    CHECK(better_of("p95", Better::higher) == Better::higher);
}

TEST_CASE("paired: of ten pairs the interval is from the second smallest to the second largest cost") {
    // Outside: 2 x (1 + 10) / 1024 = 2.1 %; one rank further in it would be 10.9 %.
    const auto cost = compare_costs({0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 0.0});
    REQUIRE(cost);
    CHECK(cost->low == Approx(0.1));
    CHECK(cost->high == Approx(0.8));
    CHECK(cost->median == Approx(0.45));
}

TEST_CASE("paired: each pair is compared by itself, so a drift of the machine is no cost") {
    const std::vector<double> a{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    std::vector<double> b;
    for (const double number : a)
        b.push_back(number * 1.2);
    const auto cost = compare(a, b, Better::lower);
    REQUIRE(cost);
    CHECK(cost->low == Approx(0.2));
    CHECK(cost->high == Approx(0.2));
}

TEST_CASE("paired: the interval of other numbers of pairs, and none below six") {
    CHECK_FALSE(compare_costs({}));
    CHECK_FALSE(compare_costs({0.1, 0.1, 0.1, 0.1, 0.1}));
    const auto six = compare_costs({0.3, 0.1, 0.6, 0.4, 0.2, 0.5});  // outside: 2 / 64
    REQUIRE(six);
    CHECK(six->low == Approx(0.1));
    CHECK(six->high == Approx(0.6));
    std::vector<double> costs;
    for (int i = 1; i <= 25; ++i)
        costs.push_back(i / 100.0);
    const auto many = compare_costs(costs);  // from the 8th: outside 4.3 %
    REQUIRE(many);
    CHECK(many->low == Approx(0.08));
    CHECK(many->median == Approx(0.13));
    CHECK(many->high == Approx(0.18));
}

TEST_CASE("paired: a trick stays only if the whole interval is at 10 % or above") {
    CHECK(trick_stays(Cost{.median = 0.2, .low = 0.11, .high = 0.3}));
    CHECK_FALSE(trick_stays(Cost{.median = 0.2, .low = 0.09, .high = 0.3}));
    CHECK_FALSE(trick_stays(Cost{.median = -0.2, .low = -0.3, .high = -0.11}));
}

}  // namespace paired_test
