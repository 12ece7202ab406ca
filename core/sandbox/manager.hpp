// All sandboxes of this server and the life of each: workspace, group, process, channel, and the orderly end
// of all of them. Drives one GenerationMachine (machine.hpp) a running generation and performs its actions
// through the ports. Writes nothing to the store: who asked for a sandbox does.
//
// Invariants: a sandbox has at most one living generation; its uid is released only after its workspace is
// gone; every start is answered once; every generation that was ready is reported to the observer once when
// it has ended.
// Not here: conversations, turns, what a client may ask for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/sandbox/log_book.hpp"
#include "core/sandbox/machine.hpp"
#include "core/sandbox/ports.hpp"
#include "core/sandbox/stats.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// What the manager works with; everything outlives it.
struct ManagerPorts {
    const base::Clock& clock;
    base::Timers& timers;
    Launcher& launcher;
    ResourceGroups& groups;
    DiskGuard& disk;
    Channels& channels;
    UidLeases& uids;
    std::function<std::optional<HostMemory>()> host_memory{};  // may be empty: not known
};

struct ManagerSettings {
    std::size_t max_sandboxes = base::k_default_max_sandboxes;  // living generations
    std::uint64_t max_memory_mb = 0;                            // of the limits of all; 0: no bound
    double memory_reserve = 0;  // of the host's memory, left available; 0: none
    Environment host_env;       // the allow-list as found on the host (env_policy.hpp)
};

/// Told of every generation that was ready and is gone, after its processes are.
class Observer {
  public:
    virtual ~Observer() = default;
    virtual void on_sandbox_exit(const std::string& sandbox_id, std::uint32_t generation,
                                 const Exit& exit) = 0;
    /// Memory or disk comes near its limit, both in bytes.
    virtual void on_resource_warning(const std::string& sandbox_id, std::string_view resource,
                                     std::uint64_t used, std::uint64_t limit) = 0;
    /// The agent of a ready generation ended; the generation still lives.
    virtual void on_agent_exit(const std::string& sandbox_id, std::uint32_t generation,
                               const std::string& detail) = 0;
    /// A generation is gone, whether it ever was ready or not: there is room for another.
    virtual void on_room(const std::string& sandbox_id) { (void)sandbox_id; }
};

class Manager {
  public:
    using Ready = std::function<void(base::Result<void>)>;
    using Done = std::function<void()>;

    Manager(ManagerPorts ports, ManagerSettings settings);
    ~Manager();
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Set before the first sandbox is made; must outlive the manager's last callback.
    void set_observer(Observer* observer) { observer_ = observer; }

    /// Whether a generation with these limits may start now. Frozen ones count like all that live: they may
    /// go on at any time. Errors: capacity, shutting_down.
    base::Result<void> room_for(const Limits& limits) const;
    /// Whether a sandbox may have these limits from now on; with none of it living, whether it could ever
    /// start with them. Errors: capacity.
    base::Result<void> room_to_grow(const std::string& id, const Limits& limits) const;
    /// How many others are worth ending for a start with these limits that finds no room.
    std::size_t worth_evicting(const Limits& limits) const;
    /// Whether the disk has too little room for another workspace to grow.
    bool is_disk_short() const { return ports_.disk.is_short(); }
    /// Makes a sandbox: id, uid, workspace. Nothing runs yet. Errors: storage_failed, shutting_down; capacity
    /// where no uid is left.
    base::Result<Record> create(Record wanted);
    /// Takes over a sandbox that the store remembers; nothing of it runs.
    void adopt(Record record);

    /// Starts the next generation. `ready` is called once, from the loop: success, or sandbox_failed
    /// (with a detail that says why and holds the log's tail), capacity, shutting_down; on an error nothing
    /// of the generation is left. Precondition: no generation lives.
    void start(const std::string& id, const AgentSpec& agent, Ready ready);
    /// Ends the living generation in the steps of design.md section 3, then calls `done`; with none living,
    /// calls it from the loop. The exit's class is `why`.
    void stop(const std::string& id, ExitClass why, std::string detail, Done done);
    /// True if this host can freeze the living generation, and it is ready.
    bool can_freeze(const std::string& id) const;
    /// Stops a ready generation where it is: its processes stay and use no processor. `frozen` is called
    /// once, from the loop: success, or sandbox_failed and it goes on; not at all if it ends, is stopped or
    /// thawed before. Precondition: can_freeze().
    void freeze(const std::string& id, Ready frozen);
    /// Lets a frozen generation go on at once; one that cannot is ended.
    void thaw(const std::string& id);
    /// Ends it, removes the workspace and gives the uid back, then calls `done`. The id is unknown at once.
    void remove(const std::string& id, Done done);
    /// Refuses new starts, ends every generation, then calls `done`. Workspaces stay.
    void shut_down(Done done);

