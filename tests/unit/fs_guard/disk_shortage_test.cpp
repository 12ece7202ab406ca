// The judgements on trees that are too large, and on a short disk, by the meter.
#include "fs-guard/disk_meter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/fs_guard/metered_disk.hpp"

namespace disk_shortage_test {

namespace {

using namespace atl;
using namespace std::chrono_literals;
using fs_guard::DiskExcess;
using fs_guard::DiskMeter;

using Disk = test::MeteredDisk;
constexpr std::uint64_t k_mb = 1024UL * 1024;

}  // namespace

TEST_CASE("disk meter: a tree that is too large to be measured is stopped at once") {
    Disk disk;
    disk.watch("w", 100 * k_mb);
    disk.writers["w"].bytes = 10.0 * k_mb;
    disk.writers["w"].is_too_large = true;
    disk.run(1s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::too_large);
    CHECK(disk.walks["w"] == 1);
}

TEST_CASE("disk meter: a shortage of the disk leaves a tree that is too large its time to be cleaned up") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 96'000 * k_mb;
    disk.writers["w"].bytes = 10.0 * k_mb;
    disk.writers["w"].is_too_large = true;
    disk.watch("w", 100 * k_mb);
    disk.run(1s);
    REQUIRE(disk.verdicts.contains("w"));
    disk.verdicts.clear();
    disk.walks.clear();
    disk.watch("w", 100 * k_mb);
    disk.run(25s);
    // All are walked again and again while there is too little free.
    CHECK(disk.walks["w"] > 10);
    CHECK(disk.verdicts.empty());
    disk.run(6s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::too_large);
}

TEST_CASE("disk meter: a tree that is too large may be cleaned up in the next start, for a period") {
    Disk disk;
    disk.writers["w"].bytes = 10.0 * k_mb;
    disk.writers["w"].is_too_large = true;
    const auto start = [&](base::Millis duration) {
        disk.verdicts.clear();
        disk.watch("w", 100 * k_mb);
        disk.run(duration);
    };
    start(1s);
    REQUIRE(disk.verdicts.contains("w"));
    start(25s);
    CHECK(disk.verdicts.empty());
    SECTION("then it begins anew") {
        disk.writers["w"].is_too_large = false;
        disk.run(60s);
        CHECK(disk.verdicts.empty());
        disk.writers["w"].is_too_large = true;
        disk.run(31s);
        REQUIRE(disk.verdicts.contains("w"));
        CHECK(disk.verdicts["w"].pause == 0ms);
    }
    SECTION("without that it is ended after a period") {
        disk.run(6s);
        REQUIRE(disk.verdicts.contains("w"));
        CHECK(disk.verdicts["w"].why == DiskExcess::too_large);
    }
    SECTION("it does not grow meanwhile") {
        disk.writers["w"].bytes_per_ms = 0.1 * k_mb;
        disk.run(1s);
        REQUIRE(disk.verdicts.contains("w"));
        CHECK(disk.megabytes("w") < 10 + 32);
    }
    SECTION("after three starts it rests, also with a higher limit, until it is forgotten") {
        disk.run(6s);
        for (int more = 0; more < 2; ++more) {
            CHECK(disk.meter.may_start_in("w", 100 * k_mb) == 0ms);
            start(31s);
        }
        CHECK(disk.verdicts["w"].pause == 60s);
        CHECK(disk.meter.may_start_in("w", 1000 * k_mb) > 0ms);
        disk.meter.forget("w");
        CHECK(disk.meter.may_start_in("w", 100 * k_mb) == 0ms);
    }
}

TEST_CASE("disk meter: a shortage that no known growth explains is judged before a long walk is done") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 94'000 * k_mb;
    for (const char* id : {"slow walk", "still"})
        disk.watch(id, 50'000 * k_mb);
    disk.run(1s);
    disk.writers["slow walk"].walk_takes = 60s;
    disk.writers["slow walk"].bytes_per_ms = 1.0 * k_mb;
    disk.run(8s);
    REQUIRE(disk.verdicts.contains("slow walk"));
    CHECK(disk.verdicts["slow walk"].why == DiskExcess::reserve_unmeasured);
    CHECK(disk.verdicts.size() == 1);
    CHECK(disk.total - disk.others > static_cast<std::uint64_t>(disk.writers["slow walk"].bytes));
}

TEST_CASE("disk meter: a long walk beside a shortage ends nobody while no space goes") {
    Disk disk;
    disk.total = 100'000 * k_mb;
    disk.others = 90'000 * k_mb;
    disk.watch("slow walk", 50'000 * k_mb);
    disk.run(1s);
    disk.writers["slow walk"].walk_takes = 60s;
    disk.others = 99'000 * k_mb;
    disk.run(50s);
    CHECK(disk.verdicts.empty());
}

TEST_CASE("disk meter: a shortage that is over is seen without anyone being watched") {
    Disk disk;
    disk.total = 1000 * k_mb;
    disk.others = 990 * k_mb;
    disk.watch("w", 256 * k_mb);
    disk.run(1s);
    CHECK(disk.meter.is_short());
    disk.meter.unwatch("w");
    disk.run(1s);
    disk.others = 100 * k_mb;
    CHECK_FALSE(disk.meter.is_short());
}

TEST_CASE("disk meter: an answer for one that is watched anew, or no more, is dropped") {
    Disk disk;
    disk.writers["w"].bytes = 300.0 * k_mb;
    disk.writers["w"].walk_takes = 1s;
    disk.watch("w", 256 * k_mb);
    disk.run(100ms);
    disk.meter.unwatch("w");
    disk.run(2s);
    CHECK(disk.verdicts.empty());
    CHECK_FALSE(disk.meter.size("w").has_value());
    disk.watch("w", 256 * k_mb);
    disk.run(100ms);
    disk.watch("w", 1024 * k_mb);
    disk.run(5s);
    REQUIRE(disk.meter.size("w").has_value());
    CHECK(disk.meter.size("w")->bytes == 300 * k_mb);
}

}  // namespace disk_shortage_test
