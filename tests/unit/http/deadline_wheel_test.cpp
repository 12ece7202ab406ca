#include "http/wire/deadline_wheel.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <vector>

using namespace atl::http;
using namespace std::chrono_literals;

namespace {

struct Probe final : DeadlineWheel::Entry {
    int fired = 0;
    std::function<void()> then;

  private:
    void on_deadline() override {
        ++fired;
        if (then)
            then();
    }
};

}  // namespace

TEST_CASE("a deadline fires once, never early, at most a tick late") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 10ms);
    Probe probe;
    const auto now = std::chrono::steady_clock::now();
    wheel.set(probe, now + 100ms);
    wheel.advance(now + 99ms);
    CHECK(probe.fired == 0);
    wheel.advance(now + 111ms);
    CHECK(probe.fired == 1);
    wheel.advance(now + 1s);
    CHECK(probe.fired == 1);
}

TEST_CASE("a deadline can be moved later, earlier and away") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 10ms);
    Probe later;
    Probe earlier;
    Probe cleared;
    const auto now = std::chrono::steady_clock::now();
    wheel.set(later, now + 50ms);
    wheel.set(later, now + 500ms);
    wheel.set(earlier, now + 500ms);
    wheel.set(earlier, now + 50ms);
    wheel.set(cleared, now + 50ms);
    wheel.clear(cleared);
    wheel.advance(now + 70ms);
    CHECK(later.fired == 0);
    CHECK(earlier.fired == 1);
    wheel.advance(now + 520ms);
    CHECK(later.fired == 1);
    CHECK(cleared.fired == 0);
}

TEST_CASE("a deadline beyond the wheel's horizon waits its full time") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 10ms);
    Probe probe;
    const auto now = std::chrono::steady_clock::now();
    wheel.set(probe, now + 200s);
    for (auto t = now; t < now + 199s; t += 1s)
        wheel.advance(t);
    CHECK(probe.fired == 0);
    wheel.advance(now + 201s);
    wheel.advance(now + 202s);
    CHECK(probe.fired == 1);
}

TEST_CASE("an entry that fires may set itself, others may be gone") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 10ms);
    auto gone = std::make_unique<Probe>();
    Probe again;
    const auto now = std::chrono::steady_clock::now();
    wheel.set(*gone, now + 20ms);
    wheel.set(again, now + 20ms);
    again.then = [&] {
        if (again.fired == 1)
            wheel.set(again, now + 60ms);
    };
    gone.reset();
    wheel.advance(now + 40ms);
    CHECK(again.fired == 1);
    wheel.advance(now + 80ms);
    CHECK(again.fired == 2);
}

TEST_CASE("random deadlines all fire in time under random steps") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 10ms);
    std::vector<std::unique_ptr<Probe>> probes;
    std::uint32_t seed = 1;
    const auto random = [&](std::uint32_t below) {
        seed = seed * 1'664'525U + 1'013'904'223U;
        return (seed >> 8U) % below;
    };
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i)
        probes.push_back(std::make_unique<Probe>());
    auto now = start;
    for (int step = 0; step < 2000; ++step) {
        auto& probe = *probes[random(500)];
        wheel.set(probe, now + std::chrono::milliseconds{random(5000)});
        now += std::chrono::milliseconds{random(100)};
        wheel.advance(now);
        for (const auto& p : probes)
            if (p->deadline() != DeadlineWheel::Time::max())
                REQUIRE(p->deadline() > now - 11ms);
    }
}

TEST_CASE("the timer drives the wheel, and stop() lets the loop end") {
    boost::asio::io_context io;
    DeadlineWheel wheel(io.get_executor(), 5ms);
    Probe soon;
    Probe far;
    wheel.set(far, std::chrono::steady_clock::now() + 1h);
    wheel.set(soon, std::chrono::steady_clock::now() + 20ms);
    soon.then = [&] { wheel.stop(); };
    io.run();
    CHECK(soon.fired == 1);
    CHECK(far.fired == 0);
}
