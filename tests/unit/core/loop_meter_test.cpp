#include "core/base/loop_meter.hpp"

#include <time.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/base/histogram.hpp"

namespace loop_meter_test {

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
    const Histogram none(k_quantile_bounds);
    CHECK(none.count() == 0);
    CHECK(none.max() == 0us);
    CHECK(none.quantile(0.999) == 0us);
}

TEST_CASE("A quantile is at most 1/32 above the sample that it stands for, never below") {
    for (std::int64_t us = 0; us < 3'600'000'000; us += 1 + us / 7) {
        Histogram histogram(k_quantile_bounds);
        histogram.add(Micros(us));
        histogram.add(1h);
        const auto told = histogram.quantile(0.5).count();
        REQUIRE(told >= us);
        REQUIRE(told - us <= us / 32);
    }
}

TEST_CASE("Quantiles rank samples by size, not by arrival") {
    Histogram histogram(k_quantile_bounds);
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

TEST_CASE("Samples beyond all bounds have the quantile of the largest") {
    Histogram histogram(k_quantile_bounds);
    histogram.add(-5s);
    CHECK(histogram.max() == 0us);
    CHECK(histogram.quantile(1) == 0us);
    histogram.add(48h);
    histogram.add(24h);
    CHECK(histogram.quantile(0.5) == 48h);
    CHECK(histogram.max() == 48h);
}

TEST_CASE("A loop meter tells the handler that took long, and the ticks that it made late") {
    boost::asio::io_context loop;
    LoopMeter meter(loop, LoopMeter::Detail::handlers);
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
    LoopMeter meter(loop, LoopMeter::Detail::handlers);
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
    CHECK(meter.stalls().count() == meter.lateness().count());
}

TEST_CASE("A meter of stalls alone ticks less often and measures no handler") {
    boost::asio::io_context loop;
    LoopMeter meter(loop, LoopMeter::Detail::stalls);
    boost::asio::post(loop, [] { burn(5 * LoopMeter::k_tick); });
    std::function<void()> watch = [&] {
        if (meter.stalls().count() >= 4)
            meter.stop();
        else
            boost::asio::post(loop, [&] { watch(); });
    };
    boost::asio::post(loop, [&] { watch(); });
    meter.run();
    // Due after one, two, three and four ticks, they came after five.
    CHECK(meter.stalls().sum() >= (4 + 3 + 2 + 1) * LoopMeter::k_tick);
    CHECK(meter.lateness().count() == 0);
    CHECK(meter.handler_cpu().count() == 0);
}

TEST_CASE("A stopped loop meter keeps no loop alive") {
    boost::asio::io_context loop;
    LoopMeter meter(loop, LoopMeter::Detail::handlers);
    meter.stop();
    meter.run();
    CHECK(meter.stalls().count() == 0);
}

}  // namespace loop_meter_test
