// Buffers the log of the parts under test, and shows it only below a failed test case: a report among
// thousands of lines about good requests would be lost.
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cstdio>
#include <memory>

namespace {

constexpr std::size_t k_kept_lines = 200;

class QuietLog final : public Catch::EventListenerBase {
  public:
    using EventListenerBase::EventListenerBase;

    void testCaseStarting(const Catch::TestCaseInfo&) override {
        kept_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(k_kept_lines);
        spdlog::default_logger()->sinks().assign(1, kept_);
    }

    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        if (stats.totals.testCases.failed == 0) {
            return;
        }
        std::printf("The last lines that \"%s\" logged:\n", stats.testInfo->name.c_str());
        for (const auto& line : kept_->last_formatted()) {
            std::fputs(line.c_str(), stdout);
        }
        std::fflush(stdout);
    }

  private:
    std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> kept_;
};

CATCH_REGISTER_LISTENER(QuietLog)

}  // namespace
