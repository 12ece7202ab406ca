#include "http/access/rate_limiter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "http/access/count_limiter.hpp"

namespace rate_limiter_test {

using namespace atl;
using namespace std::chrono_literals;
using http::CountLimiter;
using http::RateLimiter;

namespace {

constexpr auto k_granted = RateLimiter::Nanos::zero();

// How many of `attempts` at `now` are granted.
int granted(RateLimiter& limiter, std::uint64_t who, base::SteadyTime now, int attempts) {
    int count = 0;
    for (int i = 0; i < attempts; ++i)
        count += limiter.take(who, now) == k_granted ? 1 : 0;
    return count;
}

}  // namespace

TEST_CASE("a bucket grants its burst, then one an interval, and says how long to wait") {
    RateLimiter limiter({100ms, 5}, 10);
    base::SteadyTime now{1h};
    CHECK(granted(limiter, 1, now, 20) == 5);
    CHECK(limiter.take(1, now) == 100ms);
    CHECK(limiter.take(1, now + 60ms) == 40ms);
    CHECK(limiter.take(1, now + 100ms) == k_granted);
    CHECK(limiter.take(1, now + 100ms) == 100ms);
    CHECK(granted(limiter, 1, now + 10s, 20) == 5);
    // Trying in vain costs no more time.
    granted(limiter, 1, now + 10s, 1000);
    CHECK(limiter.take(1, now + 10s) == 100ms);
    CHECK(granted(limiter, 2, now + 10s, 20) == 5);
}

TEST_CASE("the wait for the next action is told without counting one") {
    RateLimiter limiter({100ms, 2}, 10);
    const base::SteadyTime now{1h};
    CHECK(limiter.wait(1, now) == k_granted);
    CHECK(limiter.entries() == 0);
    limiter.charge(1, 2, now);
    CHECK(limiter.wait(1, now) == 100ms);
    CHECK(limiter.wait(1, now) == limiter.take(1, now));
    CHECK(limiter.wait(1, now + 100ms) == k_granted);
    limiter.charge(1, 3, now);
    CHECK(limiter.wait(1, now) == 400ms);
}

TEST_CASE("what an action cost more is waited for before the next one") {
    RateLimiter limiter({100ms, 5}, 10);
    const base::SteadyTime now{1h};
    CHECK(limiter.take(1, now) == k_granted);
    limiter.charge(1, 2, now);
    CHECK(granted(limiter, 1, now, 20) == 2);
    limiter.charge(1, 30, now);
    CHECK(limiter.take(1, now) == 3100ms);
    CHECK(granted(limiter, 1, now + 3s, 20) == 0);
    CHECK(granted(limiter, 1, now + 3100ms, 20) == 1);
    CHECK(granted(limiter, 2, now, 20) == 5);
    limiter.charge(3, 0, now);
    CHECK(limiter.entries() == 2);
}

TEST_CASE("no rate is no limit and no memory") {
    RateLimiter limiter({}, 10);
    limiter.charge(1, 1000, {});
    CHECK(granted(limiter, 1, {}, 1000) == 1000);
    CHECK(limiter.entries() == 0);
}

TEST_CASE("whoever comes and goes, the table is bounded and forgets who is full again") {
    RateLimiter limiter({1s, 2}, 100);
    base::SteadyTime now{1h};
    for (std::uint64_t who = 0; who < 100'000; ++who) {
        CHECK(limiter.take(who, now) == k_granted);
        REQUIRE(limiter.entries() <= 100);
    }
    CHECK(limiter.entries() == 100);
    // A second later all are full; each new one takes two of them out.
    for (std::uint64_t who = 0; who < 99; ++who)
        limiter.take(1'000'000, now + 10s);
    for (std::uint64_t who = 0; who < 200; ++who)
        limiter.take(2'000'000 + who, now + 20s + who * 10s);
    CHECK(limiter.entries() <= 2);
}

TEST_CASE("a flood from one address gets its rate and costs another nothing") {
    RateLimiter limiter({10ms, 200}, 1000);
    const base::SteadyTime begin{1h};
    int flood = 0;
    int good = 0;
    for (auto at = 0ms; at < 10s; at += 1ms) {
        flood += granted(limiter, 1, begin + at, 50);
        if (at % 20ms == 0ms)
            good += granted(limiter, 2, begin + at, 1);
    }
    CHECK(good == 500);
    CHECK(flood >= 200 + 990);
    CHECK(flood <= 200 + 1000);
}

TEST_CASE("a flood from more addresses than there are places locks nobody out") {
    RateLimiter limiter({10ms, 20}, 100);
    const base::SteadyTime begin{1h};
    std::mt19937_64 random(7);
    int good = 0;
    for (auto at = 0ms; at < 5s; at += 1ms) {
        for (int i = 0; i < 50; ++i)
            limiter.take(1000 + random() % 100'000, begin + at);
        if (at % 20ms == 0ms)
            good += granted(limiter, 2, begin + at, 1);
        REQUIRE(limiter.entries() <= 100);
    }
    CHECK(good == 250);
}

TEST_CASE("the one who floods is not forgotten while others are few") {
    RateLimiter limiter({1s, 10}, 100);
    const base::SteadyTime begin{1h};
    CHECK(granted(limiter, 1, begin, 100) == 10);
    for (std::uint64_t other = 2; other < 100; ++other)
        limiter.take(other, begin);
    CHECK(granted(limiter, 1, begin, 100) == 0);
}

TEST_CASE("a count is given back with its lease, and the table is as large as what is leased") {
    CountLimiter limiter(2);
    auto one = limiter.take(7);
    auto two = limiter.take(7);
    CHECK(one);
    CHECK(two);
    CHECK_FALSE(limiter.take(7));
    CHECK(limiter.take(8));
    CHECK(limiter.entries() == 1);
    one.reset();
    auto three = limiter.take(7);
    CHECK(three);
    auto moved = std::move(*three);
    three.reset();
    CHECK_FALSE(limiter.take(7));
    moved = CountLimiter::Lease();
    CHECK(limiter.take(7));
    two.reset();
    CHECK(limiter.entries() == 0);
    CountLimiter none(0);
    std::vector<CountLimiter::Lease> leases;
    for (int i = 0; i < 1000; ++i)
        leases.push_back(std::move(none.take(7).value()));
    CHECK(none.entries() == 0);
}

}  // namespace rate_limiter_test
