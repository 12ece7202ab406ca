#include "tests/bench/p99.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>

namespace p99_test {

namespace {

using atl::bench::P99;
using atl::bench::p99_limit_ms;
using atl::bench::worst_p99;

}  // namespace

TEST_CASE("p99: the limit is three times the bare loop's, or 5 ms where that is more") {
    CHECK(p99_limit_ms({.ms = 0, .bare_ms = 0.4}) == 5);
    CHECK(p99_limit_ms({.ms = 0, .bare_ms = 5.0 / 3}) == 5);
    CHECK(p99_limit_ms({.ms = 0, .bare_ms = 4}) == 12);
}

TEST_CASE("p99: the worst load is the one nearest to its limit, not the slowest") {
    const std::array loads{P99{.ms = 20, .bare_ms = 20}, P99{.ms = 6, .bare_ms = 0.5},
                           P99{.ms = 4, .bare_ms = 0.1}};
    CHECK(&worst_p99(loads) == &loads[1]);
    const std::array slow_machine{P99{.ms = 20, .bare_ms = 5}, P99{.ms = 4, .bare_ms = 0.1}};
    CHECK(&worst_p99(slow_machine) == &slow_machine[0]);
}

}  // namespace p99_test
