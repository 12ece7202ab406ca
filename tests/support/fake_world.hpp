// A world in memory for the core: a clock that stands still, timers that a test fires, and a fake of every
// port. Nothing happens by itself: later work of a port is a pending completion, which the test runs in any
// order. Failures are injected by a chance that the test sets.
//
// Invariants checked here: no callback after the destruction of its object, one answer a request, one
// living process a sandbox, a workspace's uid is unique.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/store.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::test {

/// Thrown when an invariant does not hold.
class Violation : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& what) {
    if (!holds)
        throw Violation(what);
}

class FakeClock final : public base::Clock {
  public:
    base::SteadyTime steady_now() const override { return base::SteadyTime{now_}; }
    base::WallTime wall_now() const override {
        return base::WallTime{base::Millis{1'700'000'000'000} + now_ + wall_ahead_};
    }
    void advance(base::Millis by) { now_ += by; }
    /// Sets the clock as an operator or NTP does: no time passes.
    void jump_wall(base::Millis by) { wall_ahead_ += by; }

  private:
    base::Millis now_{1000};
    base::Millis wall_ahead_{0};
};

class FakeTimers final : public base::Timers {
  public:
    explicit FakeTimers(FakeClock& clock) : clock_(clock) {}
    base::TimerId arm(base::Millis delay, std::function<void()> fire) override;
    void cancel(base::TimerId id) override;
    void defer(std::function<void()> run) override { deferred_.push_back(std::move(run)); }

    /// Runs the oldest deferred call; false if there is none.
    bool run_deferred();
    /// Moves the clock to the next timer and fires it; false if there is none.
    bool fire_next();
    /// Moves the clock by so much and fires the timers that are due meanwhile, each at its time; `then` runs
    /// after each.
    void advance(base::Millis by, const std::function<void()>& then = {});
    bool idle() const { return deferred_.empty() && due_.empty(); }
    std::size_t armed() const { return due_.size(); }
    void clear();

  private:
    FakeClock& clock_;
    std::map<std::pair<base::SteadyTime, base::TimerId>, std::function<void()>> due_;
    std::deque<std::function<void()>> deferred_;
    base::TimerId last_ = 0;
};

/// The store of a server that may be killed: the next server finds only committed writes.
class FakeStore final : public conversation::Store {
  public:
    base::Result<void> commit(std::span<const conversation::Write> writes) override;
    void commit_batch(conversation::WriteBatchPtr batch, conversation::CommitDone done) override;
    base::Result<std::size_t> purge_events(std::int64_t key, std::uint64_t below_seq,
                                           std::size_t max_rows) override;
    base::Result<conversation::Snapshot> load() override;
    base::Result<std::vector<conversation::EventPtr>> read_events(std::int64_t key, std::uint64_t after,
                                                                  std::size_t limit_bytes) override;
    base::Result<conversation::TurnRecord> find_turn(std::int64_t key,
                                                     const std::string& idempotency_key) override;

    std::function<bool()> fails = [] { return false; };
    /// Of a store that is elsewhere: how its answer comes later. Empty: at once.
    std::function<void(std::function<void()>)> later;
    /// The server before it hears no answer any more; the next one is answered at once.
    void hear_of_new_server() {
        later = nullptr;
        is_busy_ = false;
    }
    std::map<std::int64_t, conversation::Record> conversations;
    std::map<std::string, sandbox::Record> sandboxes;
    std::map<std::pair<std::int64_t, std::uint64_t>, conversation::TurnRecord> turns;
    std::map<std::pair<std::int64_t, std::uint64_t>, conversation::EventPtr> events;

  private:
    void apply(const conversation::Write& write);
    bool is_busy_ = false;
    void add_unrecorded_turns(conversation::Snapshot& snapshot, std::int64_t key) const;
};

struct FakeWorld;

/// The outside view of a generation: a process that the test can end, and its agent.
struct FakeProcessState {
    std::string sandbox_id;
    std::uint32_t generation = 0;
    std::uint32_t host_uid = 0;
    bool alive = true;
    bool asked_to_die = false;
    bool is_stuck = false;  // no signal ends it
    base::SteadyTime stuck_until{};
    bool frozen = false;                               // or on its way to: nothing of it acts
    std::function<void(sandbox::Exit)> on_exit;        // empty once the Process object is gone
    std::function<void(std::string_view)> on_log;      // the same
    std::function<void(base::Result<void>)> on_ready;  // until answered
    std::function<void(base::Result<void>)> on_agent;  // until a start_agent() is answered
    std::function<void(std::string)> on_agent_exit;    // empty without an agent, and once the Channel is gone
    std::set<struct FakeQueryState*> queries;
};

struct FakeQueryState {
    sandbox::QueryObserver* observer = nullptr;  // null once the Query is gone
    bool ended = false;
    bool interrupted = false;
    std::shared_ptr<FakeProcessState> process;
};

