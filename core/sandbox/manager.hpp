// All sandboxes of this server and the life of each: workspace, group, process, channel, and the orderly end
// of all of them. Drives one GenerationMachine (machine.hpp) a running generation and performs its actions
// through the ports. Writes nothing to the conversations' store: the caller does. Keeps the node's store.
//
// Invariants: a sandbox has at most one living generation; its uid is released only after its workspace is
// gone, and the workspace is removed only after the last process; the node's store has the uid of each
// workspace, and a uid that it names is not handed out again; every start is answered once; every
// generation that was ready is reported to the observer once when it has ended. A generation whose processes
// do not die in time has ended for clients (`lost`), but it keeps its place, its memory, uid and workspace
// until they are dead (unkillable_list.hpp).
//
// Not here: conversations, turns, the rights of a client.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/victims.hpp"
#include "core/sandbox/host_memory_watch.hpp"
#include "core/sandbox/machine.hpp"
#include "core/sandbox/node_store.hpp"
#include "core/sandbox/ports.hpp"
#include "core/sandbox/reservation.hpp"
#include "core/sandbox/sandbox_logs.hpp"
#include "core/sandbox/socket_watch.hpp"
#include "core/sandbox/stats.hpp"
#include "core/sandbox/types.hpp"
#include "core/sandbox/unkillable_list.hpp"

namespace atl::sandbox {

/// The ports of the manager; all of them outlive it.
struct ManagerPorts {
    const base::Clock& clock;
    base::Timers& timers;
    Launcher& launcher;
    ResourceGroups& groups;
    DiskGuard& disk;
    Channels& channels;
    UidLeases& uids;
    NodeStore& node;
    std::function<std::optional<HostMemory>()> host_memory{};  // may be empty: not known
};

struct ManagerSettings {
    std::size_t max_sandboxes = base::k_default_max_sandboxes;         // living generations
    std::uint64_t max_memory_mb = 0;                                   // of the limits of all; 0: no bound
    unsigned user_share_percent = base::k_default_user_share_percent;  // of the places
    double memory_reserve = 0;  // of the host's memory, left available; 0: none
    Environment host_env;       // the allow-list as found on the host (env_policy.hpp)
    Limits default_limits;      // of a sandbox whose request names none
};

/// Told of every generation that was ready and is gone, after its processes are, or after the deadline for
/// that.
class Observer {
  public:
    virtual ~Observer() = default;
    virtual void on_sandbox_exit(const std::string& sandbox_id, std::uint32_t generation,
                                 const Exit& exit) = 0;
    /// Memory or disk comes near its limit, both in bytes; or a process was refused for theirs, in processes.
    virtual void on_resource_warning(const std::string& sandbox_id, std::string_view resource,
                                     std::uint64_t used, std::uint64_t limit) = 0;
    /// The agent of a ready generation ended; the generation still lives.
    virtual void on_agent_exit(const std::string& sandbox_id, std::uint32_t generation,
                               const std::string& detail) = 0;
    /// Manager::ports() of a living generation have changed.
    virtual void on_ports(const std::string& sandbox_id) { (void)sandbox_id; }
    /// A generation has ended, ready or not, or the processes of a lost generation have died: there may be
    /// room for another.
    virtual void on_capacity(const std::string& sandbox_id) { (void)sandbox_id; }
    /// Told inside a step of the sandbox: nothing here may act on it. What watches of its files there are end
    /// before this returns, unless it is ready or frozen.
    virtual void on_status(const std::string& sandbox_id, Status status) {
        (void)sandbox_id;
        (void)status;
    }
    /// Its preview's settings have changed, or the sandbox freezes or ends. The rules of on_status() hold.
    virtual void on_preview(const std::string& sandbox_id, const PreviewSettings& preview) {
        (void)sandbox_id;
        (void)preview;
    }
    /// Its removal begins. As on_status().
    virtual void on_removal(const std::string& sandbox_id) { (void)sandbox_id; }
    /// The host is short of memory: begins to end a sandbox that can be spared, and names it. None: nothing
    /// can be spared.
    virtual std::optional<std::string> pick_victim() { return std::nullopt; }
};

// The records of the manager, in manager_parts.hpp.
struct ManagedGeneration;
struct ManagedSandbox;
struct PendingRemoval;

class Manager {
  public:
    using Ready = std::function<void(base::Result<void>)>;
    using Done = std::function<void()>;

