#include "http/wire/heartbeat.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>

namespace heartbeat_test {

using namespace atl;
using namespace std::chrono_literals;

TEST_CASE("Streams that begin together have their heartbeats spread over half of the interval") {
    constexpr base::Millis k_interval = 15s;
    for (const auto apart : {std::chrono::nanoseconds(101'003), std::chrono::nanoseconds(1ms)}) {
        std::array<int, 10> counts{};
        base::SteadyTime now{1234567ms};
        for (int i = 0; i < 10'000; ++i, now += apart) {
            const auto first = http::first_heartbeat(k_interval, now);
            REQUIRE(first > k_interval / 2);
            REQUIRE(first <= k_interval);
            ++counts[static_cast<std::size_t>((k_interval - first) * 20 / k_interval)];
        }
        CHECK(*std::min_element(counts.begin(), counts.end()) > 800);
        CHECK(*std::max_element(counts.begin(), counts.end()) < 1200);
    }
}

TEST_CASE("An interval of a millisecond is kept") {
    CHECK(http::first_heartbeat(1ms, base::SteadyTime{77s}) == 1ms);
}

}  // namespace heartbeat_test