struct FakeWorld : sandbox::Launcher,
                   sandbox::ResourceGroups,
                   sandbox::DiskGuard,
                   sandbox::Channels,
                   sandbox::UidLeases {
    explicit FakeWorld(std::uint64_t seed) : random(seed), timers(clock) {}

    /// True with this chance in a thousand.
    bool chance(unsigned per_mille) { return random() % 1000 < per_mille; }
    std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random() % count); }
    /// Something that a port does later.
    void later(std::function<void()> completion) { pending.push_back(std::move(completion)); }
    /// Runs one pending completion, whichever; false if there is none.
    bool run_pending();
    /// The server is gone: drops all callbacks. The kernel kills every process except stuck ones.
    void server_killed();

    /// Does the sweep of a start: removes workspaces that the store does not know and that have no process.
    void sweep();

    /// The process dies, its streams end.
    void process_dies(const std::shared_ptr<FakeProcessState>& process, sandbox::Exit exit);
    void end_query(FakeQueryState& query, sandbox::QueryEnd end);
    /// No signal ends the process for so long; then it dies, if it was killed.
    void gets_stuck(const std::shared_ptr<FakeProcessState>& process, base::Millis how_long);
    /// The living process in the group of this name; null if there is none.
    FakeProcessState* find_process(const std::string& group) const;

    // Launcher
    base::Result<std::unique_ptr<sandbox::Process>> launch(
        const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group,
        std::function<void(sandbox::Exit)> on_exit) override;
    void describe(sandbox::Enforcement&, sandbox::NetworkMode) const override {}
    // ResourceGroups
    std::vector<sandbox::Leftover> take_leftovers() override;
    base::Result<std::unique_ptr<sandbox::ResourceGroup>> create(const std::string& name,
                                                                 const sandbox::Limits& limits) override;
    void describe(sandbox::Enforcement&) const override {}
    std::string_view freezer() const override { return has_freezer ? "cgroup2" : "none"; }
    // DiskGuard
    void describe(sandbox::Enforcement&, const std::string&) const override {}
    base::Result<std::filesystem::path> provision(const std::string& sandbox_id,
                                                  std::uint32_t host_uid) override;
    void claim(const std::string& sandbox_id) override { unclaimed.erase(sandbox_id); }
    bool has_workspace(const std::string&) const override { return true; }
    std::filesystem::path workspace(const std::string& sandbox_id) const override;
    void remove(const std::string& sandbox_id, std::function<void(base::Result<void>)> done) override;
    void watch(const std::string& sandbox_id, std::uint32_t limit_mb,
               std::function<void(sandbox::Exit)> on_excess,
               std::function<void(std::uint64_t, std::uint64_t)> on_warning) override;
    sandbox::Sweep sweep(const std::vector<std::string>&, std::function<void(base::Result<void>)>,
                         const std::vector<std::string>&) override {
        return {};
    }
    std::vector<std::string> owned_by(const std::vector<std::uint32_t>&) const override { return {}; }
    void set_limit(const std::string&, std::uint32_t) override {}
    void unwatch(const std::string& sandbox_id) override { watched.erase(sandbox_id); }
    std::optional<sandbox::DiskUsage> usage(const std::string& sandbox_id) const override {
        return watched.contains(sandbox_id) ? disk_used : std::nullopt;
    }
    // Channels
    std::unique_ptr<sandbox::Channel> open(const std::string& sandbox_id,
                                           const sandbox::Process& process) override;
    /// All that is asked of it fails later.
    std::unique_ptr<sandbox::Operations> open_operations(const sandbox::Process& process) override;
    // UidLeases
    base::Result<std::uint32_t> acquire() override;
    void adopt(std::uint32_t host_uid) override;
    void release(std::uint32_t host_uid) override;

    void comes_loose(const std::shared_ptr<FakeProcessState>& process);

    std::mt19937_64 random;
    FakeClock clock;
    FakeTimers timers;
    FakeStore store;
    unsigned failure_per_mille = 0;
    sandbox::Usage used;                          // by every group
    std::optional<sandbox::DiskUsage> disk_used;  // by every workspace that is measured
    bool workspaces_may_be_missing = false;
    bool has_freezer = true;
    std::set<std::string> watched;  // workspaces that are measured
    std::vector<std::function<void()>> pending;
    std::map<pid_t, std::shared_ptr<FakeProcessState>> processes;  // living ones
    std::vector<std::shared_ptr<FakeQueryState>> queries;          // open ones
    std::map<std::string, std::uint32_t> workspaces;               // id -> uid
    std::set<std::string> unclaimed;                               // of those
    std::set<std::string> groups;
    std::set<std::uint32_t> uids;
    std::set<std::uint32_t> withheld;  // of processes that an earlier server left (HostUidLeases::hold)
    pid_t last_pid = 1;
    std::string measured;  // a sandbox that may be stopped without a change of status
};

}  // namespace atl::test
