// A world in memory for the core: a clock that stands still, timers that a test fires, and a fake of every
// port. Nothing happens by itself: later work of a port is a pending completion, which the test runs in any
// order. Failures are injected by a chance that the test sets.
//
// Invariants checked here: no callback after the destruction of its object, one answer a request, one
// living process a sandbox, a workspace's uid is unique; a uid is leased to one sandbox, whose facts name it
// first, and free only when its last file is gone.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/store.hpp"
#include "core/sandbox/node_store.hpp"
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
    void commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) override;
    base::Result<conversation::Purged> purge_log(std::int64_t key, std::uint64_t below_seq,
                                                 conversation::PurgeBound bound) override;
    void load_start(conversation::ReadDone<conversation::StartState> done) override;
    void load(const std::string& id,
              conversation::ReadDone<std::optional<conversation::StoredConversation>> done) override;
    void find_conversation(
        const std::string& id,
        conversation::ReadDone<std::optional<conversation::ListedConversation>> done) override;
    void find_created(const std::string& create_key,
                      conversation::ReadDone<std::optional<conversation::CreatedBefore>> done) override;
    void list(const conversation::ListRange& range,
              conversation::ReadDone<conversation::ConversationList> done) override;
    void list_sandboxes(const conversation::SandboxRange& range,
                        conversation::ReadDone<conversation::Listed<sandbox::Record>> done) override;
    void find_sandbox(const std::string& id,
                      conversation::ReadDone<std::optional<sandbox::Record>> done) override;
    void count_open(const std::string& user_id, std::size_t limit,
                    conversation::ReadDone<std::size_t> done) override;
    void log_sizes(const conversation::LogRange& range,
                   conversation::ReadDone<conversation::Listed<conversation::LogSize>> done) override;
    void largest_logs(std::size_t limit, conversation::ReadDone<std::vector<std::string>> done) override;
    std::uint64_t log_bytes(std::int64_t key) const;
    void find_ending(bool has_ended, std::size_t limit,
                     conversation::ReadDone<std::vector<conversation::Ending>> done) override;
    void read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                     conversation::EventsRead done) override;
    void find_turn(std::int64_t key, const std::string& idempotency_key,
                   conversation::TurnFound done) override;

    std::function<bool()> fails = [] { return false; };       // a commit, which is then refused
    std::function<bool()> read_fails = [] { return false; };  // of a log
    std::function<bool()> load_fails = [] { return false; };  // of a conversation
    std::function<bool()> purge_fails = [] { return false; };
    int lists_without_room = 0;      // so many of the next ones are refused
    std::vector<std::size_t> reads;  // of logs: how many events each found
    bool is_fenced = false;
    /// Calls its argument later, as a store on another machine answers. Empty: the answer comes at once.
    std::function<void(std::function<void()>)> later;
    /// True: a read that is answered later shows the store as it is at the call; false: as at the answer.
    std::function<bool()> reads_first = [] { return true; };
    /// The server before it hears no answer any more; the next one is answered at once.
    void hear_of_new_server() {
        later = nullptr;
        is_busy_ = false;
    }
    std::map<std::int64_t, conversation::Record> conversations;
    std::map<std::string, sandbox::Record> sandboxes;
    std::map<std::pair<std::int64_t, std::uint64_t>, conversation::TurnRecord> turns;
    std::map<std::pair<std::int64_t, std::uint64_t>, conversation::EventPtr> events;
    std::map<std::pair<std::int64_t, std::uint32_t>, sandbox::ProcessSpec> processes;  // kept ones
    std::map<std::uint16_t, conversation::PreviewNumber> preview_numbers;

  private:
    conversation::CommitEnd keep(const conversation::WriteBatch& batch);
    void apply(const conversation::Write& write);
    template <class T>
    void answer(std::function<base::Result<T>()> read, std::function<void(base::Result<T>)> done);
    bool is_busy_ = false;
    conversation::Record with_log(const conversation::Record& record) const;
    const conversation::Record* find(const std::string& id) const;
    mutable std::map<std::string, std::int64_t> keys_;  // by id; tests may put rows without it
    void add_unrecorded_turns(conversation::StoredConversation& stored) const;
    /// Gives what a read found at the time of the call, at once or later.
    template <class T>
    void answer(conversation::ReadDone<T> done, T found) {
        if (!later)
            return done(std::move(found));
        later([done = std::move(done), found = std::move(found)]() mutable { done(std::move(found)); });
    }
};

