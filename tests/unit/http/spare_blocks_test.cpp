// Blocks of output that an exec had, and what becomes of them.
#include <catch2/catch_test_macros.hpp>

#include "http/api/exec_answer.hpp"
#include "tests/support/fake_world.hpp"

namespace spare_blocks_test {

using namespace atl;
using namespace atl::test;
using sandbox::OutputKind;

TEST_CASE("blocks of output that is gone are taken by the next, or go one by one") {
    constexpr std::size_t k_block = 192UL * 1024;
    FakeClock clock;
    FakeTimers timers{clock};
    const auto spare = std::make_shared<http::SpareBlocks>(timers);
    const std::string much(base::k_max_exec_output_bytes, 'x');
    base::Budgets budgets;
    const auto holder = base::ShareHolder::user("one");
    const auto collect = [&] {
        http::ExecCollector collector(
            budgets.exec.take(holder, http::reserved_output_bytes(much.size())).value(), much.size(), spare);
        collector.take(OutputKind::standard, much);
        collector.take(OutputKind::error, "e");
        CHECK(collector.output(OutputKind::standard).bytes.piece(much.size() - 1, 2) == "x");
        CHECK(collector.output(OutputKind::error).bytes.piece(0, 2) == "e");
        return spare->count();
    };
    CHECK(collect() == 0);
    const std::size_t freed = spare->count();
    CHECK(freed == (much.size() + k_block - 1) / k_block);
    // The first block of an output may stay small: it takes no spare one.
    CHECK(collect() == 1);
    CHECK(spare->count() >= freed);
    timers.advance(std::chrono::milliseconds{10}, [] {});
    CHECK(spare->count() + 10 >= freed);
    CHECK(spare->count() < freed);
    timers.advance(std::chrono::minutes{1}, [] {});
    CHECK(spare->count() == 0);
}

}  // namespace spare_blocks_test
