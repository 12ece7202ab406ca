// The ports of the core, as small interfaces: their implementations live in core/isolation, bridge, cgroup,
// fs-guard and core/store; the simulation has a fake of each.
//
// Rules that hold for every port and that callers rely on:
// - single-threaded; no method blocks for a peer or a disk;
// - a callback is never called from inside the call that passes it, and is called at most once (except
//   observers);
// - after an object is destroyed none of its callbacks is called any more.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/operations.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// "memory" or "memory_pressure", the bytes held, the limit in bytes.
using MemoryWarning =
    std::function<void(std::string_view resource, std::uint64_t used_bytes, std::uint64_t limit_bytes)>;

/// The processes that run, and how many may. Threads count.
using ProcessWarning = std::function<void(std::uint32_t used, std::uint32_t limit)>;

/// A process that is in a group, or about to enter it, and waits to become a sandbox. The launcher knows what
/// it is; to everybody else it is a thing to hand over. Its destruction ends one that became nothing.
class PreparedProcess {
  public:
    virtual ~PreparedProcess() = default;
};

/// A group of processes that the kernel accounts and ends together (cgroups(7)).
class ResourceGroup {
  public:
    virtual ~ResourceGroup() = default;
    /// The folder of a cgroup v2 group for clone3(2) CLONE_INTO_CGROUP, or -1.
    virtual int clone_into_fd() const { return -1; }
    /// Where clone3(2) cannot enter the group: a process in it, another one each time. Null where none is
    /// needed. Errors: sandbox_failed.
    virtual base::Result<std::shared_ptr<PreparedProcess>> take_prepared_process() {
        return std::shared_ptr<PreparedProcess>();
    }
    /// Ends every member, frozen or not; members that fork meanwhile are caught too. Safe to repeat.
    virtual void kill() = 0;
    /// Freezes every member. `done` is called within base::k_freeze_deadline; after an error all members go
    /// on. Errors: sandbox_failed if this host cannot freeze, or a member does not stop in time. One freeze
    /// at a time.
    virtual void freeze(std::function<void(base::Result<void>)> done) = 0;
    /// Thaws every member at once; the `done` of a freeze under way is not called. Errors: sandbox_failed.
    virtual base::Result<void> thaw() = 0;
    /// Waits until the group is empty, then removes it. An error if it is not within base::k_kill_deadline:
    /// then all of this may be tried again.
    virtual void remove(std::function<void(base::Result<void>)> done) = 0;
    /// Changes the limits of the running members. If the memory in use is above the new limit, the kernel
    /// reclaims memory, and then refuses the limit (v1) or kills (v2). Errors: sandbox_failed.
    virtual base::Result<void> set_limits(const Limits& limits) = 0;
    /// Calls `on_oom` once, as soon as the kernel has killed a member for the group's memory limit.
    virtual void watch_oom(std::function<void()> on_oom) = 0;
    /// Calls `on_warning` when memory runs short, not more often than base::k_memory_warning_interval for
    /// each resource: "memory" when the members hold much of their limit, "memory_pressure" when they wait
    /// for memory. Bytes.
    virtual void watch_memory(MemoryWarning on_warning) = 0;
    /// Calls `on_warning` when the kernel has refused a process for the group's limit of processes, not more
    /// often than base::k_process_warning_interval. Never where groups do not limit processes.
    virtual void watch_processes(ProcessWarning on_warning) { (void)on_warning; }
    /// True where watch_processes() has warned and less than one in base::k_crowded_share of the limit is
    /// free now, or one in base::k_refusing_share within base::k_refusal_memory of a refusal: what is started
    /// next may fail. Free of cost before the first warning.
    virtual bool is_crowded() const { return false; }
    /// True while the kernel may have killed for the group's memory limit, and oom_kills() is to be asked
    /// whether it did. Costs nothing.
    virtual bool is_oom_suspected() const { return false; }
    /// How often the kernel killed a member for the group's memory limit.
    virtual std::uint64_t oom_kills() const = 0;
    virtual Usage usage() const = 0;
    /// Its processes now. Empty where this cannot be told.
    virtual std::vector<pid_t> members() const { return {}; }
    /// Memory that its members hold, without files that are merely cached, in about 15 us; none where the
    /// host does not account it.
    virtual std::optional<std::uint64_t> held_bytes() const { return std::nullopt; }
};

