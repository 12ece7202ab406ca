// Decides when to walk which workspace, and how to react to the result. Pure scheduling: the walks, the file
// system's counters and the time come from outside.
//
// Every living workspace is walked once a period. In between, the meter often checks how much space the whole
// file system has lost, since statfs(2) costs a microsecond. A workspace is walked early once the file system
// has lost so much since its last walk that this workspace alone could be half way to its limit. The faster
// space goes, the shorter the pauses between checks. So a workspace that grows at full speed is found within
// least_step of its limit, plus the bytes written between two checks and during the walks before its own: one
// walk runs at a time, and a tree of a million files takes seconds. Inodes count like the bytes that they
// need at least.
//
// A walk can be misled: the sandbox may move folders around it, and a file that is deleted and still open is
// in no folder. So the loss of the file system is compared with the growth that walks explain
// (space_ledger.hpp). If more stays unexplained than a workspace has room for, the workspace is inspected:
// its processes stand still meanwhile, and the deleted files that they hold count as its own. Only
// descriptors in flight (unix(7), SCM_RIGHTS) remain out of sight. A workspace with such descriptors in one
// inspection after another is a suspect. Once all others have just been walked, the suspect that wrote most
// is charged with the unexplained rest.
//
// The last size of each workspace, at rest too, is charged to its user in the budget `files`, whose total is
// what is charged and what is free above the reserve. A workspace that begins to rest is walked once more.
//
// Below a reserve of free space or inodes the workspaces of the user who wrote most stop before the host is
// full, the one that grew fastest first. Users who hold less than a quarter of what the user with most files
// holds are spared until a quarter of the reserve is left: they did not fill the disk. If none grew, all are
// inspected, and the user who holds most in deleted files is chosen the same way, or else the user who wrote
// most in workspaces that could not be seen whole (core/base/victims.hpp). Once half the reserve is gone and
// space still goes, no walk is waited for: if the known growth does not explain the loss, a workspace whose
// walk is not done is stopped, since each sandbox decides how long its walk takes.
//
// Users take turns: every other walk is that of the user who was walked longest ago, so that nobody's walk
// waits for those of one user. The other walks are the most urgent ones.
//
// Not here: ending a sandbox (the callback does), opening anything in a workspace.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/victims.hpp"
#include "fs-guard/helper_client.hpp"
#include "fs-guard/space_ledger.hpp"

namespace atl::fs_guard {

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
    /// Walks a workspace while its processes stand still, if they can be stopped, and finds the deleted files
    /// that they hold. Answers later, from the loop. Empty: the results of walks are trusted.
    std::function<void(const std::string& id, std::function<void(base::Result<Inspection>)>)> inspect{};
    /// The budget of files, which outlives the meter. Null: nothing is charged, and nobody is spared.
    base::Budget* files = nullptr;
};

/// quota: the kernel refuses writes beyond the limit of a workspace (project_quota.hpp). Then the sandbox is
/// never ended for its limit: there are only warnings, and, if it grows fastest, it is stopped for the
/// reserve.
enum class DiskEnforcer : std::uint8_t { none, quota };

/// A user who holds less than this part of what the user with most files holds has not filled the disk.
inline constexpr std::uint64_t k_spared_part = 4;

/// Room for folders beside a single file that the kernel stopped at the limit (RLIMIT_FSIZE).
inline constexpr std::uint64_t k_disk_slack_bytes = 1024UL * 1024;

/// Why a workspace has to stop growing.
enum class DiskExcess : std::uint8_t {
    limit,
    out_of_sight,        // the unexplained rest exceeds its room, and it has descriptors in flight
    reserve,             // it grew fastest, of the user whose workspaces grew most
    reserve_held,        // it holds most of deleted files, as above
    reserve_written,     // it was not seen whole, and wrote most, as above
    reserve_unmeasured,  // its walk was not done in time, and no known growth explains the loss
    unmeasurable,        // walk after walk finds no end, because folders are moved under it
    too_large,           // the walk ended at a bound (helper/tree_meter.hpp)
};