    Manager(ManagerPorts ports, ManagerSettings settings);
    ~Manager();
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Starts to watch the host's memory, also while nothing starts. Below the reserve a sandbox that can be
    /// spared is ended, as may_spare() says; below half of the reserve the user who holds most loses the
    /// largest sandbox (exit class oom).
    /// Does nothing without a reserve.
    void watch_host_memory();
    /// Set before the first sandbox is made; must outlive the manager's last callback.
    void set_observer(Observer* observer) { observer_ = observer; }

    /// Serves sandboxes with network mode `egress`; without it they do not start. Set before the first
    /// sandbox is started; must outlive the last one.
    void set_egress(Egress* egress) { egress_ = egress; }
    /// Succeeds if this network is allowed. Errors: network_not_allowed, invalid_field, host_unsupported.
    base::Result<void> check_network(NetworkMode mode, const EgressSettings& egress) const;

    /// Succeeds if a generation may start now. A frozen generation counts like a running one: it may be
    /// thawed at any time. `spared`: as if so much of what is nobody's yet were gone. Errors: user_share,
    /// capacity, shutting_down.
    base::Result<void> room_for(const Demand& demand, const Places& spared = {}) const;
    /// The places that users hold, and the memory limits in MB. The total of these is 0 where they have no
    /// bound.
    const base::Budget& places() const noexcept { return places_; }
    const base::Budget& memory() const noexcept { return memory_; }
    /// Adds those that have a bound.
    void list_budgets(std::vector<const base::Budget*>& all) const;
    /// True if the share of its user has room for it, or will have when so much of that user's own is gone.
    bool has_share(const Demand& demand, const Places& given_back = {}) const;
    /// Gives a sandbox that is nobody's to a user, with its place and memory. Cannot fail where has_share().
    /// Precondition: the sandbox is known. Errors: user_share, capacity.
    base::Result<void> give_to(const std::string& id, const base::ShareHolder& holder);
    /// True if the host has less memory left than the reserve. A sandbox that has no user yet does not start
    /// then, nor one of a user whose sandboxes hold more than that user's share of the memory; below half of
    /// the reserve nothing starts.
    bool is_host_short() const;
    /// Compares users: the larger one has more of what is short. That is the host's memory while it is short,
    /// otherwise places or memory limits, whichever the user has the larger part of.
    double part_held(const base::ShareHolder& holder) const;
    /// True if an idle sandbox of this user may be ended for others. While the host is short of memory,
    /// those of users within their share of it are kept if another user is beyond.
    bool may_spare(const base::ShareHolder& holder) const;
    /// Succeeds if a sandbox may have these limits from now on; without a living generation, if it could ever
    /// start with them. Errors: user_share, capacity.
    base::Result<void> room_to_grow(const std::string& id, const Limits& limits) const;
    const Limits& default_limits() const noexcept { return settings_.default_limits; }
    /// Keeps a place for a start, whether there is one or not: room_for() others is less until this ends.
    /// Null: its user has all that one may have.
    std::unique_ptr<Reservation> reserve(const Demand& demand);
    /// How many sandboxes are worth evicting for a start with these limits that finds no room.
    std::size_t worth_evicting(const Limits& limits) const;
    /// True if the disk has too little room for another workspace to grow.
    bool is_disk_short() const { return ports_.disk.is_short(); }
    /// Succeeds if this owner may have another workspace. Errors: user_share, capacity.
    base::Result<void> room_for_files(const std::optional<std::string>& owner) const {
        return ports_.disk.room_for(base::ShareHolder::owner(owner, ""));
    }
    /// Succeeds if a sandbox at rest with this record may run again, for the files that its user holds.
    /// Errors: user_share.
    base::Result<void> room_to_write(const Record& record) const {
        return ports_.disk.room_to_write(user_of(record));
    }
    /// DiskGuard::measure_at_rest().
    void measure_at_rest(const std::string& id, const std::string& user_id) {
        ports_.disk.measure_at_rest(id, base::ShareHolder::user(user_id));
    }
    /// DiskGuard::is_busy_at_rest().
    bool is_busy_at_rest() const { return ports_.disk.is_busy_at_rest(); }
    /// Makes a sandbox: id, uid, workspace. Nothing runs yet. Takes one commit of the node's store. Errors:
    /// storage_failed, shutting_down; capacity where no uid is left.
    base::Result<Record> create(Record wanted);
    /// Makes a sandbox for one program: nothing of it is in a store or on the disk, so a crash leaves nothing
    /// to be found again. It has no workspace, and of the host's variables PATH and LANG alone. Its end is
    /// told to `on_exit`, once, where the observer would be told; remove() it then. Errors: shutting_down;
    /// capacity where no uid is left.
    base::Result<std::string> create_ephemeral(const Demand& demand,
                                               std::function<void(const Exit&)> on_exit);
    /// Call once the store has the record of a sandbox that create() made: its workspace then outlives a
    /// crash.
    void claim(const std::string& id);
    /// At start, before the first adopt(): workspaces, uids and processes that an earlier run left
    /// (start_sweep.hpp). `known`: the sandboxes of the store; those that are not gone count as terminated.
    /// Returns how many workspaces no record names. Errors: storage_failed.
    base::Result<std::size_t> take_over(const KnownSandboxes& known);
    /// Takes over a sandbox that take_over() knew, or that release() let go. It has no running processes,
    /// except what take_over() found. One read of the node's store; while that fails, it does not start.
    void adopt(Record record);
    /// Lets go of a sandbox that does not live: its workspace and its uid stay, and adopt() takes it over
    /// again. Precondition: no generation lives, and it is not being removed.
    void release(const std::string& id);

