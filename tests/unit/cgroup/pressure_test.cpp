#include "cgroup/pressure.hpp"

#include <catch2/catch_test_macros.hpp>

namespace pressure_test {

using namespace atl;

TEST_CASE("pressure: the totals are read from the kernel's two lines") {
    const auto pressure = cgroup::parse_pressure(
        "some avg10=1.50 avg60=0.20 avg300=0.00 total=335504\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=229971\n");
    REQUIRE(pressure.has_value());
    CHECK(pressure->some_usec == 335504);
    CHECK(pressure->full_usec == 229971);
}

TEST_CASE("pressure: a kernel that tells no full pressure of processors tells some") {
    const auto pressure = cgroup::parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
    REQUIRE(pressure.has_value());
    CHECK(pressure->some_usec == 7);
    CHECK(pressure->full_usec == 0);
}

TEST_CASE("pressure: what is not of that form is not known") {
    CHECK_FALSE(cgroup::parse_pressure("").has_value());
    CHECK_FALSE(cgroup::parse_pressure("some avg10=0.00").has_value());
    CHECK_FALSE(cgroup::parse_pressure("some total=x\n").has_value());
    CHECK_FALSE(cgroup::parse_pressure("full avg10=0.00 total=1\n").has_value());
}

}  // namespace pressure_test