/// A group of an earlier run of this server whose processes did not die in time.
struct StaleGroup {
    std::string sandbox_id;  // empty: not known
    std::uint32_t generation = 0;
    std::vector<std::uint32_t> host_uids;  // uids of its processes, sandbox uids only
    std::unique_ptr<ResourceGroup> group;
};

class ResourceGroups {
  public:
    virtual ~ResourceGroups() = default;
    /// The groups that were found at the start and still have processes. A second call returns nothing.
    virtual std::vector<StaleGroup> take_leftovers() { return {}; }
    /// The same, to look at.
    virtual std::span<const StaleGroup> leftovers() const { return {}; }
    /// A null pointer where this host has no group to offer; an error where it should have.
    virtual base::Result<std::unique_ptr<ResourceGroup>> create(const std::string& name,
                                                                const Limits& limits) = 0;
    /// Fills in memory and cpu; processes where groups limit them.
    virtual void describe(Enforcement& enforcement) const = 0;
    /// The mechanism that freezes groups here: "cgroup2", "cgroup1" or "none". No disk access.
    virtual std::string_view freezer() const = 0;
    /// Processor time of the members of all groups together, in microseconds, with the time of members that
    /// are gone. One read. None where the host does not account it.
    virtual std::optional<std::uint64_t> cpu_usec() const { return std::nullopt; }
};

/// The sandboxes of the store of conversations, for a start: asked for one at a time, since the store may
/// have a million.
struct KnownSandboxes {
    std::uint64_t count = 0;  // of those that are not gone
    /// None if the store has none of this id; one that is gone may be named. Errors: storage_failed.
    std::function<base::Result<std::optional<Record>>(const std::string& sandbox_id)> find;
};

/// The result of a sweep: the workspaces that a start found.
struct Sweep {
    std::size_t unclaimed = 0;  // moved to the trash
    std::size_t orphans = 0;    // now, those of earlier starts with them
    std::size_t new_orphans = 0;
    std::size_t returned = 0;                  // orphans that the store knows again
    std::size_t kept = 0;                      // workspaces of the store's sandboxes, returned ones with them
    std::size_t missing = 0;                   // sandboxes of the store without a workspace
    std::vector<std::uint32_t> trash_owners;   // not to be handed out until `on_emptied`
    std::vector<std::uint32_t> orphan_owners;  // not to be handed out at all
};

/// The calls of a sweep, for a single workspace at a time: nobody holds a list of all.
struct SweepCalls {
    /// True if the store has this sandbox. An error ends the sweep before anything is done with this
    /// workspace.
    std::function<base::Result<bool>(const std::string& sandbox_id)> is_known;
    /// Once for each workspace of a sandbox that the store has. An error ends the sweep.
    std::function<base::Result<void>(const std::string& sandbox_id)> on_kept;
    /// The last byte of the trash is freed, with the first error there was.
    std::function<void(base::Result<void>)> on_emptied;
    std::uint64_t known = 0;  // how many sandboxes the store has
    std::vector<std::string>
        held_ids{};  // processes of an earlier run still use these: they stay as they are
};