    /// Starts the next generation. `ready` is called once, from the loop: success, agent_failed, or
    /// sandbox_failed (with a detail that says why and holds the log's tail, also while processes of the last
    /// generation have not died), user_share, capacity, shutting_down; on an error nothing of the generation
    /// is left, or it is on the list of undying(). Precondition: no generation lives.
    void start(const std::string& id, const AgentSpec& agent, Ready ready);
    /// Ends the living generation in the steps of design.md section 3, then calls `done`; with none living,
    /// calls it from the loop. The exit's class is `why`.
    void stop(const std::string& id, ExitClass why, std::string detail, Done done);
    /// True if this host can freeze the living generation, and it is ready.
    bool can_freeze(const std::string& id) const;
    /// Freezes a ready generation: its processes stay and use no processor. `frozen` is called once, from the
    /// loop: success, or sandbox_failed, and the generation goes on. `frozen` is not called if the generation
    /// ends, is stopped or thawed before. Precondition: can_freeze().
    void freeze(const std::string& id, Ready frozen);
    /// Thaws a frozen generation at once, and ends it if it cannot be thawed.
    void thaw(const std::string& id);
    /// Stops a sandbox for an inspection of its files, without a change of its status. `done` is called once,
    /// from the loop, when none of its processes runs; sandbox_failed if it cannot be stopped. `done` is not
    /// called if the sandbox ends or is stopped, frozen or thawed before: that has priority and ends the
    /// hold.
    void hold_still(const std::string& id, Ready done);
    /// Ends a hold. True if it stood still from the answer until now.
    bool end_hold(const std::string& id);
    /// The first process of the living generation; none without one.
    std::optional<pid_t> process(const std::string& id) const;
    /// All processes of the living generation, from its group; empty without a group.
    std::vector<pid_t> members(const std::string& id) const;
    /// Ends it, removes the workspace and releases the uid. The id is unknown at once. `gone` is called when
    /// all is done: only then may the store forget the sandbox. `answered` is called when its processes are
    /// gone and no path leads to its files, or after base::k_removal_answer_deadline if that is sooner: then
    /// only the disk or the kernel has work left. If the workspace cannot be removed, `gone` is not called:
    /// the next start tries again, for which the store keeps the record.
    void remove(const std::string& id, Done answered, Done gone = nullptr);
    /// Refuses new starts, ends every generation, then calls `done`. Workspaces stay. Processes that do not
    /// die are left to the next start, which kills them first.
    void shut_down(Done done);

    /// How the living generation ends, if it ends for a limit. If the kernel killed a process of the
    /// generation for its memory limit, this call ends the generation. A caller that sees a broken stream
    /// calls this first, since the kernel's event may come later.
    std::optional<Exit> limit_reached(const std::string& id);
    /// True if limit_reached() may give an exit: cheap enough to be asked at the end of each turn.
    bool is_limit_suspected(const std::string& id) const;
    /// True if its processes have met their limit and hardly one more has room, so that the next program may
    /// fail to start. Cheap enough to be asked at the start of each turn.
    bool is_crowded(const std::string& id) const;
    /// True from when a generation that was ready is being ended until it is gone.
    bool is_ending(const std::string& id) const;
    /// How the generation ends or has just ended, where is_ending(); but for the code.
    std::optional<Exit> known_end(const std::string& id) const;
    /// The same, and also of the last generation in this run of the server, until the next one begins.
    std::optional<Exit> last_end(const std::string& id) const;

