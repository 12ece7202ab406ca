// When to walk which workspace, and what to do about what a walk finds. Pure scheduling: the walks, the file
// system's counters and the time come from outside.
//
// Every living workspace is walked once a period. In between, the space that the whole file system has lost
// is looked at often, since statfs(2) costs a microsecond: a workspace is walked early once the file system
// has lost so much since its last walk that it alone could be half way to its limit. The faster space goes,
// the closer the looks. So one that writes at full speed is found within least_step of its limit plus what is
// written during one look and the walks before its own: one goes at a time, and a tree of a million files
// takes seconds. Inodes count like the bytes that they need at least.
//
// Below a reserve of free space or inodes the workspace that grew fastest is stopped, before the host is
// full. What is deleted and still open is in no walk: it counts against the reserve, but not whose it is.
//
// Not here: ending a sandbox (who is told does), opening anything in a workspace.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "fs-guard/helper_client.hpp"

namespace atl::fs_guard {

/// Of the file system that holds the workspaces (statvfs(3)).
struct FreeSpace {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;    // blocks reserved for root are in neither
    std::uint64_t total_inodes = 0;  // 0: the file system has no bound of its own
    std::uint64_t free_inodes = 0;
};

struct MeterSettings {
    base::Millis period{30'000};                    // the longest between two walks of a workspace
    base::Millis longest_look{50};                  // between two looks at the file system
    base::Millis shortest_look{2};                  // while space goes fast
    std::uint64_t least_step = 16UL * 1024 * 1024;  // growth of the file system that is worth a walk, bytes
    double reserve = 0.05;                          // of the file system, kept free; 0: none
    double warn_at = 0.8;                           // of a limit
};

struct MeterPorts {
    const base::Clock& clock;
    base::Timers& timers;
    std::function<std::optional<FreeSpace>()> look;
    /// Answers later, from the loop.
    std::function<void(const std::string& id, std::function<void(base::Result<TreeSize>)>)> walk;
};

/// Whether the kernel refuses what goes beyond the limit of a workspace (project_quota.hpp): then it is never
/// ended for its limit, only warned of and, if it grows fastest, stopped for the reserve.
enum class Wall : std::uint8_t { none, quota };

/// Room for folders beside a single file that the kernel stopped at the limit (RLIMIT_FSIZE).
inline constexpr std::uint64_t k_disk_slack_bytes = 1024UL * 1024;
/// What an inode counts at least: half a block, so that a limit of 1 GiB holds half a million files.
inline constexpr std::uint64_t k_least_bytes_an_inode = 2048;

/// Why a workspace has to stop growing.
enum class DiskExcess : std::uint8_t {
    limit,
    reserve,
    unmeasurable,  // walk after walk finds no end, because folders are moved under it
};

class DiskMeter {
  public:
    struct Verdict {
        DiskExcess why = DiskExcess::limit;
        std::uint64_t used_bytes = 0;
        std::uint64_t limit_bytes = 0;
    };
    using OnExcess = std::function<void(const Verdict&)>;
    using OnWarning = std::function<void(std::uint64_t used_bytes, std::uint64_t limit_bytes)>;

    /// `ports` and what they refer to outlive the meter.
    DiskMeter(MeterPorts ports, MeterSettings settings);
    ~DiskMeter();
    DiskMeter(const DiskMeter&) = delete;
    DiskMeter& operator=(const DiskMeter&) = delete;

    /// From now on the workspace is walked, first at once. `on_excess` is called at most once, from the loop,
    /// and then the workspace is no longer watched; `on_warning` once for each time that it passes the mark.
    /// One that was found over its limit may hold what the first walk finds, so that somebody can clean it
    /// up: it went on growing between the walk that found it and its end. A second call for the same id
    /// replaces the first.
    void watch(const std::string& id, std::uint64_t limit_bytes, OnExcess on_excess, OnWarning on_warning,
               Wall wall = Wall::none);
    void set_limit(const std::string& id, std::uint64_t limit_bytes);
    void unwatch(const std::string& id);
    /// The workspace is gone: what was found in it counts no more.
    void forget(const std::string& id) {
        found_.erase(id);
        over_.erase(id);
    }
    /// As of the last walk.
    std::optional<TreeSize> size(const std::string& id) const;
    /// True while less than the reserve is free. Looks, if nothing else does.
    bool is_short();

  private:
    struct Watched {
        std::uint64_t limit_bytes = 0;
        std::uint64_t allowed_bytes = 0;  // the limit, or more for one that began above it
        OnExcess on_excess;
        OnWarning on_warning;
        std::optional<TreeSize> size;
        std::uint64_t grown_bytes = 0;  // between the last two walks
        std::uint64_t lost_before = 0;  // by the file system, when the last walk began
        base::SteadyTime walked_at{};
        bool walked = false;
        int incomplete_walks = 0;  // in a row
        bool warned = false;
        Wall wall = Wall::none;
        bool was_over = false;  // an earlier watch ended so: what the first walk finds may stay
        std::uint64_t walk_of_shortage = 0;
        std::uint64_t number = 0;  // of the watch: a late answer to an older one is dropped
    };

    void look();
    std::uint64_t look_at_disk();
    void arm(base::Millis pause);
    base::Millis next_look(std::uint64_t lost_since_last_look, base::Millis passed) const;
    double urgency(const Watched& watched, base::SteadyTime now) const;
    void walk_most_urgent();
    void on_walked(const std::string& id, std::uint64_t number, const base::Result<TreeSize>& result);
    void take_size(const std::string& id, Watched& watched, TreeSize size);
    std::uint64_t watched_before(const std::string& id, std::uint64_t now) const;
    void judge(const std::string& id);
    void report(const std::string& id, DiskExcess why);
    void see_shortage(const FreeSpace& space);
    void stop_fastest();

    MeterPorts ports_;
    MeterSettings settings_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();  // answers to walks that come later are dropped
    std::map<std::string, Watched> watched_;
    std::map<std::string, std::uint64_t>
        found_;                   // bytes, by the last walk of each workspace that is still there
    std::set<std::string> over_;  // the last watch ended for the limit, and none has walked it since
    base::TimerId timer_ = 0;
    base::SteadyTime looked_at_{};
    std::optional<FreeSpace> space_;
    std::uint64_t lost_ = 0;  // by the file system since the start, growth only
    bool walking_ = false;
    bool is_short_ = false;
    // Rounds of walks while space is short: at the end of each the fastest is stopped.
    std::uint64_t shortage_ = 0;
    std::uint64_t judged_shortage_ = 0;
    base::SteadyTime round_ended_{};
    std::uint64_t last_number_ = 0;
};

}  // namespace atl::fs_guard
