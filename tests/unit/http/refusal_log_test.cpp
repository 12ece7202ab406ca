#include "http/server/refusal_log.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/support/fake_world.hpp"

namespace refusal_log_test {

using namespace atl;
using namespace std::chrono_literals;

TEST_CASE("refusals beyond a burst and a rate are counted, and the count is told") {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    test::FakeClock clock;
    test::FakeTimers timers(clock);
    {
        http::RefusalLog log(timers);
        int told = 0;
        for (int i = 0; i < 1000; ++i)
            told += log.admits(clock.steady_now()) ? 1 : 0;
        CHECK(told == 20);
        CHECK(text.str().empty());
        CHECK(timers.fire_next());
        CHECK(text.str().find("evt=requests_suppressed count=980") != std::string::npos);
        // Five seconds allow five more lines. The end tells what is counted.
        for (int i = 0; i < 7; ++i)
            told += log.admits(clock.steady_now()) ? 1 : 0;
        CHECK(told == 25);
    }
    CHECK(text.str().find("evt=requests_suppressed count=2") != std::string::npos);
    spdlog::set_default_logger(before);
}

}  // namespace refusal_log_test
