// Growth that walks cannot see, on a disk that is a number: which sandbox is stopped for it, and which are
// left alone.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <utility>

#include "fs-guard/disk_meter.hpp"
#include "tests/support/fake_world.hpp"

namespace hidden_growth_test {

namespace {

using namespace atl;
using namespace std::chrono_literals;
using fs_guard::DiskExcess;
using fs_guard::DiskMeter;

constexpr std::uint64_t k_mb = 1024UL * 1024;

enum class Place : std::uint8_t { workspace, moved_around, deleted, in_flight, elsewhere };

/// A disk on which each sandbox writes at one place.
class Disk {
  public:
    struct Sandbox {
        Place place = Place::workspace;
        std::map<Place, double> bytes;
        double bytes_per_ms = 0;
        std::uint64_t written = 0;
        std::uint64_t in_flight = 0;  // descriptors, of files or of others
        bool can_stop = true;
        bool passes_descriptors = false;  // every other inspection meets some in flight
        int inspections = 0;
        int walks = 0;
    };

    explicit Disk(fs_guard::MeterSettings settings = {})
        : meter({clock, timers, [this] { return look(); },
                 [this](const std::string& id, auto done) { walk(id, std::move(done)); },
                 [this](const std::string& id, auto done) { inspect(id, std::move(done)); }},
                settings) {}

    void watch(const std::string& id, std::uint64_t limit) {
        all[id];
        meter.watch(
            id, limit,
            [this, id](const DiskMeter::Verdict& verdict) {
                settle();
                verdicts[id] = verdict;
                Sandbox& ended = all[id];
                ended.bytes_per_ms = 0;
                // Its processes are gone, and with them the files that only they held.
                at_end[id] = ended.bytes;
                ended.bytes[Place::deleted] = ended.bytes[Place::in_flight] = 0;
            },
            nullptr);
    }
    /// From now on it writes there.
    void write(const std::string& id, Place place, double mb_per_ms) {
        settle();
        all[id].place = place;
        all[id].bytes_per_ms = mb_per_ms * k_mb;
        if (place == Place::in_flight)
            all[id].in_flight = 8;
    }
    void run(base::Millis duration) {
        const auto end = clock.steady_now() + duration;
        while (clock.steady_now() < end && timers.fire_next()) {
        }
        settle();
    }
    double megabytes(const std::string& id, Place place) { return at_end[id][place] / k_mb; }
    int inspections() const {
        int count = 0;
        for (const auto& [id, sandbox] : all)
            count += sandbox.inspections;
        return count;
    }

    test::FakeClock clock;
    test::FakeTimers timers{clock};
    std::uint64_t total = 1'000'000 * k_mb;
    double others = 0;
    double others_per_ms = 0;
    std::map<std::string, Sandbox> all;
    std::map<std::string, DiskMeter::Verdict> verdicts;
    std::map<std::string, std::map<Place, double>> at_end;

  private:
    std::optional<fs_guard::FreeSpace> look() {
        settle();
        double used = others;
        for (const auto& [id, sandbox] : all) {
            for (const auto& [place, bytes] : sandbox.bytes)
                used += bytes;
        }
        return fs_guard::FreeSpace{total, total - std::min(total, static_cast<std::uint64_t>(used))};
    }
    static std::uint64_t at(Sandbox& sandbox, Place place) {
        return static_cast<std::uint64_t>(sandbox.bytes[place]);
    }
    void walk(const std::string& id, std::function<void(base::Result<fs_guard::TreeSize>)> done) {
        settle();
        Sandbox& sandbox = all[id];
        ++sandbox.walks;
        const fs_guard::TreeSize size{at(sandbox, Place::workspace), 1, true};
        timers.arm(2ms, [size, done = std::move(done)] { done(size); });
    }
    void inspect(const std::string& id, std::function<void(base::Result<fs_guard::Inspection>)> done) {
        settle();
        Sandbox& sandbox = all[id];
        ++sandbox.inspections;
        if (sandbox.passes_descriptors)
            sandbox.in_flight = static_cast<std::uint64_t>(sandbox.inspections % 2);
        const double rate = std::exchange(sandbox.bytes_per_ms, sandbox.can_stop ? 0 : sandbox.bytes_per_ms);
        fs_guard::Inspection found;
        found.tree = {at(sandbox, Place::workspace), 1, true};
        if (sandbox.can_stop)
            found.tree.bytes += at(sandbox, Place::moved_around);
        found.held = {at(sandbox, Place::deleted), at(sandbox, Place::deleted) > 0 ? 1U : 0U, true};
        found.out_of_sight = sandbox.in_flight;
        found.written_bytes = sandbox.written;
        found.stood_still = sandbox.can_stop;
        timers.arm(4ms, [this, id, rate, found, done = std::move(done)] {
            settle();
            if (!verdicts.contains(id))
                all[id].bytes_per_ms = rate;
            done(found);
        });
    }
    void settle() {
        const auto now = clock.steady_now();
        const double passed = std::chrono::duration<double, std::milli>(now - settled_).count();
        for (auto& [id, sandbox] : all) {
            sandbox.bytes[sandbox.place] += sandbox.bytes_per_ms * passed;
            sandbox.written += static_cast<std::uint64_t>(sandbox.bytes_per_ms * passed);
        }
        others += others_per_ms * passed;
        settled_ = now;
    }