/// The node's store of a server that may be killed.
class FakeNodeStore final : public sandbox::NodeStore {
  public:
    base::Result<void> put(const sandbox::HostFacts& put) override;
    base::Result<void> erase(const std::string& sandbox_id) override;
    base::Result<std::optional<std::uint32_t>> find(const std::string& sandbox_id) override;
    base::Result<void> put_all(std::span<const sandbox::HostFacts> all) override;
    base::Result<void> erase_all(std::span<const std::string> sandbox_ids) override;
    base::Result<std::vector<sandbox::HostFacts>> list(const std::string& after_id,
                                                       std::size_t limit) override;
    base::Result<std::size_t> count() override { return facts.size(); }
    bool names(std::uint32_t host_uid) const;

    std::function<bool()> fails = [] { return false; };
    std::map<std::string, std::uint32_t> facts;  // id -> uid
    std::map<std::string, std::uint32_t> older;  // the same, of an earlier moment
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
    bool frozen = false;                           // or on its way to: nothing of it acts
    std::function<void(sandbox::Exit)> on_exit;    // empty once the Process object is gone
    std::function<void(std::string_view)> on_log;  // the same
    std::function<void(base::Result<sandbox::InnerListener>)>
        on_listening;                                  // the same, and until it was told
    std::function<void(base::Result<void>)> on_ready;  // until answered
    std::function<void(base::Result<void>)> on_agent;  // until a start_agent() is answered
    std::function<void(std::string)> on_agent_exit;    // empty without an agent, and once the Channel is gone
    sandbox::OnPorts on_ports;                         // empty if not asked for, and once the Channel is gone
    std::function<void(std::string)> on_lost;          // the same, and once it was told
    std::string resume;                                // of the agent that was started last
    std::set<struct FakeQueryState*> queries;

    void loses_channel() {
        on_ready = nullptr;
        on_agent = nullptr;
        on_agent_exit = nullptr;
        on_ports = nullptr;
        on_lost = nullptr;
    }
    void is_told(const sandbox::AgentSpec& agent) {
        const bool is_program = agent.kind == sandbox::AgentSpec::Kind::command;
        require(agent.resume.empty() || is_program, "what is no program was told of turns");
        require(!is_program || generation == 1 || !agent.resume.empty(),
                "a program of a later generation was not told of it");
        require(agent.resume.size() < sandbox::k_max_resume_bytes, "a program was told too much");
        resume = agent.resume;
    }
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
    /// The later answer of a guest.
    void reply(std::function<void()> completion) {
        ++operations;
        later(std::move(completion));
    }
    /// Runs one pending completion, whichever; false if there is none.
    bool run_pending();
    /// The server is gone: drops all callbacks. The kernel kills every process except stuck ones.
    void server_killed();

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
    void describe(sandbox::Enforcement& enforcement, sandbox::NetworkMode network) const override {
        enforcement.processes = process_limit;
        if (network == sandbox::NetworkMode::egress && can_listen)
            enforcement.network = "egress";
    }
    void tell_of_listener(FakeProcessState& process) const {
        const auto tell = std::exchange(process.on_listening, nullptr);
        if (!tell || !process.alive)
            return;
        if (can_listen)
            tell(sandbox::InnerListener{});
        else
            tell(base::Error(base::Errc::host_unsupported, "no listener"));
    }
    // ResourceGroups
    std::span<const sandbox::StaleGroup> leftovers() const override { return left; }
    std::vector<sandbox::StaleGroup> take_leftovers() override { return std::exchange(left, {}); }
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
    base::Result<void> may_start(const std::string&, std::uint32_t) const override { return start_allowed; }
    base::Result<void> room_to_write(const base::ShareHolder&) const override { return writing_allowed; }
    void measure_at_rest(const std::string& sandbox_id, const base::ShareHolder&) override {
        measured_at_rest.insert(sandbox_id);
    }
    bool is_busy_at_rest() const override { return busy_at_rest; }
    std::filesystem::path workspace(const std::string& sandbox_id) const override;
    base::Result<void> remove(const std::string& sandbox_id, const base::ShareHolder& user,
                              std::function<void(base::Result<void>)> done) override;
    void watch(const std::string& sandbox_id, const base::ShareHolder& user, std::uint32_t limit_mb,
               std::function<void(sandbox::Exit)> on_excess,
               std::function<void(std::uint64_t, std::uint64_t)> on_warning) override;
    /// There are no orphans here: who loses a claimed workspace breaks an invariant.
    base::Result<sandbox::Sweep> sweep(sandbox::SweepCalls calls) override;
    base::Result<void> each_workspace(
        const std::function<base::Result<void>(const std::string&)>& visit) const override;
    std::optional<std::uint32_t> owner(const std::string& sandbox_id) const override;
    base::Result<void> give_to(const std::string& sandbox_id, std::uint32_t host_uid) override;
    base::Result<std::vector<std::string>> owned_by(
        const std::vector<std::uint32_t>& host_uids) const override;
    void set_limit(const std::string&, std::uint32_t) override {}
    void unwatch(const std::string& sandbox_id) override { watched.erase(sandbox_id); }
    std::optional<sandbox::DiskUsage> usage(const std::string& sandbox_id) const override {
        return watched.contains(sandbox_id) ? disk_used : std::nullopt;
    }
    void check_room(const std::string&, std::optional<std::uint64_t> bytes,
                    std::function<void(base::Result<void>)> done) override {
        later([done = std::move(done),
               room = disk_room ? disk_room(bytes.value_or(0)) : base::Result<void>()] { done(room); });
    }
    // Channels
    std::unique_ptr<sandbox::Channel> open(const std::string& sandbox_id,
                                           const sandbox::Process& process) override;
    /// All that is asked of it fails later.
    std::unique_ptr<sandbox::Operations> open_operations(const sandbox::Process& process) override;
    // UidLeases
    base::Result<std::uint32_t> acquire() override;
    bool adopt(std::uint32_t host_uid) override;
    void release(std::uint32_t host_uid) override;
    void quarantine(const std::vector<std::uint32_t>& host_uids) override;
    void lift_quarantine() override { quarantined.clear(); }
    void hold(const std::vector<std::uint32_t>& host_uids) override;