/// The workspaces on disk: provisioning, metering, removal (fs-guard).
class DiskGuard {
  public:
    virtual ~DiskGuard() = default;
    /// Makes the workspace of a new sandbox, owned by `host_uid` (0: by the server), mode 0700. Until claim()
    /// a start after a crash removes it.
    virtual base::Result<std::filesystem::path> provision(const std::string& sandbox_id,
                                                          std::uint32_t host_uid) = 0;
    /// The store has a record of this sandbox: from now on no start takes its workspace for half-made.
    virtual void claim(const std::string& sandbox_id) = 0;
    /// Looks at the disk. A link or anything else in its place that is no folder is no workspace.
    virtual bool has_workspace(const std::string& sandbox_id) const = 0;
    /// Succeeds if this user may have another workspace: what it holds counts, and what it deleted until it
    /// is removed. Errors: user_share; capacity, also while the disk is short.
    virtual base::Result<void> room_for(const base::ShareHolder& user) const {
        (void)user;
        return {};
    }
    /// Succeeds if a workspace of this user that rests may be written again. Errors: user_share, where the
    /// user's workspaces hold too much.
    virtual base::Result<void> room_to_write(const base::ShareHolder& user) const {
        (void)user;
        return {};
    }
    /// A workspace that is watched has another user from now on.
    virtual void set_user(const std::string& sandbox_id, const base::ShareHolder& user) {
        (void)sandbox_id;
        (void)user;
    }
    /// After a start: this user has a workspace that rests. It is measured when there is time for that.
    virtual void measure_at_rest(const std::string& sandbox_id, const base::ShareHolder& user) {
        (void)sandbox_id;
        (void)user;
    }
    /// True while enough workspaces wait to be measured at rest: each of them takes memory.
    virtual bool is_busy_at_rest() const { return false; }
    /// True if less than the reserve is free on the disk: then nothing new should begin to write.
    virtual bool is_short() const { return false; }
    /// Where the workspace is; no look at the disk.
    virtual std::filesystem::path workspace(const std::string& sandbox_id) const = 0;
    /// Succeeds if a generation may start on the workspace now. Errors: sandbox_failed, for a while, if
    /// earlier generations have overshot its limit too often.
    virtual base::Result<void> may_start(const std::string& sandbox_id, std::uint32_t limit_mb) const {
        (void)sandbox_id;
        (void)limit_mb;
        return {};
    }
    /// While a generation lives: its workspace is measured. `on_excess` is called at most once, when it has
    /// to stop growing now, with exit class disk_limit; where the disk runs short, for what the workspaces of
    /// its `user` take together. `on_warning` when it comes near the limit.
    virtual void watch(
        const std::string& sandbox_id, const base::ShareHolder& user, std::uint32_t limit_mb,
        std::function<void(Exit)> on_excess,
        std::function<void(std::uint64_t used_bytes, std::uint64_t limit_bytes)> on_warning) = 0;
    virtual void set_limit(const std::string& sandbox_id, std::uint32_t limit_mb) = 0;
    virtual void unwatch(const std::string& sandbox_id) = 0;
    /// None before the first measurement of a living generation, unless the kernel counts.
    virtual std::optional<DiskUsage> usage(const std::string& sandbox_id) const = 0;
    /// Tells `done` if so many more bytes fit into the workspace now; none: if it is within its limit. `done`
    /// is called once, from the loop: soon where they surely fit, else after a measurement that begins later
    /// than this call. What cannot be told fits, also of a workspace that is not watched any more. Errors:
    /// disk_full.
    virtual void check_room(const std::string& sandbox_id, std::optional<std::uint64_t> bytes,
                            std::function<void(base::Result<void>)> done) = 0;
    /// The workspace is out of reach when this returns. `done` is called later, when its last byte is freed;
    /// users take turns with that. Errors: storage_failed: it is where it was, and `done` is not called.
    virtual base::Result<void> remove(const std::string& sandbox_id, const base::ShareHolder& user,
                                      std::function<void(base::Result<void>)> done) = 0;
    /// At start: begins to remove what is in the trash and what a crash left half-made, and moves every other
    /// workspace that is not known to the orphans. Errors: storage_failed, also those of `calls`; then the
    /// trash stays, and what was moved by then is where it belongs.
    virtual base::Result<Sweep> sweep(SweepCalls calls) = 0;
    /// Calls `visit` with the id of each workspace, in no order, until it returns an error; returns that.
    /// Errors: storage_failed.
    virtual base::Result<void> each_workspace(
        const std::function<base::Result<void>(const std::string& sandbox_id)>& visit) const = 0;
    /// The uid that its workspace was made for: its owner, 0 for one that is no sandbox's. None without a
    /// workspace. Looks at the disk.
    virtual std::optional<std::uint32_t> owner(const std::string& sandbox_id) const = 0;
    /// At start, while no process of the sandbox runs: its workspace becomes this uid's, with all that is in
    /// it. Waits for the disk. Errors: storage_failed; then a part may have another owner than the rest.
    virtual base::Result<void> give_to(const std::string& sandbox_id, std::uint32_t host_uid) = 0;
    /// The ids of the workspaces whose owner is one of these. Errors: storage_failed.
    virtual base::Result<std::vector<std::string>> owned_by(
        const std::vector<std::uint32_t>& host_uids) const = 0;
    /// Fills in disk: of this workspace, or with an empty id of one that would be made now.
    virtual void describe(Enforcement& enforcement, const std::string& sandbox_id) const = 0;
};