    base::SteadyTime settled_ = clock.steady_now();

  public:
    DiskMeter meter;
};

}  // namespace

TEST_CASE("hidden growth: what is moved around the walks is held to the limit") {
    Disk disk;
    disk.watch("w", 128 * k_mb);
    disk.watch("n", 1024 * k_mb);
    disk.run(5s);
    disk.write("w", Place::moved_around, 1.0);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::limit);
    CHECK(disk.megabytes("w", Place::moved_around) < 128 + 64);
    CHECK(disk.verdicts.size() == 1);
}

TEST_CASE("hidden growth: what was moved around the walks of one generation is found in a later one") {
    Disk disk;
    for (int generation = 0; generation < 12; ++generation) {
        disk.watch("w", 128 * k_mb);
        disk.run(1s);
        if (disk.verdicts.contains("w"))
            break;
        // Less than makes a walk doubted.
        disk.write("w", Place::moved_around, 0.05);
        disk.run(1s);
        disk.write("w", Place::moved_around, 0);
        disk.meter.unwatch("w");
    }
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.megabytes("w", Place::moved_around) < 128 + 100);
}

TEST_CASE("hidden growth: deleted files that are held open count as their holder's") {
    Disk disk;
    disk.watch("w", 128 * k_mb);
    disk.watch("n", 1024 * k_mb);
    disk.run(5s);
    disk.write("w", Place::deleted, 1.0);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::limit);
    CHECK(disk.verdicts["w"].held_bytes > 128 * k_mb);
    CHECK(disk.megabytes("w", Place::deleted) < 128 + 64);
    CHECK(disk.verdicts.size() == 1);
}

TEST_CASE("hidden growth: what is within the limit is told and harms nobody") {
    Disk disk;
    disk.watch("w", 256 * k_mb);
    disk.run(1s);
    disk.write("w", Place::deleted, 0.1);
    disk.run(2s);
    disk.write("w", Place::deleted, 0);
    disk.run(61s);
    CHECK(disk.verdicts.empty());
    REQUIRE(disk.meter.size("w").has_value());
    CHECK(disk.meter.size("w")->bytes >= 190 * k_mb);
    SECTION("closed, it is gone with the next walk") {
        disk.all["w"].bytes[Place::deleted] = 0;
        disk.run(31s);
        CHECK(disk.meter.size("w")->bytes < k_mb);
        SECTION("and hides nothing that comes after") {
            disk.write("w", Place::moved_around, 1.0);
            disk.run(5s);
            REQUIRE(disk.verdicts.contains("w"));
            CHECK(disk.megabytes("w", Place::moved_around) < 256 + 128);
        }
    }
}

TEST_CASE("hidden growth: what is kept in flight is put on the one who keeps it and wrote most") {
    Disk disk;
    disk.watch("w", 128 * k_mb);
    disk.watch("idle", 128 * k_mb);
    disk.watch("busy", 4096 * k_mb);
    disk.run(1s);
    disk.all["idle"].in_flight = 3;
    disk.write("busy", Place::workspace, 0.2);
    disk.write("w", Place::in_flight, 0.5);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.verdicts["w"].why == DiskExcess::out_of_sight);
    CHECK(disk.verdicts["w"].unexplained_bytes > 128 * k_mb);
    CHECK(disk.verdicts["w"].written_bytes > 128 * k_mb);
    CHECK(disk.megabytes("w", Place::in_flight) < 3 * 128);
    CHECK(disk.verdicts.size() == 1);
}

TEST_CASE("hidden growth: descriptors that are in flight now and then are no reason") {
    Disk disk;
    disk.watch("w", 128 * k_mb);
    disk.run(1s);
    disk.others_per_ms = 0.3 * k_mb;
    disk.all["w"].passes_descriptors = true;
    disk.run(20s);
    CHECK(disk.all["w"].inspections > 20);
    CHECK(disk.verdicts.empty());
}

TEST_CASE("hidden growth: what other programs of the host write is nobody's, and stops nobody for long") {
    Disk disk;
    for (int i = 0; i < 20; ++i)
        disk.watch("n" + std::to_string(i), 64 * k_mb);
    disk.run(1s);
    disk.others_per_ms = 0.1 * k_mb;
    disk.run(60s);
    CHECK(disk.verdicts.empty());
    // Inspections take 4 ms each. There is about one for each 32 MB lost, which is half of its room.
    CHECK(disk.all["n7"].inspections > 10);
    CHECK(disk.all["n7"].inspections < 6000 / 32 + 20);
}

