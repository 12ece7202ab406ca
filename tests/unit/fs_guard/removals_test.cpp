#include "fs-guard/removals.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "../isolation/fixture.hpp"
#include "tests/support/paths.hpp"

namespace removals_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;
using base::ShareHolder;
using Order = std::vector<std::string>;

/// Trees are removed some hundred entries at a time.
struct Bench {
    void make(const std::string& name, int files) {
        for (int i = 0; i < files; ++i)
            test::write_text(data / (name + "/f" + std::to_string(i)), "x");
    }
    void remove(const ShareHolder& user, const std::string& name, std::uint64_t bytes = 1) {
        removals.add(user, bytes, name, [this, name](const base::Result<void>& removed) {
            CHECK(removed.has_value());
            CHECK_FALSE(fs::exists(data / name));
            order.push_back(name);
        });
    }
    void settle(std::size_t trees) {
        REQUIRE(loop.run_until([&] { return order.size() == trees; }, std::chrono::seconds(240)));
    }

    test::TempFolder data;
    test::Loop loop;
    std::unique_ptr<fs_guard::HelperClient> helper =
        fs_guard::HelperClient::start(
            loop.context.get_executor(), loop.timers,
            {test::build_path("bin/atoll-helper"), data.path(), isolation::Priority::low})
            .value();
    base::Budgets budgets;
    fs_guard::Removals removals{*helper, budgets.removals, base::Millis{0}};
    Order order;
};

}  // namespace

TEST_CASE("removals: users take turns, so a small tree does not wait for another user's large one") {
    Bench bench;
    bench.make("large", 2000);
    bench.make("second", 1);
    bench.make("stranger", 1);
    const auto greedy = ShareHolder::user("greedy");
    bench.remove(greedy, "large");
    bench.remove(greedy, "second");
    SECTION("of another user") {
        bench.remove(ShareHolder::user("stranger"), "stranger");
        bench.settle(3);
        CHECK(bench.order == Order{"stranger", "second", "large"});
    }
    SECTION("the control: of the same user it waits for those before it") {
        bench.remove(greedy, "stranger");
        bench.settle(3);
        CHECK(bench.order == Order{"second", "stranger", "large"});
    }
}

TEST_CASE("removals: a tree counts against its user until it is gone, and no removal is refused") {
    Bench bench;
    bench.make("large", 2000);
    bench.make("more", 1);
    const auto greedy = ShareHolder::user("greedy");
    const auto stranger = ShareHolder::user("stranger");
    bench.remove(greedy, "large", base::k_removals_budget_bytes);
    bench.remove(greedy, "more", base::k_removals_budget_bytes);
    CHECK(bench.removals.room_for(greedy).error().code() == base::Errc::user_share);
    CHECK(bench.removals.room_for(stranger).has_value());
    bench.settle(2);
    CHECK(bench.budgets.removals.used() == 0);
    CHECK(bench.removals.room_for(greedy).has_value());
}

TEST_CASE("removals: what is not there is gone, and a file too") {
    Bench bench;
    test::write_text(bench.data / "file", "x");
    bench.remove(ShareHolder(), "file");
    bench.remove(ShareHolder(), "nothing");
    bench.settle(2);
}

}  // namespace removals_test