class DiskMeter {
  public:
    struct Verdict {
        DiskExcess why = DiskExcess::limit;
        std::uint64_t used_bytes = 0;  // held_bytes among them
        std::uint64_t limit_bytes = 0;
        std::uint64_t held_bytes = 0;         // in deleted files that its processes hold
        std::uint64_t unexplained_bytes = 0;  // lost by the file system since it was last seen whole
        std::uint64_t written_bytes = 0;      // by its processes since the inspection before the last
        base::Millis pause{0};                // before it may start again: may_start_in()
    };
    using OnExcess = std::function<void(const Verdict&)>;
    using OnWarning = std::function<void(std::uint64_t used_bytes, std::uint64_t limit_bytes)>;

    /// `ports` and the objects behind them outlive the meter.
    DiskMeter(MeterPorts ports, MeterSettings settings);
    ~DiskMeter();
    DiskMeter(const DiskMeter&) = delete;
    DiskMeter& operator=(const DiskMeter&) = delete;

    /// From now on the workspace is walked, first at once. `on_excess` is called at most once, from the loop,
    /// and then the workspace is no longer watched; `on_warning` once for each time that it passes the mark.
    /// A workspace that was ended over its limit may keep the size that the first walk finds, so that a user
    /// can clean it up: it went on growing between the walk that found it and its end. A workspace that was
    /// ended as too large may stay so for a period, or until the file system lost least_step, however often
    /// it is walked meanwhile. A second call for the same id replaces the first. `user`: none where the
    /// workspace is a user of its own.
    void watch(const std::string& id, std::uint64_t limit_bytes, OnExcess on_excess, OnWarning on_warning,
               DiskEnforcer enforcer = DiskEnforcer::none,
               const std::optional<base::ShareHolder>& user = std::nullopt);
    void set_limit(const std::string& id, std::uint64_t limit_bytes);
    /// It has another user from now on.
    void set_user(const std::string& id, const base::ShareHolder& user);
    /// How long a workspace has to rest before it is watched again with this limit. Each watch that begins
    /// over the limit is allowed what is there, and may write some bytes more before they are found. So a
    /// workspace that grows in one such watch after another, or stays too large to be measured, rests from
    /// the fourth on, each time twice as long, until a walk finds it within its limit. 0: it may start.
    base::Millis may_start_in(const std::string& id, std::uint64_t limit_bytes) const;
    void unwatch(const std::string& id);
    /// Tells `done` if so many more bytes fit into a workspace now; none: if it is within its limit. `done`
    /// is called once, from the loop, without a verdict if they fit: soon where they are few and even all
    /// that the file system lost since the last walk leaves room, else after a walk that begins later than
    /// this call. What cannot be told fits: the workspace is not watched (any more), or no walk finds its
    /// size.
    using Room = std::function<void(const std::optional<Verdict>& excess)>;
    void check_room(const std::string& id, std::optional<std::uint64_t> bytes, Room done);
    /// Charges the size of a workspace that rests to its user: it is walked when there is time for that. Does
    /// nothing where its size is known.
    void measure_at_rest(const std::string& id, const base::ShareHolder& user);
    /// DiskGuard::is_busy_at_rest().
    bool is_busy_at_rest() const { return resting_.size() >= base::k_logs_counted_at_once; }
    /// Succeeds if this user may have more files: what is charged is within the user's share, or, where
    /// nothing is left, within the floor or less than a quarter of what another user holds. It always does
    /// without an owner, and where a user may have all. Errors: user_share.
    base::Result<void> room_for(const base::ShareHolder& user);
    /// The workspace is gone: its last size no longer counts.
    void forget(const std::string& id) {
        charged_.erase(id);
        resting_.erase(id);
        found_.erase(id);
        agreed_gaps_.erase(id);
        over_.erase(id);
        relapses_.erase(id);
        ledger_.forget(id);
    }
    /// The size that the last walk found, also the walk of an earlier watch.
    std::optional<std::uint64_t> last_size(const std::string& id) const {
        const auto found = found_.find(id);
        return found == found_.end() ? std::nullopt : std::optional(found->second);
    }
    /// The size that the last walk found, with the deleted files that its processes hold.
    std::optional<TreeSize> size(const std::string& id) const;
    /// True while less than the reserve is free. Looks, if nothing else does.
    bool is_short();
    /// True while less than half of the reserve is free. Looks, if nothing else does.
    bool is_very_short();

