#include "core/sandbox/manager.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/utf8.hpp"
#include "core/sandbox/env_policy.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

namespace {
std::string end_note(const Exit& exit) {
    std::string text = "ended: " + std::string(to_string(exit.exit_class));
    if (exit.code != 0)
        text += " " + std::to_string(exit.code);
    return exit.detail.empty() ? text : text + "; " + exit.detail;
}
}  // namespace

using base::Errc;
using base::Error;
using base::LogLine;
using base::Result;
namespace evt = base::evt;

Manager::Manager(ManagerPorts ports, ManagerSettings settings)
    : ports_(ports),
      settings_(std::move(settings)),
      places_(base::places_spec(settings_.max_sandboxes), settings_.user_share_percent),
      memory_(base::memory_spec(settings_.max_memory_mb), settings_.user_share_percent),
      logs_(ports.clock),
      undying_(ports.clock, ports.timers,
               [this](const std::string& id, std::uint32_t generation, std::uint32_t memory_mb) {
                   remains_gone(id, generation, memory_mb);
               }),
      sockets_(
          ports_.timers, [this] { return ports_.groups.cpu_usec(); },
          [this](const std::string& id, const SocketExcess& excess) { on_socket_excess(id, excess); }),
      host_memory_(ports_.timers, ports_.host_memory, settings_.memory_reserve,
                   [this](Shortage shortage, const HostMemory& memory) { relieve_host(shortage, memory); }) {}

Manager::~Manager() {
    ports_.timers.cancel(search_timer_);
}

Manager::Sandbox* Manager::lookup(const std::string& id) const {
    const auto found = sandboxes_.find(id);
    return found == sandboxes_.end() ? nullptr : found->second.get();
}

Manager::Generation* Manager::lookup(const std::string& id, std::uint32_t generation) const {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation || sandbox->generation->number != generation)
        return nullptr;
    return &*sandbox->generation;
}

Result<Record> Manager::create(Record wanted) {
    if (shutting_down_)
        return Error(Errc::shutting_down, "the server is stopping; try again in a moment");
    auto uid = ports_.uids.acquire();
    if (!uid)
        return uid.error();
    wanted.id = base::new_id();
    wanted.generation = 0;
    wanted.created_at = ports_.clock.wall_now();
    // The facts come before the workspace, and go after it.
    if (auto put = ports_.node.put({wanted.id, *uid}); !put) {
        ports_.uids.release(*uid);
        return put.error();
    }
    Sandbox made;
    made.record = wanted;
    made.host_uid = *uid;
    if (const auto workspace = ports_.disk.provision(wanted.id, *uid); !workspace) {
        release_uid(made);
        return workspace.error();
    }
    enlist(std::move(made));
    return wanted;
}

void Manager::claim(const std::string& id) {
    if (lookup(id) != nullptr)
        ports_.disk.claim(id);
}

Manager::Sandbox& Manager::enlist(Sandbox made) {
    auto sandbox = std::make_unique<Sandbox>(std::move(made));
    ++stats_.by_status[sandbox->status];
    const std::string id = sandbox->record.id;
    return *sandboxes_.emplace(id, std::move(sandbox)).first->second;
}

void Manager::set_status(Sandbox& sandbox, Status status) {
    --stats_.by_status[sandbox.status];
    ++stats_.by_status[status];
    sandbox.status = status;
    if (observer_ != nullptr)
        observer_->on_status(sandbox.record.id, status);
}

void Manager::adopt(Record record) {
    --stats_.by_status[Status::terminated];
    Sandbox adopted;
    adopted.record = std::move(record);
    Sandbox& sandbox = enlist(std::move(adopted));
    if (const auto found = find_host_uid(sandbox); !found)
        LogLine(evt::sandbox_cleanup)
            .field("sbx", sandbox.record.id)
            .quoted("err", found.error().detail())
            .error();
}

// The facts are there for each that had a workspace at the start. The owner of a workspace without them may
// be the uid of another sandbox by now: it was not reserved.
Result<void> Manager::find_host_uid(Sandbox& sandbox) const {
    if (sandbox.host_uid)
        return {};
    const auto facts = ports_.node.find(sandbox.record.id);
    if (!facts)
        return facts.error();
    if (!*facts && ports_.disk.owner(sandbox.record.id))
        return base::Error(
            base::Errc::storage_failed,
            "the server does not know the host uid of this sandbox, whose workspace or record was "
            "put back while it ran; restart the server");
    sandbox.host_uid = facts->value_or(0);
    return {};
}

