#include "tests/bench/result.hpp"

#include <catch2/catch_test_macros.hpp>

namespace result_test {

namespace {

using namespace atl::bench;

std::vector<Result> two_results() {
    Result measured{
        .key = "speed_mb_s", .unit = "MB/s", .target = ">= 2", .better = Better::higher, .value = 3.5};
    measured.p50 = 1.25;
    measured.p95 = 2.5;
    measured.floor = 7;
    measured.ratio = 0.5;
    measured.reached = true;
    measured.more = {{"p99", 4}, {"iterations", 300}};
    return {measured, {.key = "other_ms", .error = "did not end within 50 s"}};
}

}  // namespace

TEST_CASE("bench result: a result is the same after its way through JSON") {
    const std::vector<Result> before = two_results();
    const std::vector<Result> after = results_in(json_text(before));
    REQUIRE(after.size() == 2);
    CHECK(after[0].key == "speed_mb_s");
    CHECK(after[0].better == Better::higher);
    CHECK(after[0].reached == true);
    CHECK(after[0].more == before[0].more);
    CHECK(after[1].better == Better::lower);
    CHECK(!after[1].reached);
    CHECK(table(after) == table(before));
    CHECK(markdown(after) == markdown(before));
}

TEST_CASE("bench result: the table says why there is no number") {
    const std::string text = table(two_results());
    CHECK(text.find("not measured") != std::string::npos);
    CHECK(text.find("did not end within 50 s") != std::string::npos);
}

}  // namespace result_test