    /// The two stores are never of one moment: facts are lost, or older than the disk and the store, or of a
    /// sandbox that the killed server did not get to make.
    void change_facts();
    /// The node's store has the uid of each workspace of a sandbox that is there.
    void check_facts(const std::function<bool(const std::string& sandbox_id)>& is_there) const;
    /// A watched workspace is found over its limit.
    void exceed_disk(const std::string& sandbox_id, std::string detail) {
        const auto on_excess = watched.at(sandbox_id);
        on_excess({sandbox::ExitClass::disk_limit, 9, std::move(detail)});
    }
    void find_leftovers();
    bool has_files(std::uint32_t host_uid) const;
    void comes_loose(const std::shared_ptr<FakeProcessState>& process);

    std::mt19937_64 random;
    FakeClock clock;
    FakeTimers timers;
    FakeStore store;
    FakeNodeStore node;
    unsigned failure_per_mille = 0;
    std::string process_limit = "none";  // in the words of Enforcement
    std::uint64_t oom_kills = 0;         // in every group, which nobody is told of
    /// How a guest answers the start of a process; empty: with a failure.
    std::function<base::Result<pid_t>(const sandbox::ProcessSpec&)> start_process;
    sandbox::Usage used;                                               // by every group
    std::optional<sandbox::DiskUsage> disk_used;                       // by every workspace that is measured
    std::function<base::Result<void>(std::uint64_t bytes)> disk_room;  // empty: everything fits
    bool workspaces_may_be_missing = false;
    base::Result<void> start_allowed;  // by the workspaces' sizes
    std::set<std::string> measured_at_rest;
    bool busy_at_rest = false;
    base::Result<void> writing_allowed;  // by the sizes of all workspaces of a user
    bool removals_fail = false;          // of workspaces: they stay where they are
    bool removals_last = false;          // trees stay in the trash
    bool has_freezer = true;
    bool can_listen = true;                                             // inside sandboxes
    std::map<std::string, std::function<void(sandbox::Exit)>> watched;  // workspaces that are measured
    std::size_t operations = 0;                                         // that were asked of guests
    std::vector<std::function<void()>> pending;
    std::map<pid_t, std::shared_ptr<FakeProcessState>> processes;  // living ones
    std::vector<std::shared_ptr<FakeQueryState>> queries;          // open ones
    std::vector<std::pair<std::string, std::string>> permits;  // answers to agents: of which, by which option
    std::size_t lost_permits = 0;                     // so many of the next ones do not reach the guest
    std::map<std::string, std::uint32_t> workspaces;  // id -> uid
    std::set<std::uint32_t> foreign;                  // uids that another server leases
    std::set<std::string> unclaimed;                  // of those
    std::map<std::string, std::uint32_t> trash;       // the same, being removed
    std::set<std::string> groups;
    std::map<std::string, sandbox::Limits> group_limits;  // by the name of the group, also of those before
    std::uint32_t most_cpu_percent = UINT32_MAX;          // that the kernel takes of a group that is there
    std::vector<sandbox::StaleGroup> left;                // of an earlier server
    std::set<std::uint32_t> uids;
    std::set<std::uint32_t> withheld;     // of processes that an earlier server left, by hold()
    std::set<std::uint32_t> quarantined;  // of its trash
    pid_t last_pid = 1;
    std::string measured;  // a sandbox that may be stopped without a change of status
};

}  // namespace atl::test