/// True if processes of its earlier generations, or with its uid, may be left.
bool Manager::has_undying(const Sandbox& sandbox) const {
    if (undying_.size() == 0)
        return false;
    const std::string& id = sandbox.record.id;
    return undying_.holds(id, sandbox.host_uid ? *sandbox.host_uid : ports_.disk.owner(id).value_or(0));
}

void Manager::release(const std::string& id) {
    const auto node = sandboxes_.extract(id);
    if (node.empty())
        return;
    assert(!node.mapped()->generation && !node.mapped()->removing);
    set_status(*node.mapped(), Status::terminated);
}

void Manager::start(const std::string& id, const AgentSpec& agent, Ready ready) {
    const auto refuse = [&](Error error) {
        ports_.timers.defer([ready = std::move(ready), error = std::move(error)] { ready(error); });
    };
    Sandbox* sandbox = lookup(id);
    if (shutting_down_)
        return refuse(Error(Errc::shutting_down, "the server is stopping; try again in a moment"));
    if (sandbox == nullptr || sandbox->removing)
        return refuse(Error(Errc::sandbox_gone, "the sandbox has been removed"));
    // Never with another uid than its own.
    if (const auto found = find_host_uid(*sandbox); !found)
        return refuse(found.error());
    if (has_undying(*sandbox))
        return refuse(
            Error(Errc::sandbox_failed,
                  "processes of its last start have been killed and have not died yet; it can start "
                  "again when they have"));
    if (const auto may = ports_.disk.may_start(id, sandbox->record.limits.disk_mb); !may)
        return refuse(may.error());
    if (const auto room = room_for({sandbox->record.limits, sandbox->record.holder}); !room)
        return refuse(room.error());
    auto place = take_place(sandbox->record.holder, sandbox->record.limits.memory_mb);
    if (!place)
        return refuse(place.error());
    assert(!sandbox->generation);
    Generation& generation = sandbox->generation.emplace();
    generation.number = ++sandbox->record.generation;
    generation.memory_mb = sandbox->record.limits.memory_mb;
    generation.place = std::move(*place);
    generation.ready = std::move(ready);
    generation.started = ports_.clock.steady_now();
    set_status(*sandbox, Status::pending);
    ++living_;
    alive_.insert(id);
    committed_mb_ += generation.memory_mb;
    auto launched = launch(*sandbox, agent);
    if (!launched) {
        generation.start_error = launched.error();
        perform(*sandbox, generation.machine.launch_failed(launched.error().detail()));
        return;
    }
    LogLine(evt::sandbox_started)
        .field("sbx", id)
        .field("gen", generation.number)
        .field("pid", generation.process->pid())
        .debug();
    if (generation.network == NetworkMode::egress)
        open_egress(*sandbox, agent);
    else
        connect(*sandbox, agent);
}

Result<void> Manager::launch(Sandbox& sandbox, const AgentSpec& agent) {
    Generation& generation = *sandbox.generation;
    const Record& record = sandbox.record;
    if (!sandbox.is_bare && !ports_.disk.has_workspace(record.id))
        return Error(
            Errc::sandbox_failed,
            "its workspace is gone: the server's database is older than the removal of it, or it was "
            "removed or replaced by hand; the log can be read, and a new conversation can go on from there");
    auto group = ports_.groups.create(record.id + "-" + std::to_string(generation.number), record.limits);
    if (!group)
        return group.error();
    generation.group = std::move(*group);
    if (generation.group) {
        watch_memory(sandbox);
        watch_processes(sandbox);
    }
    LaunchSpec spec;
    spec.sandbox_id = record.id;
    spec.generation = generation.number;
    spec.host_uid = sandbox.host_uid.value();
    if (!sandbox.is_bare)
        spec.workspace = ports_.disk.workspace(record.id);
    spec.agent_dir = agent.dir;
    spec.has_agent_program = !agent.argv.empty() && agent.argv[0] == base::k_inner_agent;
    spec.env = sandbox.is_bare ? compose_bare_env(settings_.host_env)
                               : compose_env(settings_.host_env, record, agent.routes);
    spec.network = generation.network = record.network;
    spec.limits = record.limits;
    auto issuer = make_issuer(record);
    if (!issuer)
        return issuer.error();
    spec.issuer = std::move(*issuer);
    auto on_exit = [this, id = record.id, number = generation.number](const Exit& exit) {
        Generation* living = lookup(id, number);
        if (living == nullptr) {
            undying_.process_exited(id, number);
            return;
        }
        living->has_exited = true;
        // The kernel may have killed the whole group before its OOM event was read.
        const bool is_oom = living->group && living->group->oom_kills() > 0;
        const Exit end = is_oom ? oom_exit(*lookup(id), exit.code) : exit;
        perform(*lookup(id), living->machine.process_exited(end));
    };
    auto process = ports_.launcher.launch(spec, generation.group.get(), std::move(on_exit));
    if (!process)
        return process.error();
    generation.process = std::move(*process);
    generation.process->on_log([this, id = record.id, number = generation.number](std::string_view text) {
        logs_.write(id, number, text);
    });
    if (!sandbox.is_bare)
        watch_disk(sandbox);
    watch_sockets(sandbox);
    return {};
}