    /// How the living generation ends, if it ends for a limit. One of which the kernel killed a process for
    /// its memory limit is ended by this: who sees a stream break asks first, since the kernel's event may
    /// come after.
    std::optional<Exit> limit_reached(const std::string& id);
    /// Whether limit_reached() may be true: cheap enough to be asked at the end of each turn.
    bool is_limit_suspected(const std::string& id) const;
    /// True from when a generation that was ready is being ended until it is gone.
    bool is_ending(const std::string& id) const;

    const Record* find(const std::string& id) const;
    /// Changes what the next generation starts with, and the limits of a living one where the kernel can at
    /// once: memory can be given but not taken.
    /// Precondition: the sandbox is known. Errors: sandbox_failed; the next generation has them all the same.
    base::Result<void> set_limits(const std::string& id, const Limits& limits);
    /// Of the living generation; empty without one, or where this host does not account.
    Usage usage(const std::string& id) const;
    /// As last measured; none without a living generation.
    std::optional<DiskUsage> disk_usage(const std::string& id) const;
    /// Null unless the sandbox is ready. Valid until control returns to the loop.
    Channel* channel(const std::string& id);
    Status status(const std::string& id) const;
    /// Of this sandbox, or with an empty id of one that would be made now.
    Enforcement enforcement(NetworkMode network, const std::string& id = {}) const;
    std::size_t living() const noexcept { return living_; }
    /// What freezes sandboxes on this host, as ResourceGroups::freezer().
    std::string_view freezer() const { return ports_.groups.freezer(); }
    /// The memory limits of all living generations together.
    std::uint64_t committed_memory_mb() const noexcept { return committed_mb_; }
    std::size_t capacity() const noexcept { return settings_.max_sandboxes; }
    std::uint64_t memory_capacity_mb() const noexcept { return settings_.max_memory_mb; }
    const Stats& stats() const noexcept { return stats_; }
    /// Of the sandboxes that are there and of some that are gone.
    const LogBook& logs() const noexcept { return logs_; }
    /// The memory limit of the living generation, which may be above that of the next; none without one.
    std::optional<std::uint32_t> memory_limit_mb(const std::string& id) const;

  private:
    struct Generation;
    struct Sandbox;

    bool is_host_short() const;
    Sandbox* lookup(const std::string& id) const;
    Generation* lookup(const std::string& id, std::uint32_t generation) const;
    Sandbox& enlist(Record record);
    void set_status(Sandbox& sandbox, Status status);
    base::Result<void> launch(Sandbox& sandbox, const AgentSpec& agent);
    void watch_memory(Sandbox& sandbox);
    void watch_disk(Sandbox& sandbox);
    static Exit oom_exit(const Sandbox& sandbox, int code);
    void connect(Sandbox& sandbox, const AgentSpec& agent);
    void perform(Sandbox& sandbox, const MachineStep& step);
    void arm(Sandbox& sandbox, base::Millis deadline);
    void report_ready(Sandbox& sandbox);
    void begin_freeze(Sandbox& sandbox);
    void report_frozen(Sandbox& sandbox);
    bool let_go_on(Sandbox& sandbox);
    void bury(Sandbox& sandbox);
    void finish(const std::string& id, std::uint32_t generation);
    void remove_workspace(const std::string& id);

    ManagerPorts ports_;
    ManagerSettings settings_;
    Observer* observer_ = nullptr;
    std::unordered_map<std::string, std::unique_ptr<Sandbox>> sandboxes_;
    std::size_t living_ = 0;
    std::uint64_t committed_mb_ = 0;
    Stats stats_;
    LogBook logs_;
    bool shutting_down_ = false;
    Done on_quiet_;
};

}  // namespace atl::sandbox
