// A disk that is a number, with writers, and the meter that walks their workspaces.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "fs-guard/disk_meter.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test {

/// A disk on which writers write, and walks that take their time.
class MeteredDisk {
  public:
    struct Writer {
        double bytes = 0;
        double bytes_per_ms = 0;
        base::Millis walk_takes{2};
        std::uint64_t inodes = 1;
        bool hides = false;
        bool is_too_large = false;
    };

    explicit MeteredDisk(fs_guard::MeterSettings settings = {}, base::Budget* files = nullptr)
        : meter({clock,
                 timers,
                 [this] { return look(); },
                 [this](const std::string& id, auto done) { walk(id, std::move(done)); },
                 {},
                 files},
                settings) {}

    void watch(const std::string& id, std::uint64_t limit,
               fs_guard::DiskEnforcer enforcer = fs_guard::DiskEnforcer::none,
               const std::optional<base::ShareHolder>& user = std::nullopt) {
        meter.watch(
            id, limit,
            [this, id](const fs_guard::DiskMeter::Verdict& verdict) {
                settle();
                verdicts[id] = verdict;
                writers[id].bytes_per_ms = 0;
            },
            [this, id](std::uint64_t, std::uint64_t) { ++warnings[id]; }, enforcer, user);
    }
    void run(base::Millis duration) {
        const auto end = clock.steady_now() + duration;
        while (clock.steady_now() < end && timers.fire_next()) {
        }
        settle();
    }
    double megabytes(const std::string& id) { return writers[id].bytes / (1024.0 * 1024); }
    /// The meter's answer for so many more bytes.
    std::optional<fs_guard::DiskMeter::Verdict> excess_of(const std::string& id,
                                                          std::optional<std::uint64_t> bytes) {
        std::optional<std::optional<fs_guard::DiskMeter::Verdict>> answer;
        meter.check_room(id, bytes, [&answer](const auto& excess) { answer.emplace(excess); });
        while (!answer && (timers.run_deferred() || timers.fire_next())) {
        }
        return answer.value();
    }

    FakeClock clock;
    FakeTimers timers{clock};
    std::uint64_t total = 1'000'000UL * 1024 * 1024;
    std::uint64_t others = 0;
    std::map<std::string, Writer> writers;
    std::map<std::string, fs_guard::DiskMeter::Verdict> verdicts;
    std::map<std::string, int> walks;
    std::map<std::string, int> warnings;
    int looks = 0;

  private:
    std::optional<fs_guard::FreeSpace> look() {
        ++looks;
        settle();
        double used = static_cast<double>(others);
        for (const auto& [id, writer] : writers)
            used += writer.bytes;
        return fs_guard::FreeSpace{total, total - static_cast<std::uint64_t>(used)};
    }
    void walk(const std::string& id, std::function<void(base::Result<fs_guard::TreeSize>)> done) {
        ++walks[id];
        settle();
        const auto found = static_cast<std::uint64_t>(writers[id].bytes);
        const fs_guard::TreeSize size{found, writers[id].inodes,
                                      !writers[id].hides && !writers[id].is_too_large,
                                      writers[id].is_too_large};
        timers.arm(writers[id].walk_takes, [size, done = std::move(done)] { done(size); });
    }
    void settle() {
        const auto now = clock.steady_now();
        for (auto& [id, writer] : writers)
            writer.bytes +=
                writer.bytes_per_ms * std::chrono::duration<double, std::milli>(now - settled_).count();
        settled_ = now;
    }

    base::SteadyTime settled_ = clock.steady_now();

  public:
    fs_guard::DiskMeter meter;
};

}  // namespace atl::test