void Manager::connect(Sandbox& sandbox, const AgentSpec& agent) {
    Generation& generation = *sandbox.generation;
    const std::string id = sandbox.record.id;
    const std::uint32_t number = generation.number;
    generation.channel = ports_.channels.open(id, *generation.process);
    auto on_ready = [this, id, number](const Result<void>& result) {
        Generation* living = lookup(id, number);
        if (living == nullptr)
            return;
        if (result)
            return perform(*lookup(id), living->machine.channel_ready());
        // A generation that is being ended already keeps its first reason.
        if (result.error().code() == Errc::agent_failed &&
            living->machine.phase() == GenerationMachine::Phase::launching)
            living->start_error = Error(Errc::agent_failed);
        perform(*lookup(id), living->machine.channel_failed(result.error().detail()));
    };
    auto on_agent_exit = [this, id, number](const std::string& detail) {
        // It may have been ended for a limit: the sandbox's end then says so.
        if (lookup(id, number) != nullptr && !limit_reached(id) && observer_ != nullptr)
            observer_->on_agent_exit(id, number, detail);
    };
    generation.channel->on_lost([this, id, number](const std::string& detail) {
        if (lookup(id, number) != nullptr && !limit_reached(id))
            perform(*lookup(id), lookup(id, number)->machine.channel_lost(detail));
    });
    // The ports of a sandbox without a net namespace of its own would be the host's.
    if (has_own_net(generation.network) && !sandbox.is_bare)
        generation.channel->watch_ports([this, id, number](std::vector<std::uint16_t> ports) {
            Generation* const living = lookup(id, number);
            if (living == nullptr || living->ports == ports)
                return;
            living->ports = std::move(ports);
            if (observer_ != nullptr)
                observer_->on_ports(id);
        });
    generation.channel->start(agent, std::move(on_ready), std::move(on_agent_exit));
}

void Manager::perform(Sandbox& sandbox, const MachineStep& step) {
    Generation& generation = *sandbox.generation;
    // A hold has the lowest priority: a change of the sandbox does not wait for a measurement.
    if (step.kill || step.clean_up)
        (void)end_hold(sandbox);
    else if ((step.freeze || step.thaw || step.ask_shutdown || step.terminate) && !end_hold(sandbox))
        return perform(sandbox, generation.machine.kill(stuck_exit()));
    if (step.disarm || step.deadline.count() > 0) {
        ports_.timers.cancel(generation.timer);
        generation.timer = 0;
    }
    if (step.deadline.count() > 0)
        arm(sandbox, step.deadline);
    if (step.thaw && !thaw_group(sandbox))
        return perform(sandbox, generation.machine.kill(stuck_exit()));
    // From now on it shows that it is paused, or has ended: connect() is refused.
    const bool stops = step.freeze || step.ask_shutdown || step.terminate || step.kill;
    if (stops && observer_ != nullptr)
        observer_->on_preview(sandbox.record.id, sandbox.record.preview);
    if (step.freeze)
        begin_freeze(sandbox);
    if (step.ask_shutdown) {
        // The answer does not matter: the exit or the deadline decides.
        generation.channel->shutdown([](const Result<void>&) {});
    }
    if (step.terminate)
        generation.process->terminate();
    if (step.kill) {
        // The status `frozen` means that the sandbox can go on: a dying sandbox does not have it.
        if (sandbox.status == Status::frozen)
            set_status(sandbox, Status::ready);
        // Process 1 first: its end ends the whole pid namespace, so few members are left for the group to
        // kill.
        if (generation.process)
            generation.process->kill();
        if (generation.group)
            generation.group->kill();
    }
    if (step.report_ready)
        report_ready(sandbox);
    if (step.report_frozen)
        report_frozen(sandbox);
    if (step.clean_up)
        clean_up(sandbox);
}

void Manager::arm(Sandbox& sandbox, base::Millis deadline) {
    Generation& generation = *sandbox.generation;
    auto fire = [this, id = sandbox.record.id, number = generation.number] {
        if (Generation* living = lookup(id, number)) {
            living->timer = 0;
            perform(*lookup(id), living->machine.deadline_passed());
        }
    };
    generation.timer = ports_.timers.arm(deadline, std::move(fire));
}