  private:
    /// Bytes that somebody wants to write.
    struct Asked {
        std::uint64_t bytes = 0;
        Room done;
    };
    struct Watched {
        std::uint64_t limit_bytes = 0;
        std::uint64_t allowed_bytes = 0;  // the limit, or more if the workspace began above it
        OnExcess on_excess;
        OnWarning on_warning;
        std::optional<TreeSize> size;         // the sum of `tree` and `held`
        TreeSize tree;                        // files in the workspace
        TreeSize held;                        // deleted files that were held at the last inspection
        std::uint64_t grown_bytes = 0;        // with the last walk; while space is short, in this round
        std::uint64_t grown_while_short = 0;  // since the shortage began, or a sandbox was stopped for it
        std::uint64_t lost_before = 0;        // by the file system, when the last walk began
        base::SteadyTime walked_at{};
        bool walked = false;
        int incomplete_walks = 0;  // in a row
        bool warned = false;
        DiskEnforcer enforcer = DiskEnforcer::none;
        base::ShareHolder user;
        bool was_over = false;  // an earlier watch ended so: what the first walk finds is allowed
        base::SteadyTime may_be_large_until{};  // too large to be measured
        std::uint64_t lost_before_large = 0;    // by the file system, when the walk that allowed it began
        std::uint64_t walk_of_shortage = 0;
        std::uint64_t inspection_of_shortage = 0;
        std::uint64_t walk_of_audit = 0;
        Space agreed_gap;                        // the gap when it was last seen whole, or a lower one since
        bool is_doubted = false;                 // the last walk explained too little
        bool is_clear = false;                   // the last inspection saw all its files
        int veiled_inspections = 0;              // in a row: descriptors were in flight
        base::SteadyTime veiled_at{};            // the first of those
        int failed_inspections = 0;              // in a row: it did not stand still
        std::uint64_t written_bytes = 0;         // by its processes, as of the last inspection
        std::uint64_t agreed_written_bytes = 0;  // when it was last seen whole
        std::uint64_t wrote_bytes = 0;           // between the last two inspections
        base::SteadyTime inspect_from{};         // not before
        std::uint64_t number = 0;                // of the watch: a late answer to an older watch is dropped
        std::vector<Asked> asked;                // for the next walk
        std::vector<Asked> asked_of_walk;        // for the one that goes on
        base::Millis walk_took{0};
    };
    using Entry = std::map<std::string, Watched>::iterator;
    /// Ends of a workspace for its limit in watches that began over it, or as too large, in a row.
    struct Relapses {
        int count = 0;
        DiskExcess why = DiskExcess::limit;  // of the last
        base::SteadyTime rests_until{};
    };

    void look();
    std::uint64_t look_at_disk();
    void arm(base::Millis pause);
    base::Millis next_look(std::uint64_t lost_since_last_look, base::Millis passed) const;
    double urgency(const Watched& watched, base::SteadyTime now) const;
    Entry most_urgent(base::SteadyTime now);
    void walk_most_urgent();
    bool walk_resting();
    void on_rested(const std::string& id, const base::Result<TreeSize>& result);
    void charge(const std::string& id, const base::ShareHolder& user, std::uint64_t bytes);
    std::uint64_t spared_below() const;
    bool may_begin_round(base::SteadyTime now) const;
    std::uint64_t turn_of(const base::ShareHolder& user) const;
    void take_turn(const base::ShareHolder& user);
    void walk(Entry entry);
    void inspect(Entry entry);

    void on_walked(const std::string& id, std::uint64_t number, std::uint64_t audit,
                   const base::Result<TreeSize>& result);
    void on_inspected(const std::string& id, std::uint64_t number, std::uint64_t audit,
                      base::SteadyTime began, const base::Result<Inspection>& result);
    Watched* answered(const std::string& id, std::uint64_t number, std::uint64_t audit);
    void take_size(const std::string& id, Watched& watched);
    void take_inspection(Watched& watched, const Inspection& found, base::SteadyTime began);
    std::uint64_t watched_before(const std::string& id, std::uint64_t now) const;
    void judge(const std::string& id);
    void report(const std::string& id, DiskExcess why);
    base::Millis note_relapse(const std::string& id, DiskExcess why);
    void stop_counting(const std::string& id, const Watched& watched);
    void begin_measuring(Watched& watched);
    void answer_asked(Watched& watched);
    void let_fit(Watched& watched);

