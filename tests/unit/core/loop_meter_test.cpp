#include "core/base/loop_meter.hpp"

#include <time.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/base/histogram.hpp"

using namespace atl::base;
using namespace std::chrono_literals;
using Micros = Histogram::Micros;

namespace {

/// Uses the CPU of this thread for so long.
void burn(std::chrono::nanoseconds wanted) {
    const auto used = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    };
    const auto until = used() + wanted;
    while (used() < until) {
    }
}

}  // namespace

TEST_CASE("A histogram without samples tells zeros") {
    const Histogram none;
    CHECK(none.count() == 0);
    CHECK(none.max() == 0us);
    CHECK(none.quantile(0.999) == 0us);
}

TEST_CASE("A quantile is at most 1/32 above the sample that it stands for, never below") {
    for (std::int64_t us = 0; us < 4'000'000'000; us += 1 + us / 7) {
        Histogram histogram;
        histogram.add(Micros(us));
        histogram.add(1h);
        const auto told = histogram.quantile(0.5).count();
        const auto kept = std::min<std::int64_t>(us, 3'600'000'000);
        REQUIRE(told >= kept);
        REQUIRE(told - kept <= kept / 32);
    }
}

TEST_CASE("Quantiles rank samples by size, not by arrival") {
    Histogram histogram;
    for (int us = 1000; us > 0; --us)
        histogram.add(Micros(us % 20 + 1));
    histogram.add(7ms);
    CHECK(histogram.count() == 1001);
    CHECK(histogram.quantile(0) == 1us);
    CHECK(histogram.quantile(0.5) == 11us);
    CHECK(histogram.quantile(0.99) == 20us);
    CHECK(histogram.quantile(1) == 7ms);
    CHECK(histogram.max() == 7ms);
}

TEST_CASE("Durations that no clock should bring are kept within the histogram") {
    Histogram histogram;
    histogram.add(-5s);
    CHECK(histogram.max() == 0us);
    histogram.add(std::chrono::nanoseconds::max());
    CHECK(histogram.max() == 1h);
    CHECK(histogram.quantile(1) == 1h);
}

TEST_CASE("A loop meter tells the handler that took long, and the ticks that it made late") {
    boost::asio::io_context loop;
    LoopMeter meter(loop);
    boost::asio::post(loop, [&] {
        burn(20ms);
        boost::asio::post(loop, [&] { meter.stop(); });
    });
    meter.run();
    CHECK(meter.handler_cpu().max() >= 20ms);
    CHECK(meter.handler_cpu().count() >= 2);
}

TEST_CASE("A stall counts as all the ticks that were due meanwhile") {
    boost::asio::io_context loop;
    LoopMeter meter(loop);
    boost::asio::post(loop, [] { burn(20ms); });
    // Ends once the ticks of the stall have been counted.
    std::function<void()> watch = [&] {
        if (meter.lateness().count() >= 15)
            meter.stop();
        else
            boost::asio::post(loop, [&] { watch(); });
    };
    boost::asio::post(loop, [&] { watch(); });
    meter.run();
    // Due 1, 2, … ms after the start, all of them came after 20 ms.
    CHECK(meter.lateness().max() >= 18ms);
    CHECK(meter.lateness().quantile(0.5) >= 8ms);
}

TEST_CASE("A stopped loop meter keeps no loop alive") {
    boost::asio::io_context loop;
    LoopMeter meter(loop);
    meter.stop();
    meter.run();
    CHECK(meter.lateness().count() == 0);
}