void Manager::report_ready(Sandbox& sandbox) {
    Generation& generation = *sandbox.generation;
    set_status(sandbox, Status::ready);
    const auto took = ports_.clock.steady_now() - generation.started;
    stats_.start_latency.add(took);
    const auto took_ms = std::chrono::duration_cast<base::Millis>(took).count();
    logs_.note(sandbox.record.id, generation.number, "ready after " + std::to_string(took_ms) + " ms");
    LogLine(evt::sandbox_ready)
        .field("sbx", sandbox.record.id)
        .field("gen", generation.number)
        .field("dur_ms", took_ms)
        .info();
    // Last: the answer may stop or remove this very sandbox.
    Ready ready = std::move(generation.ready);
    generation.ready = nullptr;
    ready(Result<void>());
}

void Manager::begin_freeze(Sandbox& sandbox) {
    auto stands_still = [this, id = sandbox.record.id,
                         number = sandbox.generation->number](const Result<void>& result) {
        Generation* living = lookup(id, number);
        if (living == nullptr)
            return;
        if (result)
            return perform(*lookup(id), living->machine.frozen());
        perform(*lookup(id), living->machine.freeze_failed());
        if (const Ready tell = std::exchange(living->frozen, nullptr))
            tell(result.error());
    };
    sandbox.generation->group->freeze(std::move(stands_still));
}

void Manager::report_frozen(Sandbox& sandbox) {
    set_status(sandbox, Status::frozen);
    sockets_.unwatch(sandbox.record.id);  // it opens none now
    LogLine(evt::sandbox_frozen)
        .field("sbx", sandbox.record.id)
        .field("gen", sandbox.generation->number)
        .info();
    if (const Ready tell = std::exchange(sandbox.generation->frozen, nullptr))
        tell(Result<void>());
}

/// False if the kernel refuses.
bool Manager::thaw_group(Sandbox& sandbox) {
    Generation& generation = *sandbox.generation;
    generation.frozen = nullptr;
    set_status(sandbox, Status::ready);
    const auto thawed = generation.group->thaw();
    watch_sockets(sandbox);
    LogLine line(evt::sandbox_thawed);
    line.field("sbx", sandbox.record.id).field("gen", generation.number);
    if (thawed)
        line.info();
    else
        line.quoted("err", thawed.error().detail()).error();
    return thawed.has_value();
}

bool Manager::can_freeze(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    return sandbox != nullptr && sandbox->generation && sandbox->generation->group &&
           sandbox->generation->machine.phase() == GenerationMachine::Phase::ready && freezer() != "none";
}

void Manager::freeze(const std::string& id, Ready frozen) {
    assert(can_freeze(id));
    Sandbox& sandbox = *lookup(id);
    sandbox.generation->frozen = std::move(frozen);
    perform(sandbox, sandbox.generation->machine.freeze());
}

void Manager::thaw(const std::string& id) {
    Sandbox* sandbox = lookup(id);
    if (sandbox != nullptr && sandbox->generation)
        perform(*sandbox, sandbox->generation->machine.thaw());
}

void Manager::clean_up(Sandbox& sandbox) {
    Generation& generation = *sandbox.generation;
    if (generation.network == NetworkMode::egress && egress_ != nullptr)
        egress_->close(sandbox.record.id);
    if (!sandbox.is_bare)
        ports_.disk.unwatch(sandbox.record.id);
    sockets_.unwatch(sandbox.record.id);
    set_status(sandbox, generation.machine.was_ready() ? Status::terminated : Status::failed);
    auto finish_later = [this, id = sandbox.record.id, number = generation.number] {
        // Deferred: this may run inside a callback of the objects that finish() destroys.
        ports_.timers.defer([this, id, number] { finish(id, number); });
    };
    generation.remains = generation.machine.has_given_up();
    if (generation.remains || !generation.group)
        return finish_later();
    generation.group->kill();
    generation.group->remove([this, id = sandbox.record.id, number = generation.number,
                              finish_later](const Result<void>& removed) {
        if (!removed) {
            LogLine(evt::sandbox_cleanup).field("sbx", id).field("err", removed.error().detail()).error();
            lookup(id, number)->remains = true;
        }
        finish_later();
    });
}