    static std::uint64_t room(const Watched& watched);
    static bool fits(const Watched& watched, std::uint64_t grown_bytes, std::uint64_t bytes);
    std::uint64_t step(const Watched& watched) const;
    std::uint64_t unexplained(const Watched& watched) const;
    bool wants_inspection(const Watched& watched) const;
    bool is_suspect(const Watched& watched) const;
    void begin_audit(const Watched& watched);
    void end_audit();

    void see_shortage(const FreeSpace& space);
    void begin_round();
    bool settle_shortage();
    void settle_without_walks();
    Entry slowest_unmeasured(base::SteadyTime now);
    void end_round();
    std::uint64_t least_blame() const;
    bool is_spared(const base::ShareHolder& user, std::uint64_t spared_below) const;
    template <class Amount>
    std::vector<base::Taking> takings(std::uint64_t spared_below, Amount amount_of) const;
    base::Victims fastest(std::uint64_t spared_below) const;
    bool is_explained_by(const base::Victims& grown) const;
    Entry next_inspection_of_shortage();
    void blame_the_hidden();
    bool is_late() const;
    void stop_all_that_grew();
    void stop_for_shortage(const std::vector<std::string>& ids, DiskExcess why);

    MeterPorts ports_;
    MeterSettings settings_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();  // answers to walks that come later are dropped
    std::map<std::string, Watched> watched_;
    /// Growth while space was short of workspaces that are no longer watched. It counts for their users.
    struct Grown {
        base::ShareHolder user;
        std::uint64_t in_round = 0;
        std::uint64_t while_short = 0;
    };
    std::vector<Grown> grown_before_;
    std::map<std::string, std::uint64_t>
        found_;  // bytes, by the last walk of each workspace that is still there
    std::map<std::string, base::Share> charged_;            // the last size of each workspace
    std::map<std::string, base::ShareHolder> resting_;      // to be walked at rest
    std::string last_rested_;                               // they take turns by their ids
    bool has_rested_ = false;                               // the last walk was of one at rest
    std::unordered_map<std::string, std::uint64_t> turns_;  // the last walk of each user, by its number
    std::uint64_t last_walk_ = 0;
    std::uint64_t rested_at_walk_ = 0;
    std::map<std::string, Space> agreed_gaps_;  // of earlier watches: the bytes hidden then are still there
    std::set<std::string> over_;  // the last watch ended for the limit, and none has walked it since
    std::map<std::string, Relapses> relapses_;
    SpaceLedger ledger_;
    base::TimerId timer_ = 0;
    base::SteadyTime looked_at_{};
    std::optional<FreeSpace> space_;
    std::uint64_t lost_ = 0;  // by the file system since the start, growth only
    bool walking_ = false;
    std::string walked_id_;  // of the walk or inspection that goes on, or of the last one
    base::SteadyTime walk_began_{};
    bool is_short_ = false;
    // Rounds of walks while space is short: at the end of each the fastest is stopped.
    std::uint64_t shortage_ = 0;
    std::uint64_t judged_shortage_ = 0;
    base::SteadyTime round_began_{};
    base::SteadyTime round_ended_{};
    bool has_spared_ = false;  // the last round did
    std::uint64_t lost_before_round_ = 0;
    // At the end of a round that no growth explains, all are inspected. `in_vain`: inspections without an
    // offender.
    bool is_inspecting_all_ = false;
    std::optional<base::SteadyTime> in_vain_at_;
    std::uint64_t lost_in_vain_ = 0;
    bool told_in_vain_ = false;
    // An audit: a round of walks of all. At its end a suspect is charged with the unexplained rest.
    std::uint64_t audit_ = 0;
    bool is_auditing_ = false;
    base::SteadyTime audited_at_{};
    std::uint64_t last_number_ = 0;
};

}  // namespace atl::fs_guard
