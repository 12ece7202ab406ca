// The budget of files: what the meter charges to users, and what that decides.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "tests/unit/fs_guard/metered_disk.hpp"

namespace files_budget_test {

namespace {

using namespace atl;
using namespace std::chrono_literals;
using fs_guard::DiskEnforcer;
using fs_guard::DiskExcess;

constexpr std::uint64_t k_mb = 1024UL * 1024;

/// A disk of 1000 MB, 50 of them its reserve.
struct House {
    base::Budgets budgets;
    test::MeteredDisk disk;
    const base::ShareHolder ann = base::ShareHolder::user("ann");
    const base::ShareHolder bob = base::ShareHolder::user("bob");

    explicit House(bool is_counted = true, unsigned user_percent = 50)
        : budgets(user_percent, {.files = 1000 * k_mb}), disk({}, is_counted ? &budgets.files : nullptr) {
        disk.total = 1000 * k_mb;
    }
    /// A workspace that is found with so much in it.
    void watch(const std::string& id, std::uint64_t megabytes, const base::ShareHolder& user) {
        disk.watch(id, 2000 * k_mb, DiskEnforcer::none, user);
        disk.writers[id].bytes = static_cast<double>(megabytes * k_mb);
        disk.run(1s);
    }
    std::uint64_t held(const base::ShareHolder& user) const { return budgets.files.held_by(user) / k_mb; }
};

}  // namespace

TEST_CASE("files budget: the last size counts, living or at rest, until the workspace is gone") {
    House house;
    house.watch("w", 1, house.ann);
    CHECK(house.held(house.ann) == 1);
    // Too little for another walk while it lives.
    house.disk.writers["w"].bytes = 100.0 * k_mb;
    house.disk.run(1s);
    CHECK(house.held(house.ann) == 1);
    house.disk.meter.unwatch("w");
    house.disk.run(1s);
    CHECK(house.held(house.ann) == 100);
    // All that is free above the reserve, and what is held.
    CHECK(house.budgets.files.spec().total / k_mb == 950);
    CHECK(house.disk.walks["w"] == 2);
    house.disk.run(60s);
    CHECK(house.disk.walks["w"] == 2);
    house.disk.meter.forget("w");
    CHECK(house.held(house.ann) == 0);
}

TEST_CASE("files budget: a user beyond the share of what is free is refused, others are not") {
    House house;
    house.watch("w", 400, house.ann);
    CHECK(house.disk.meter.room_for(house.ann).has_value());
    house.watch("v", 200, house.ann);
    const auto refused = house.disk.meter.room_for(house.ann);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::user_share);
    CHECK(refused.error().detail().find("Delete conversations or files") != std::string::npos);
    CHECK(house.disk.meter.room_for(house.bob).has_value());
    house.disk.meter.unwatch("v");
    house.disk.meter.forget("v");
    house.disk.writers["v"].bytes = 0;
    house.disk.run(1s);
    CHECK(house.disk.meter.room_for(house.ann).has_value());
}

TEST_CASE(
    "files budget: nobody's share is that of a workspace without an owner, or of a user who may have all") {
    House house;
    const auto large = base::ShareHolder::thing("w");
    house.watch("w", 600, large);
    CHECK(house.budgets.files.room(large) == 0);
    CHECK(house.disk.meter.room_for(large).has_value());
    House all(true, 100);
    all.watch("w", 960, all.ann);
    CHECK(all.disk.meter.is_short());
    CHECK(all.disk.meter.room_for(all.ann).has_value());
}

TEST_CASE("files budget: what an earlier run left is measured at rest, once") {
    House house;
    house.disk.writers["w"].bytes = 300.0 * k_mb;
    house.disk.meter.measure_at_rest("w", house.ann);
    CHECK(house.held(house.ann) == 0);
    house.disk.run(1s);
    CHECK(house.held(house.ann) == 300);
    house.disk.meter.measure_at_rest("w", house.ann);
    house.disk.run(1s);
    CHECK(house.disk.walks["w"] == 1);
    // A workspace that is removed before its walk is done counts for nobody.
    house.disk.writers["gone"].bytes = 10.0 * k_mb;
    house.disk.writers["gone"].walk_takes = 1s;
    house.disk.meter.measure_at_rest("gone", house.bob);
    house.disk.run(500ms);
    CHECK(house.disk.walks["gone"] == 1);
    house.disk.meter.forget("gone");
    house.disk.run(2s);
    CHECK(house.held(house.bob) == 0);
}

TEST_CASE("files budget: a workspace that is given to a user counts for that user") {
    House house;
    house.watch("w", 10, base::ShareHolder::thing("w"));
    house.disk.meter.set_user("w", house.ann);
    CHECK(house.held(house.ann) == 10);
    CHECK(house.held(base::ShareHolder::thing("w")) == 0);
    house.disk.meter.unwatch("w");
    house.disk.run(1s);
    CHECK(house.held(house.ann) == 10);
}

TEST_CASE("files budget: who grew a little on a disk that another filled is spared") {
    // The control: growth alone decides.
    const bool is_counted = GENERATE(false, true);
    INFO(is_counted);
    House house(is_counted);
    house.watch("filled", 600, house.ann);
    house.disk.meter.unwatch("filled");
    house.watch("neighbour", 0, house.bob);
    house.disk.others = 340 * k_mb;
    house.disk.run(1s);
    CHECK_FALSE(house.disk.meter.is_short());
    house.disk.writers["neighbour"].bytes = 30.0 * k_mb;
    house.disk.run(5s);
    CHECK(house.disk.meter.is_short());
    REQUIRE(house.disk.verdicts.contains("neighbour") == !is_counted);
    if (!is_counted)
        return;
    CHECK(house.disk.meter.room_for(house.ann).error().code() == base::Errc::user_share);
    CHECK(house.disk.meter.room_for(house.bob).has_value());
    // The last quarter of the reserve is the host's.
    house.disk.writers["neighbour"].bytes = 50.0 * k_mb;
    house.disk.run(5s);
    REQUIRE(house.disk.verdicts.contains("neighbour"));
    CHECK(house.disk.verdicts["neighbour"].why == DiskExcess::reserve);
}

TEST_CASE("disk meter: walks that one user asks for without end leave others theirs") {
    House house;
    house.watch("neighbour", 1, house.bob);
    for (const char* id : {"one", "other"})
        house.disk.writers[id].walk_takes = 1s;
    // Woken again and again: their first walk is never done.
    for (int i = 0; i < 80; ++i) {
        for (const char* id : {"one", "other"})
            house.disk.watch(id, 2000 * k_mb, DiskEnforcer::none, house.ann);
        house.disk.run(500ms);
    }
    CHECK(house.disk.walks["one"] + house.disk.walks["other"] > 30);  // the control: there is always one due
    CHECK(house.disk.walks["neighbour"] == 2);                        // once a period
}

}  // namespace files_budget_test