void Manager::finish(const std::string& id, std::uint32_t number) {
    if (lookup(id, number) == nullptr)
        return;
    Sandbox& sandbox = *lookup(id);
    const bool remains = sandbox.generation->remains;
    const Exit exit = remains ? GenerationMachine::lost_exit() : sandbox.generation->machine.exit();
    sandbox.last_exit = exit;
    const bool was_ready = sandbox.generation->machine.was_ready();
    Ready ready = std::move(sandbox.generation->ready);
    std::vector<Done> waiters = std::move(sandbox.generation->waiters);
    Error start_error = sandbox.generation->start_error;
    std::string tail = sandbox.generation->process ? sandbox.generation->process->log_tail() : "";
    tail.erase(tail.find_last_not_of('\n') + 1);
    if (remains) {
        keep_remains(sandbox);
    } else {
        committed_mb_ -= sandbox.generation->memory_mb;
        --living_;
    }
    sandbox.generation.reset();
    alive_.erase(id);
    ++(was_ready ? stats_.exits[exit.exit_class] : stats_.failed_starts);
    LogLine line(was_ready ? evt::sandbox_exited : evt::sandbox_failed);
    line.field("sbx", id)
        .field("gen", number)
        .field("class", to_string(exit.exit_class))
        .field("code", exit.code);
    line.quoted("err", exit.detail);
    if (!tail.empty() && !is_own_doing(exit.exit_class))
        line.quoted("log", tail);
    line.info();
    logs_.note(id, number, end_note(exit));
    logs_.retire(id, number, user_of(sandbox.record));
    const bool removing = sandbox.removing;
    const auto bare_exit = sandbox.on_bare_exit;  // it may remove the sandbox
    if (ready) {
        if (start_error.detail().empty()) {
            std::string detail =
                is_own_doing(exit.exit_class) ? "it was stopped while it started" : exit.detail;
            if (!tail.empty())
                detail += "; its log ends: " + base::excerpt(tail, base::k_log_tail_bytes);
            start_error = Error(start_error.code(), std::move(detail));
        }
        ready(start_error);
    }
    if (was_ready && bare_exit)
        bare_exit(exit);
    else if (was_ready && observer_ != nullptr)
        observer_->on_sandbox_exit(id, number, exit);
    for (auto& waiter : waiters)
        waiter();
    if (removing && !remains)
        remove_workspace(id);
    if (observer_ != nullptr)
        observer_->on_capacity(id);
    become_quiet();
}

void Manager::stop(const std::string& id, ExitClass why, std::string detail, Done done) {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation) {
        ports_.timers.defer(std::move(done));
        return;
    }
    sandbox->generation->waiters.push_back(std::move(done));
    perform(*sandbox, sandbox->generation->machine.stop(why, std::move(detail)));
}

const Record* Manager::find(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    return sandbox == nullptr || sandbox->removing ? nullptr : &sandbox->record;
}

void Manager::set_fields(const std::string& id, const ClientFields& fields) {
    if (Sandbox* const sandbox = lookup(id))
        static_cast<ClientFields&>(sandbox->record) = fields;
}

void Manager::set_tools(const std::string& id, const ToolSettings& tools) {
    if (Sandbox* const sandbox = lookup(id))
        sandbox->record.tools = tools;
}

void Manager::set_preview(const std::string& id, const PreviewSettings& preview) {
    Sandbox* const sandbox = lookup(id);
    if (sandbox == nullptr || sandbox->record.preview == preview)
        return;
    sandbox->record.preview = preview;
    if (observer_ != nullptr)
        observer_->on_preview(id, preview);
}

bool Manager::is_being_removed(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    return sandbox != nullptr && sandbox->removing;
}

Channel* Manager::channel(const std::string& id) {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return nullptr;
    Generation& generation = *sandbox->generation;
    return generation.machine.phase() == GenerationMachine::Phase::ready ? generation.channel.get() : nullptr;
}

std::vector<std::uint16_t> Manager::ports(const std::string& id) const {
    const Sandbox* const sandbox = lookup(id);
    return sandbox != nullptr && sandbox->generation ? sandbox->generation->ports
                                                     : std::vector<std::uint16_t>();
}

Operations* Manager::operations(const std::string& id) {
    if (channel(id) == nullptr)
        return nullptr;
    Generation& generation = *lookup(id)->generation;
    if (!generation.operations)
        generation.operations = ports_.channels.open_operations(*generation.process);
    return generation.operations.get();
}

void Manager::note(const std::string& id, std::string text) {
    Sandbox* sandbox = lookup(id);
    if (sandbox != nullptr && sandbox->generation)
        logs_.note(id, sandbox->generation->number, std::move(text));
}

Status Manager::status(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    return sandbox == nullptr ? Status::terminated : sandbox->status;
}

}  // namespace atl::sandbox