    /// Null for one that is being removed.
    const Record* find(const std::string& id) const;
    bool is_being_removed(const std::string& id) const;
    /// Sets the limits of the next generation, and those of a living one where the kernel allows it: a memory
    /// limit can be raised but not lowered.
    /// Precondition: the sandbox is known. Errors: sandbox_failed: the kernel refused them, and the living
    /// generation keeps the memory, processor time and processes that it had; the next one has the new ones.
    base::Result<void> set_limits(const std::string& id, const Limits& limits);
    /// Kept in the record. The caller ends the sandbox when its time is over.
    void set_fields(const std::string& id, const ClientFields& fields);
    /// From the next call of a tool on. Kept in the record.
    void set_tools(const std::string& id, const ToolSettings& tools);
    /// From now on, and tells the observer of a change; does nothing for a sandbox that is not known.
    void set_preview(const std::string& id, const PreviewSettings& preview);
    /// The mode counts from the next generation on, the rest at once. Does nothing for a sandbox that is not
    /// known.
    void set_network(const std::string& id, const NetworkSettings& network);
    /// The network mode of the living generation, else of the next.
    NetworkMode network(const Record& record) const;
    /// The usage of the living generation, empty without one; only sockets if this host does not account.
    Usage usage(const std::string& id) const;
    /// The disk usage that was measured last; none without a living generation.
    std::optional<DiskUsage> disk_usage(const std::string& id) const;
    /// Calls DiskGuard::check_room().
    void check_room(const std::string& id, std::optional<std::uint64_t> bytes,
                    std::function<void(base::Result<void>)> done);
    /// Null unless the sandbox is ready. Valid until control returns to the loop.
    Channel* channel(const std::string& id);
    /// A connection to a port inside a sandbox that is ready and not frozen. Errors: those of
    /// Process::connect; capacity, while the sandbox has almost all of its sockets.
    base::Result<InnerSocket> connect(const std::string& id, std::uint16_t port);
    /// Before connect(), as Process::can_connect() and await_connect(). True for a sandbox that does not run.
    bool can_connect(const std::string& id) const;
    /// Precondition: !can_connect().
    void await_connect(const std::string& id, std::function<void()> ready);
    /// The ports that are listened on in the living generation, as it told them last (Channel::watch_ports).
    std::vector<std::uint16_t> ports(const std::string& id) const;
    /// Has the lifetime of channel(). What it makes may outlive the generation (operations.hpp).
    Operations* operations(const std::string& id);
    Status status(const std::string& id) const;
    /// The enforcement for this sandbox or, with an empty id, for a sandbox that would be made now.
    Enforcement enforcement(NetworkMode network, const std::string& id = {}) const;
    /// Includes the generations of undying().
    std::size_t living() const noexcept { return living_; }
    /// Generations whose processes did not die in time, the oldest first.
    std::vector<Unkillable> undying(std::size_t most) const { return undying_.list(most); }
    std::size_t undying_count() const noexcept { return undying_.size(); }
    /// The mechanism that freezes sandboxes on this host, as ResourceGroups::freezer().
    std::string_view freezer() const { return ports_.groups.freezer(); }
    /// The memory limits of all living generations together.
    std::uint64_t committed_memory_mb() const noexcept { return committed_mb_; }
    std::size_t capacity() const noexcept { return settings_.max_sandboxes; }
    std::uint64_t memory_capacity_mb() const noexcept { return settings_.max_memory_mb; }
    const Stats& stats() const noexcept { return stats_; }
    /// Logs of the present sandboxes and of some that are gone.
    const SandboxLogs& logs() const noexcept { return logs_; }
    /// A note of the server in the log of the living generation; does nothing without one.
    void note(const std::string& id, std::string text);
    /// Forgets the log of a sandbox that is removed.
    void drop_log(const std::string& id) { logs_.drop(id); }
    /// SandboxLogs::leave() of a sandbox that is being removed, and drop_of().
    void leave_log(const std::string& id, const std::string& user_id) { logs_.leave(id, user_id); }
    void drop_logs_of(const std::string& user_id) { logs_.drop_of(user_id); }
    /// The memory limit of the living generation, which may be above that of the next; none without one.
    std::optional<std::uint32_t> memory_limit_mb(const std::string& id) const;