TEST_CASE("hidden growth: one that writes in its workspace is not stopped for a look, nor anyone beside it") {
    Disk disk;
    for (int i = 0; i < 20; ++i)
        disk.watch("n" + std::to_string(i), 1024 * k_mb);
    disk.run(1s);
    disk.write("n3", Place::workspace, 0.2);
    disk.run(4s);
    CHECK(disk.verdicts.empty());
    CHECK(disk.inspections() == 0);
    // Also if a sandbox deletes its files.
    disk.all["n3"].bytes[Place::workspace] = 0;
    disk.run(35s);
    disk.write("n3", Place::workspace, 0);
    CHECK(disk.inspections() < 12);
}

TEST_CASE("hidden growth: space that others give back hides nothing") {
    Disk disk;
    disk.others = 5'000.0 * k_mb;
    disk.watch("w", 128 * k_mb);
    disk.run(5s);
    disk.others = 0;
    disk.run(31s);
    disk.write("w", Place::deleted, 1.0);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.megabytes("w", Place::deleted) < 128 + 64);
}

TEST_CASE("hidden growth: one that cannot be stopped is looked at all the same, and its files count") {
    Disk disk;
    disk.watch("w", 128 * k_mb);
    disk.run(1s);
    disk.all["w"].can_stop = false;
    disk.write("w", Place::deleted, 0.5);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("w"));
    CHECK(disk.megabytes("w", Place::deleted) < 128 + 64);
}

TEST_CASE("hidden growth: where nobody grew, the reserve ends the one that holds most of deleted files") {
    Disk disk;
    disk.total = 10'000 * k_mb;
    disk.others = 9'000.0 * k_mb;
    for (const char* id : {"a", "b", "c"})
        disk.watch(id, 4'000 * k_mb);
    disk.run(1s);
    disk.all["a"].bytes[Place::workspace] = 50.0 * k_mb;
    disk.all["b"].bytes[Place::deleted] = 400.0 * k_mb;
    disk.all["c"].bytes[Place::deleted] = 20.0 * k_mb;
    disk.run(2s);
    CHECK(disk.verdicts.empty());
    disk.others += 100.0 * k_mb;
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("b"));
    CHECK((disk.verdicts["b"].why == DiskExcess::reserve ||
           disk.verdicts["b"].why == DiskExcess::reserve_held));
    for (const auto& [id, verdict] : disk.verdicts)
        UNSCOPED_INFO(id << " " << static_cast<int>(verdict.why) << " " << verdict.used_bytes / k_mb);
    CHECK(disk.verdicts.size() == 1);
    CHECK_FALSE(disk.meter.is_short());
}

TEST_CASE("hidden growth: of those that could not be seen whole the reserve ends the one that wrote most") {
    Disk disk;
    disk.total = 10'000 * k_mb;
    disk.others = 9'000.0 * k_mb;
    for (const char* id : {"honest", "little", "much"})
        disk.watch(id, 4'000 * k_mb);
    disk.run(1s);
    disk.all["honest"].written = 5'000 * k_mb;  // and deleted again
    disk.all["little"].in_flight = 1;
    disk.all["little"].written = 30 * k_mb;
    disk.write("much", Place::in_flight, 1.0);
    disk.run(600ms);
    disk.write("much", Place::in_flight, 0);
    disk.run(5s);
    REQUIRE(disk.verdicts.contains("much"));
    CHECK(disk.verdicts["much"].why == DiskExcess::reserve_written);
    CHECK(disk.verdicts["much"].written_bytes > 500 * k_mb);
    CHECK(disk.verdicts.size() == 1);
}

TEST_CASE("hidden growth: a disk that other programs filled ends nobody, and stops sandboxes rarely") {
    Disk disk;
    disk.total = 10'000 * k_mb;
    for (const char* id : {"a", "b", "c"}) {
        disk.watch(id, 4'000 * k_mb);
        disk.all[id].written = 2'000 * k_mb;
    }
    disk.run(1s);
    disk.others = 9'900.0 * k_mb;
    disk.run(60s);
    CHECK(disk.meter.is_short());
    CHECK(disk.verdicts.empty());
    CHECK(disk.inspections() >= 3);
    CHECK(disk.inspections() <= 4 * 3);
}

TEST_CASE("hidden growth: many that grow slowly do not fill the disk together") {
    Disk disk;
    disk.total = 10'000 * k_mb;
    disk.others = 9'400.0 * k_mb;
    for (int i = 0; i < 100; ++i)
        disk.watch("n" + std::to_string(i), 1'000 * k_mb);
    disk.run(1s);
    for (int i = 0; i < 100; ++i)
        disk.write("n" + std::to_string(i), Place::workspace, 0.001);
    disk.run(60s);
    double free_mb = 10'000 - 9'400;
    for (auto& [id, sandbox] : disk.all)
        free_mb -= sandbox.bytes[Place::workspace] / k_mb;
    CHECK(disk.verdicts.size() >= 10);
    CHECK(free_mb > 0);
}

}  // namespace hidden_growth_test