/// Everything a generation is started with.
struct LaunchSpec {
    std::string sandbox_id;
    std::uint32_t generation = 0;
    std::uint32_t host_uid = 0;
    std::filesystem::path workspace;  // empty: none, an empty read-only folder is in its place
    std::optional<std::filesystem::path> agent_dir;
    bool has_agent_program = false;  // base::k_inner_agent is shown
    Environment env;                 // complete: the launcher adds nothing
    NetworkMode network = NetworkMode::none;
    Limits limits;
    std::string issuer{};  // PEM: a certificate that programs inside trust beside the host's; empty: none
};

/// A connection of the server to a port of a sandbox's own loopback. It counts as the server's as long as
/// `counted` lives: not among the sandbox's sockets.
struct InnerSocket {
    base::UniqueFd fd;  // TCP, non-blocking; it may still be connecting
    std::shared_ptr<const void> counted;
};

/// A listener of the server on a sandbox's own loopback.
struct InnerListener {
    InnerSocket socket;  // listening, non-blocking
    /// Counts one more socket as the server's as long as the result lives: for each that is accepted. May be
    /// called after the end of the process.
    std::function<std::shared_ptr<const void>()> count;
};

/// A started generation: its processes and its listening bridge socket.
class Process {
  public:
    /// Kills the processes that still run, without waiting.
    virtual ~Process() = default;
    /// A path that connect(2) takes, valid as long as this object lives; at most 107 bytes.
    virtual const std::string& bridge_path() const = 0;
    virtual pid_t pid() const = 0;
    virtual void terminate() = 0;  // SIGTERM
    virtual void kill() = 0;       // SIGKILL to all processes
    /// The last output of bwrap, the guest and the agent on stderr: hostile text, not escaped.
    virtual std::string log_tail() const = 0;
    /// From now on `on_text` gets the output, piece by piece as it is read; all of it before `on_exit`. A
    /// process without a log never calls it.
    virtual void on_log(std::function<void(std::string_view)>) {}
    /// The number of sockets inside, of every family, in about 2 us; none if the net namespace is not the
    /// sandbox's own, or cannot be read.
    virtual std::optional<std::uint32_t> sockets() const { return std::nullopt; }
    /// The sockets of the server inside that it closed within base::k_closed_socket_stays. The kernel may
    /// still have them, and sockets() counts those then.
    virtual std::uint32_t closed_lately() const { return 0; }
    /// A connection to a port inside. Errors: no_listener; sandbox_gone; host_unsupported, where the server
    /// cannot make sockets there, or the net namespace is not the sandbox's own.
    virtual base::Result<InnerSocket> connect(std::uint16_t port) {
        (void)port;
        return base::Error(base::Errc::host_unsupported);
    }
    /// True if connect() may be called now. A server that is not root may have to make sockets first.
    virtual bool can_connect() const { return true; }
    /// Calls `ready` once, from the loop, when it is worth to ask can_connect() again: also when the process
    /// has ended, and after the end of this object.
    virtual void await_connect(std::function<void()> ready) { (void)ready; }
    /// Listens on 127.0.0.1:`port` inside as soon as process 1 is known, before it can have started a
    /// program. `done` is not called once the process has ended. One at a time. Errors: as connect(), but for
    /// no_listener; capacity.
    virtual void listen(std::uint16_t port, std::function<void(base::Result<InnerListener>)> done) {
        (void)port;
        (void)done;
    }
    /// The number of AF_NETLINK sockets among them, in about 30 us.
    virtual std::optional<std::uint32_t> netlink_sockets() const { return std::nullopt; }
};