  private:
    using Generation = ManagedGeneration;
    using Sandbox = ManagedSandbox;
    using Removal = PendingRemoval;
    // The search for the users who hold most of the host's memory.
    struct Search {
        Shortage shortage{};
        HostMemory memory;
        std::string at;                  // the last sandbox that the search has looked at
        std::vector<base::Taking> held;  // without an owner, a sandbox is a user of its own
        std::unordered_map<std::string, std::uint64_t> by_holder;  // as Record::holder
    };

    void hold(std::vector<StaleGroup> leftovers);
    void release_uid(Sandbox& sandbox);
    bool has_undying(const Sandbox& sandbox) const;
    Sandbox* lookup(const std::string& id) const;
    Generation* lookup(const std::string& id, std::uint32_t generation) const;
    Sandbox& enlist(Sandbox made);
    base::Result<void> find_host_uid(Sandbox& sandbox) const;
    void set_status(Sandbox& sandbox, Status status);
    base::Result<void> launch(Sandbox& sandbox, const AgentSpec& agent);
    void watch_memory(Sandbox& sandbox);
    void watch_processes(Sandbox& sandbox);
    void watch_disk(Sandbox& sandbox);
    void watch_sockets(Sandbox& sandbox);
    void on_socket_excess(const std::string& id, const SocketExcess& excess);
    base::Result<void> room_in_memory(const std::optional<base::ShareHolder>& holder,
                                      std::uint64_t more_mb) const;
    base::Result<void> room_on_host(const std::optional<base::ShareHolder>& holder) const;
    base::Result<PlaceShares> take_place(const std::optional<base::ShareHolder>& holder,
                                         std::uint32_t memory_mb);
    Shortage host_shortage() const;
    std::uint64_t held_of_host(const base::ShareHolder& holder) const;
    bool is_over_host_share(const base::ShareHolder& holder) const {
        return held_of_host(holder) > host_share_bytes_;
    }
    void relieve_host(Shortage shortage, const HostMemory& memory);
    void search_holders();
    void end_search();
    void evict_for_host();
    void end_victims(Search found);
    void end_for_host(Sandbox& sandbox, const HostMemory& memory, std::uint64_t held_by_user);
    static std::uint64_t weight_of(const Generation& generation);
    static Exit oom_exit(const Sandbox& sandbox, int code);
    void connect(Sandbox& sandbox, const AgentSpec& agent);
    base::Result<std::string> make_issuer(const Record& record) const;
    void open_egress(Sandbox& sandbox, const AgentSpec& agent);
    void perform(Sandbox& sandbox, const MachineStep& step);
    void arm(Sandbox& sandbox, base::Millis deadline);
    void report_ready(Sandbox& sandbox);
    void begin_freeze(Sandbox& sandbox);
    void report_frozen(Sandbox& sandbox);
    bool end_hold(Sandbox& sandbox);
    static Exit stuck_exit();
    bool thaw_group(Sandbox& sandbox);
    void clean_up(Sandbox& sandbox);
    void finish(const std::string& id, std::uint32_t generation);
    void keep_remains(Sandbox& sandbox);
    void remains_gone(const std::string& id, std::uint32_t generation, std::uint32_t memory_mb);
    void become_quiet();
    void remove_workspace(const std::string& id);
    void workspace_removed(const std::string& id, const base::Result<void>& removed);
    void removal_failed(const std::string& id, const base::Error& error);
    void answer_removals(const std::string& id);

    ManagerPorts ports_;
    ManagerSettings settings_;
    Observer* observer_ = nullptr;
    Egress* egress_ = nullptr;
    base::Budget places_;
    base::Budget memory_;
    std::unordered_map<std::string, std::unique_ptr<Sandbox>> sandboxes_;
    std::size_t living_ = 0;
    std::shared_ptr<Places> reserved_ = std::make_shared<Places>();
    std::uint64_t committed_mb_ = 0;
    Stats stats_;
    SandboxLogs logs_;
    UnkillableList undying_;
    SocketWatch sockets_;
    HostMemoryWatch host_memory_;
    std::set<std::string> alive_;  // with a living generation
    std::optional<Search> search_;
    base::TimerId search_timer_ = 0;
    // The last findings: what users hold of the host's memory, empty while it is not short, and the most that
    // one may hold of it.
    std::unordered_map<std::string, std::uint64_t> host_held_;
    std::uint64_t host_share_bytes_ = UINT64_MAX;
    bool has_excess_ = false;  // one of them holds more
    std::string victim_;
    std::optional<base::SteadyTime> last_host_search_;
    std::optional<base::SteadyTime> last_host_kill_;
    bool shutting_down_ = false;
    Done on_quiet_;
};

}  // namespace atl::sandbox
