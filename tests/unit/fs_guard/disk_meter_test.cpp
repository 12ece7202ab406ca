// The scheduling of walks over time, on a disk that is a number, and the walk itself on a real one.
#include "fs-guard/disk_meter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/fs_guard/metered_disk.hpp"

namespace disk_meter_test {

namespace {

using namespace atl;
using namespace std::chrono_literals;
using fs_guard::DiskExcess;
using fs_guard::DiskMeter;

using Disk = test::MeteredDisk;
constexpr std::uint64_t k_mb = 1024UL * 1024;

}  // namespace

TEST_CASE("disk meter: a writer at full speed is stopped close above its limit, whoever else is there") {
    for (const int neighbours : {0, 20, 500}) {
        Disk disk;
        disk.watch("w", 256 * k_mb);
        for (int i = 0; i < neighbours; ++i)
            disk.watch("n" + std::to_string(i), 1024 * k_mb);
        disk.run(5s);
        disk.writers["w"].bytes_per_ms = 1.5 * k_mb;  // 1.5 GB/s
        disk.run(3s);
        INFO(neighbours << " neighbours, " << disk.megabytes("w") << " MB");
        REQUIRE(disk.verdicts.contains("w"));
        CHECK(disk.verdicts["w"].why == DiskExcess::limit);
        CHECK(disk.megabytes("w") <= 256 + 64);
        CHECK(disk.verdicts.size() == 1);
    }
}

TEST_CASE("disk meter: a slow writer is stopped at its limit, by the period if by nothing else") {
    Disk disk;
    disk.watch("w", 8 * k_mb);
    disk.writers["w"].bytes_per_ms = 0.001 * k_mb;  // 1 MB/s: below a step until the period is over
    disk.run(31s);
    CHECK(disk.verdicts.contains("w"));
    CHECK(disk.megabytes("w") <= 8 + 31);
}

TEST_CASE("disk meter: quiet workspaces are walked once a period, and the disk looked at 20 times a second") {
    Disk disk;
    for (int i = 0; i < 100; ++i)
        disk.watch("n" + std::to_string(i), 1024 * k_mb);
    disk.run(95s);
    CHECK(disk.walks["n7"] >= 3);
    CHECK(disk.walks["n7"] <= 5);
    // And at each walk, and when one is watched.
    CHECK(disk.looks <= 95 * 20 + 10 + 100 * 6);
    CHECK(disk.verdicts.empty());
}

TEST_CASE("disk meter: a neighbour's growth is not held against anyone") {
    Disk disk;
    disk.watch("small", 10 * k_mb);
    disk.writers["small"].bytes = 9.0 * k_mb;
    disk.watch("big", 100'000 * k_mb);
    disk.writers["big"].bytes_per_ms = 1.0 * k_mb;
    disk.run(20s);
    CHECK(disk.verdicts.empty());
    CHECK(disk.warnings["small"] == 1);
    // Found innocent again and again, but not for every look.
    CHECK(disk.walks["small"] < 20'000 / 16 + 20);
}

TEST_CASE("disk meter: where it is in doubt whether bytes fit, a walk tells") {
    Disk disk;
    disk.watch("w", 64 * k_mb);
    disk.run(1s);
    disk.writers["w"].bytes = 30.0 * k_mb;
    const int walks = disk.walks["w"];
    CHECK_FALSE(disk.excess_of("w", 2 * k_mb).has_value());
    CHECK(disk.walks["w"] == walks);
    // Others may have removed as much as it has grown: only few bytes fit without a look.
    CHECK_FALSE(disk.excess_of("w", 30 * k_mb).has_value());
    CHECK(disk.walks["w"] == walks + 1);
    CHECK_FALSE(disk.excess_of("w", std::nullopt).has_value());
    CHECK(disk.walks["w"] == walks + 2);
    const auto excess = disk.excess_of("w", 50 * k_mb);
    REQUIRE(excess.has_value());
    CHECK(excess->used_bytes == 30 * k_mb);
    // Neither what was removed since then counts, nor what others wrote.
    disk.writers["w"].bytes = 1.0 * k_mb;
    CHECK_FALSE(disk.excess_of("w", 50 * k_mb).has_value());
    disk.others = 500 * k_mb;
    CHECK_FALSE(disk.excess_of("w", 50 * k_mb).has_value());
    CHECK(disk.excess_of("w", UINT64_MAX).has_value());
    CHECK_FALSE(disk.excess_of("w", 0).has_value());
    // A workspace that is not watched, or no longer, has room.
    bool fits = false;
    disk.meter.check_room("w", 100 * k_mb, [&fits](const auto& excess_now) { fits = !excess_now; });
    disk.meter.unwatch("w");
    CHECK_FALSE(disk.excess_of("w", 100 * k_mb).has_value());
    CHECK(fits);
}

TEST_CASE("disk meter: who asks again and again whether bytes fit gets half of the time of the walks") {
    Disk disk;
    disk.writers["w"] = {60.0 * k_mb, 0, 100ms};
    disk.watch("w", 64 * k_mb);
    disk.run(1s);
    const auto began = disk.clock.steady_now();
    for (int i = 0; i < 10; ++i)
        CHECK(disk.excess_of("w", 50 * k_mb).has_value());
    CHECK(disk.clock.steady_now() - began >= 1900ms);
}

TEST_CASE("disk meter: clients that ask again and again do not keep the answer of another one waiting") {
    Disk disk;
    for (const char* const id : {"a", "b", "c"}) {
        disk.writers[id] = {60.0 * k_mb, 0, 100ms};
        disk.watch(id, 64 * k_mb);
    }
    disk.run(1s);
    const std::function<void(const std::string&)> ask_for_ever = [&](const std::string& asked) {
        disk.meter.check_room(asked, 50 * k_mb, [&ask_for_ever, asked](const auto&) { ask_for_ever(asked); });
    };
    ask_for_ever("a");
    ask_for_ever("b");
    disk.run(1s);
    const auto began = disk.clock.steady_now();
    CHECK(disk.excess_of("c", 50 * k_mb).has_value());
    CHECK(disk.clock.steady_now() - began <= 400ms);
}

TEST_CASE("disk meter: the mark is told once until it is left") {
    Disk disk;
    disk.watch("w", 100 * k_mb);
    disk.writers["w"].bytes = 85.0 * k_mb;
    disk.run(65s);
    CHECK(disk.warnings["w"] == 1);
    disk.writers["w"].bytes = 10.0 * k_mb;
    disk.run(31s);
    disk.writers["w"].bytes = 90.0 * k_mb;
    disk.run(31s);
    CHECK(disk.warnings["w"] == 2);
    CHECK(disk.verdicts.empty());
}

TEST_CASE("disk meter: one that begins above its limit may be cleaned up, but not grow") {
    Disk disk;
    disk.watch("w", 256 * k_mb);
    disk.writers["w"].bytes = 300.0 * k_mb;
    disk.run(31s);
    REQUIRE(disk.verdicts.contains("w"));
    disk.verdicts.clear();
    disk.watch("w", 256 * k_mb);
    disk.run(10s);
    CHECK(disk.verdicts.empty());
    SECTION("cleaned up, the limit holds again") {
        disk.writers["w"].bytes = 100.0 * k_mb;
        disk.run(31s);
        disk.writers["w"].bytes = 280.0 * k_mb;
        disk.run(31s);
        CHECK(disk.verdicts.contains("w"));
    }
    SECTION("growing, it is stopped") {
        disk.writers["w"].bytes_per_ms = 0.1 * k_mb;
        disk.run(2s);
        CHECK(disk.verdicts.contains("w"));
        CHECK(disk.megabytes("w") < 300 + 64);
        disk.writers["w"].bytes_per_ms = 0;
        const double then = disk.megabytes("w");
        disk.verdicts.clear();
        disk.watch("w", 256 * k_mb);
        disk.run(10s);
        CHECK(disk.verdicts.empty());
        CHECK(disk.megabytes("w") == then);
    }
}

TEST_CASE("disk meter: one that grows in start after start while over its limit starts less and less often") {
    constexpr std::uint64_t k_limit = 256 * k_mb;
    Disk disk;
    int starts = 0;
    const auto start_and_grow = [&] {
        disk.verdicts.clear();
        disk.watch("w", k_limit);
        disk.writers["w"].bytes_per_ms = 0.1 * k_mb;
        while (!disk.verdicts.contains("w"))
            disk.run(1s);
        ++starts;
    };
    disk.writers["w"].bytes = 300.0 * k_mb;
    const auto end = disk.clock.steady_now() + 60min;
    while (disk.clock.steady_now() < end) {
        if (disk.meter.may_start_in("w", k_limit) == 0ms)
            start_and_grow();
        else
            disk.clock.advance(10s);
    }
    CHECK(starts >= 5);
    CHECK(starts <= 12);
    CHECK(disk.megabytes("w") < 300 + 12 * 32);
    SECTION("a verdict tells for how long, an hour at most") {
        for (int more = 0; more < 5; ++more) {
            disk.clock.advance(60min);
            REQUIRE(disk.meter.may_start_in("w", k_limit) == 0ms);
            start_and_grow();
            const base::Millis rest = disk.meter.may_start_in("w", k_limit);
            CHECK(rest <= disk.verdicts["w"].pause);
            CHECK(rest > disk.verdicts["w"].pause - 1s);
        }
        CHECK(disk.verdicts["w"].pause == 60min);
    }
    SECTION("with a higher limit it may start at once") {
        start_and_grow();
        REQUIRE(disk.meter.may_start_in("w", k_limit) > 0ms);
        CHECK(disk.meter.may_start_in("w", 10 * k_limit) == 0ms);
    }
    SECTION("it may be cleaned up, and then begins anew") {
        disk.clock.advance(60min);
        disk.verdicts.clear();
        disk.watch("w", k_limit);
        disk.run(10s);
        CHECK(disk.verdicts.empty());
        disk.writers["w"].bytes = 100.0 * k_mb;
        disk.run(31s);
        disk.meter.unwatch("w");
        for (int more = 0; more < 3; ++more) {
            start_and_grow();
            CHECK(disk.meter.may_start_in("w", k_limit) == 0ms);
        }
    }
    SECTION("it is forgotten with its workspace") {
        start_and_grow();
        disk.meter.forget("w");
        CHECK(disk.meter.may_start_in("w", k_limit) == 0ms);
    }
}

TEST_CASE("disk meter: what one wrote between the walk that found it over its limit and its end may stay") {
    Disk disk;
    disk.watch("w", 256 * k_mb);
    disk.writers["w"].bytes = 260.0 * k_mb;
    disk.run(31s);
    REQUIRE(disk.verdicts.contains("w"));
    disk.writers["w"].bytes = 290.0 * k_mb;
    disk.verdicts.clear();
    disk.watch("w", 256 * k_mb);
    disk.run(31s);
    CHECK(disk.verdicts.empty());
    disk.writers["w"].bytes = 300.0 * k_mb;
    disk.run(31s);
    CHECK(disk.verdicts.contains("w"));
}

TEST_CASE(
    "disk meter: one that the kernel holds to its limit is warned of, and ended for the reserve alone") {
    Disk disk;
    disk.watch("w", 256 * k_mb, fs_guard::DiskEnforcer::quota);
    disk.writers["w"].bytes = 300.0 * k_mb;
    disk.run(31s);
    CHECK(disk.verdicts.empty());
    CHECK(disk.warnings["w"] == 1);
    disk.others = disk.total / 100 * 96;
    disk.writers["w"].bytes_per_ms = 0.1 * k_mb;
    disk.run(10s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::reserve);
}

TEST_CASE("disk meter: answers to walks that come after its end are dropped") {
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    std::function<void(base::Result<fs_guard::TreeSize>)> answer;
    std::optional<DiskMeter> meter;
    meter.emplace(
        fs_guard::MeterPorts{clock, timers, [] { return std::nullopt; },
                             [&answer](const std::string&, auto done) { answer = std::move(done); }},
        fs_guard::MeterSettings{});
    meter->watch(
        "w", k_mb, [](const DiskMeter::Verdict&) { FAIL("it is gone"); }, nullptr);
    while (!answer && timers.fire_next()) {
    }
    REQUIRE(answer);
    meter.reset();
    answer(fs_guard::TreeSize{100 * k_mb, 1, true});
}

TEST_CASE("disk meter: a limit that is changed holds from then on") {
    Disk disk;
    disk.writers["w"].bytes = 100.0 * k_mb;
    disk.watch("w", 256 * k_mb);
    disk.run(1s);
    disk.meter.set_limit("w", 50 * k_mb);
    disk.run(1s);
    CHECK(disk.verdicts.empty());
    disk.writers["w"].bytes_per_ms = 0.5 * k_mb;
    disk.run(1s);
    CHECK(disk.verdicts.contains("w"));
}

TEST_CASE("disk meter: before the disk is full what grows fastest is stopped, and no one else") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 90'000 * k_mb;
    for (const char* id : {"slow", "fast", "still"}) {
        disk.watch(id, 50'000 * k_mb);
        disk.writers[id].bytes = 100.0 * k_mb;
    }
    disk.run(1s);
    disk.writers["slow"].bytes_per_ms = 0.02 * k_mb;
    disk.writers["fast"].bytes_per_ms = 1.0 * k_mb;
    disk.run(8s);
    REQUIRE(disk.verdicts.contains("fast"));
    CHECK(disk.verdicts["fast"].why == DiskExcess::reserve);
    CHECK(disk.verdicts.size() == 1);
    CHECK(disk.meter.is_short());
}

TEST_CASE("disk meter: many small writers of one user are stopped before another's larger one") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 94'000 * k_mb;
    const auto is_shared = GENERATE(true, false);
    disk.watch("larger", 50'000 * k_mb);
    for (int i = 0; i < 20; ++i)
        disk.watch("n" + std::to_string(i), 50'000 * k_mb, fs_guard::DiskEnforcer::none,
                   is_shared ? std::optional(base::ShareHolder::user("many")) : std::nullopt);
    disk.run(1s);
    disk.writers["larger"].bytes_per_ms = 0.1 * k_mb;
    for (int i = 0; i < 20; ++i)
        disk.writers["n" + std::to_string(i)].bytes_per_ms = 0.05 * k_mb;
    for (int i = 0; i < 100 && disk.verdicts.empty(); ++i)
        disk.run(100ms);
    REQUIRE_FALSE(disk.verdicts.empty());
    CHECK(disk.verdicts.contains("larger") == !is_shared);  // the control: users of their own
}

TEST_CASE("disk meter: what a deleted workspace had grown counts for its user") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 96'000 * k_mb;
    const bool is_one_user = GENERATE(true, false);
    const auto user = is_one_user ? std::optional(base::ShareHolder::user("deletes")) : std::nullopt;
    for (const char* id : {"deleted", "left"})
        disk.watch(id, 50'000 * k_mb, fs_guard::DiskEnforcer::none, user);
    disk.watch("other", 50'000 * k_mb);
    disk.run(1s);
    disk.writers["deleted"].bytes += 30.0 * k_mb;
    disk.writers["left"].bytes += 30.0 * k_mb;
    disk.writers["other"].bytes += 40.0 * k_mb;
    // They are walked in this order, and judged when all have been.
    disk.writers["other"].walk_takes = 100ms;
    for (const char* id : {"deleted", "other"}) {
        const int walks = disk.walks[id];
        for (int i = 0; i < 1000 && disk.walks[id] == walks; ++i)
            disk.run(1ms);
    }
    disk.meter.unwatch("deleted");
    disk.run(300ms);
    REQUIRE(disk.verdicts.size() == 1);
    CHECK(disk.verdicts.contains(is_one_user ? "left" : "other"));  // the control: users of their own
}

TEST_CASE("disk meter: no reserve is kept where none is wanted") {
    fs_guard::MeterSettings settings;
    settings.reserve = 0;
    Disk disk(settings);
    disk.total = 10'000 * k_mb;
    disk.others = 9'000 * k_mb;
    disk.watch("w", 50'000 * k_mb);
    disk.writers["w"].bytes_per_ms = 0.1 * k_mb;
    disk.run(8s);
    CHECK(disk.verdicts.empty());
    CHECK_FALSE(disk.meter.is_short());
}

TEST_CASE("disk meter: what is written before the first walk is held to the limit") {
    Disk disk;
    disk.watch("other", 1024 * k_mb);
    disk.run(1s);
    disk.watch("w", 256 * k_mb);
    disk.writers["w"].bytes = 3000.0 * k_mb;
    disk.run(1s);
    CHECK(disk.verdicts.contains("w"));
}

TEST_CASE("disk meter: files without bytes count, too") {
    Disk disk;
    disk.watch("w", 100 * k_mb);
    disk.writers["w"].inodes = 40'000;
    disk.run(31s);
    CHECK(disk.verdicts.empty());
    disk.writers["w"].inodes = 60'000;
    disk.run(31s);
    CHECK(disk.verdicts.contains("w"));
}

TEST_CASE(
    "disk meter: a tree that never lets itself be walked to its end is stopped, one that once does not is "
    "not") {
    Disk disk;
    disk.watch("w", 100 * k_mb);
    disk.writers["w"].bytes = 10.0 * k_mb;
    disk.run(1s);
    disk.writers["w"].hides = true;
    disk.run(50ms);
    disk.writers["w"].hides = false;
    disk.run(60s);
    CHECK(disk.verdicts.empty());
    disk.writers["w"].hides = true;
    disk.run(60s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::unmeasurable);
}

}  // namespace disk_meter_test