class Launcher {
  public:
    virtual ~Launcher() = default;
    /// Starts a generation. `group` may be null and must live until `on_exit`. `on_exit` is called when every
    /// process of it is gone, with exit class exited, signalled or setup_failed as the kernel tells it.
    virtual base::Result<std::unique_ptr<Process>> launch(const LaunchSpec& spec, ResourceGroup* group,
                                                          std::function<void(Exit)> on_exit) = 0;
    /// Fills in filesystem, network, syscalls and uid.
    virtual void describe(Enforcement& enforcement, NetworkMode network) const = 0;
};

/// The proxies of sandboxes with network mode `egress`, each at a listener inside its sandbox.
class Egress {
  public:
    virtual ~Egress() = default;
    /// Succeeds if a sandbox may have these settings. Errors: invalid_field; network_not_allowed (a ceiling).
    virtual base::Result<void> check(const EgressSettings& settings) const = 0;
    /// Checks the settings of a generation that is to start. They passed check() once, perhaps in an earlier
    /// run of the server, whose operator allowed more. Errors: those of check().
    virtual base::Result<void> check_start(const EgressSettings& settings) const {
        (void)settings;
        return {};
    }
    /// Makes the issuer that a generation about to start trusts; gives its certificate as PEM. It is
    /// forgotten at close(). Errors: internal.
    virtual base::Result<std::string> make_issuer(const std::string& sandbox_id) = 0;
    /// Serves a living generation at `listener` until close(). After make_issuer().
    virtual void open(const std::string& sandbox_id, const EgressSettings& settings,
                      InnerListener listener) = 0;
    /// Serves its routes, too, and those of `defaults` whose names it does not have. After open().
    virtual void open_routes(const std::string& sandbox_id, const EgressSettings& settings,
                             const std::vector<EgressRoute>& defaults, InnerListener listener) = 0;
    /// From now on these settings count; what is open against them is cut. With another mode than egress
    /// nothing is let through until the next change. Ignores a sandbox that is not served.
    virtual void change(const std::string& sandbox_id, const NetworkSettings& network) = 0;
    /// Cuts all that is open, and forgets the sandbox. Ignores one that is not served.
    virtual void close(const std::string& sandbox_id) = 0;
};

/// Hands out the host uids of sandboxes; 0 for every sandbox where the server is not root.
class UidLeases {
  public:
    virtual ~UidLeases() = default;
    virtual base::Result<std::uint32_t> acquire() = 0;
    /// At start: `host_uid` is in use by a sandbox. In use until it was released as often as it was
    /// adopted. False: another server of this host leases it; then the sandbox must get another one.
    virtual bool adopt(std::uint32_t host_uid) = 0;
    /// The caller has seen the last file of this uid removed.
    virtual void release(std::uint32_t host_uid) = 0;
    /// At start: files of these uids are still being removed. None of them is handed out until
    /// lift_quarantine(), whoever releases them meanwhile.
    virtual void quarantine(const std::vector<std::uint32_t>& host_uids) { (void)host_uids; }
    virtual void lift_quarantine() {}
    /// At start: files of these uids stay on the disk without a sandbox, or processes with them do not die.
    /// None of them is handed out in this run.
    virtual void hold(const std::vector<std::uint32_t>& host_uids) { (void)host_uids; }
};

/// An event as an agent wrote it, checked by the host's end of the bridge.
struct AgentEvent {
    std::string_view name;  // one of the names an agent may write
    std::string_view data;  // the text of a JSON object: valid, UTF-8, within k_max_event_depth, one line
};

/// Why a query's stream ended.
enum class QueryEnd : std::uint8_t {
    done,            // the agent said `done`
    closed,          // the guest closed it before `done`
    protocol_error,  // the guest broke the protocol
    connect_failed,  // the guest could not be reached
};

