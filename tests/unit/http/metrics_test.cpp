#include "http/server/metrics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>

namespace http_metrics_test {

using namespace atl;
using namespace std::chrono_literals;
using http::Metrics;

namespace {

constexpr std::array<base::Histogram::Micros, 2> k_bounds{{500us, 2s}};
const Metrics::ReadMany k_none = [](const Metrics::Emit&) {};

}  // namespace

TEST_CASE("The page tells each metric with its help, its kind and what is read then") {
    Metrics metrics;
    std::uint64_t turns = 1;
    metrics.constant("build_info", "The version.", {{"version", "1\"2\n"}}, 1);
    metrics.counter("turns_total", "Turns.", [&] { return static_cast<double>(turns); });
    metrics.gauges("boxes", "Boxes.", [](const Metrics::Emit& emit) {
        emit({{"state", "ready"}}, 2);
        emit({{"state", "failed"}}, 0);
    });
    turns = 9'007'199'254'740'992;
    CHECK(metrics.text() ==
          "# HELP build_info The version.\n"
          "# TYPE build_info gauge\n"
          "build_info{version=\"1\\\"2\\n\"} 1\n"
          "# HELP turns_total Turns.\n"
          "# TYPE turns_total counter\n"
          "turns_total 9007199254740992\n"
          "# HELP boxes Boxes.\n"
          "# TYPE boxes gauge\n"
          "boxes{state=\"ready\"} 2\n"
          "boxes{state=\"failed\"} 0\n");
}

TEST_CASE("A histogram is told cumulated and in seconds, its labels in one family") {
    Metrics metrics;
    base::Histogram walks(k_bounds);
    base::Histogram removals(k_bounds);
    walks.add(100us);
    walks.add(1s);
    walks.add(3s);
    metrics.histogram("task_seconds", "Tasks.", {{"task", "walk"}}, walks);
    metrics.histogram("task_seconds", "Tasks.", {{"task", "removal"}}, removals);
    const std::string text = metrics.text();
    CHECK(text.find("task_seconds_bucket{task=\"walk\",le=\"0.0005\"} 1\n") != std::string::npos);
    CHECK(text.find("task_seconds_bucket{task=\"walk\",le=\"2\"} 2\n") != std::string::npos);
    CHECK(text.find("task_seconds_bucket{task=\"walk\",le=\"+Inf\"} 3\n") != std::string::npos);
    CHECK(text.find("task_seconds_sum{task=\"walk\"} 4.0001\n") != std::string::npos);
    CHECK(text.find("task_seconds_count{task=\"removal\"} 0\n") != std::string::npos);
    CHECK(text.find("# TYPE task_seconds histogram\n") == text.rfind("# TYPE"));
}

TEST_CASE("A family without a value now is not told") {
    Metrics metrics;
    metrics.counters("responses_total", "Responses.", k_none);
    CHECK(metrics.text().empty());
}

TEST_CASE("A metric that breaks the rules of names is a defect of the start") {
    Metrics metrics;
    const base::Histogram histogram(k_bounds);
    metrics.gauges("taken", "Taken.", k_none);
    metrics.constant("known", "Known.", {{"a", "1"}}, 1);
    metrics.constant("known", "Known.", {{"a", "2"}}, 1);
    metrics.histogram("taken_seconds", "Taken.", {}, histogram);
    CHECK_THROWS_AS(metrics.gauges("taken", "Taken.", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.gauges("known", "Known.", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.constant("taken", "Taken.", {}, 1), std::logic_error);
    CHECK_THROWS_AS(metrics.constant("known", "Another help.", {}, 1), std::logic_error);
    CHECK_THROWS_AS(metrics.gauges("no-name", "Help.", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.gauges("no_help", "", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.counters("turns", "Turns.", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.gauges("turns_total", "Turns.", k_none), std::logic_error);
    CHECK_THROWS_AS(metrics.histogram("turn_ms", "Turns.", {}, histogram), std::logic_error);
    CHECK_THROWS_AS(metrics.histogram("taken_seconds", "Taken.", {}, histogram), std::logic_error);
}

}  // namespace http_metrics_test