class QueryObserver {
  public:
    virtual ~QueryObserver() = default;
    /// Views are valid during the call only.
    virtual void on_event(const AgentEvent& event) = 0;
    /// A line that was refused; the stream goes on. `what` says why, quotes it and lists what is allowed:
    /// UTF-8, bounded, not escaped.
    virtual void on_bad_line(std::string_view what) = 0;
    /// Last call of a stream.
    virtual void on_end(QueryEnd end, std::string_view detail) = 0;
    /// True while this turn's output is only counted: the stream is then read slowly.
    virtual bool truncated() const = 0;
    /// True while the channel should stop reading: earlier events are not committed yet. Ask again after a
    /// pause; meanwhile the kernel blocks the guest's writes.
    virtual bool congested() const { return false; }
};

/// An open turn on the bridge. Destroying it closes the stream, which cancels a turn that still runs.
class Query {
  public:
    virtual ~Query() = default;
};

/// The TCP ports of the sandbox's own loopback that are listened on: all of them, at most
/// base::k_max_told_ports, from the smallest to the largest, without those that are the server's own.
using OnPorts = std::function<void(std::vector<std::uint16_t> ports)>;

/// The host's end of one generation's bridge.
class Channel {
  public:
    virtual ~Channel() = default;
    /// Connects, starts the agent and waits until it is ready, at most AgentSpec::start_timeout; with
    /// kind none waits for the guest alone. `on_ready` once: success, agent_failed where the guest answers
    /// but the agent cannot start, or another error; if it succeeded, `on_agent_exit` once for each agent
    /// that became ready, when it ends or when the control stream breaks.
    virtual void start(const AgentSpec& agent, std::function<void(base::Result<void>)> on_ready,
                       std::function<void(std::string detail)> on_agent_exit) = 0;
    /// Before start(): from then on `on_ports` is called when they change, a few times a second at most. The
    /// sandbox tells them: it may say what is not so. Precondition: it has a net namespace of its own.
    virtual void watch_ports(OnPorts on_ports) { (void)on_ports; }
    /// Before start(): from then on `lost` is called once, in place of an `on_agent_exit`, if the control
    /// stream of a guest that was ready breaks. Then the guest has ended, or does something that no guest
    /// does.
    virtual void on_lost(std::function<void(std::string detail)> lost) { (void)lost; }
    /// After a good start(): starts an agent where none runs, because the start was of kind none or the last
    /// agent ended (on_agent_exit has told it). `done` once, within AgentSpec::start_timeout: success,
    /// and the agent takes queries; agent_failed with the reason, also while an agent runs or starts, and
    /// another attempt may follow; bridge_failed or deadline_exceeded, and whether an agent runs is not
    /// known: end the generation. Precondition: the kind is not none.
    virtual void start_agent(const AgentSpec& agent, std::function<void(base::Result<void>)> done) = 0;
    /// `options` is the text of a JSON object. `observer` must outlive the Query.
    virtual std::unique_ptr<Query> query(std::string_view turn, std::string_view prompt,
                                         std::string_view options, QueryObserver& observer) = 0;
    /// The next query begins by ending the processes that earlier turns left running. The guest does that
    /// also unasked, when it cannot start a process for a turn.
    virtual void end_stray_processes() {}
    virtual void interrupt(std::string_view turn, std::function<void(base::Result<void>)> done) = 0;
    /// Answers a permission that the agent of this turn asked for; without an option it is cancelled.
    virtual void permit(std::string_view turn, std::string_view id, std::string_view option_id,
                        std::function<void(base::Result<void>)> done) = 0;
    /// Asks the guest to end the agent and itself.
    virtual void shutdown(std::function<void(base::Result<void>)> done) = 0;
};

class Channels {
  public:
    virtual ~Channels() = default;
    /// The channel of `process`, which must outlive it.
    virtual std::unique_ptr<Channel> open(const std::string& sandbox_id, const Process& process) = 0;
    /// The operations inside `process` beside its channel. `process` must outlive it, but not what it makes.
    virtual std::unique_ptr<Operations> open_operations(const Process& process) = 0;
};

}  // namespace atl::sandbox
