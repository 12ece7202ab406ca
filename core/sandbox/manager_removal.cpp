// The end of a sandbox's life: undying processes, the workspace, the uid, the server's own end.
#include <utility>

#include "core/base/ending_limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"
#include "core/sandbox/start_sweep.hpp"

namespace atl::sandbox {

using base::LogLine;
using base::Result;
namespace evt = base::evt;

Result<std::size_t> Manager::take_over(const KnownSandboxes& known) {
    const auto swept = sweep_at_start(known, ports_.groups, ports_.disk, ports_.uids, ports_.node);
    if (!swept)
        return swept.error();
    hold(ports_.groups.take_leftovers());
    for (const auto& [record, host_uid] : swept->suspects)
        committed_mb_ += undying_.identify(record, host_uid);
    stats_.by_status[Status::terminated] += known.count;
    return swept->orphans;
}

void Manager::hold(std::vector<StaleGroup> leftovers) {
    for (StaleGroup& leftover : leftovers) {
        LogLine(evt::sandbox_undying)
            .field("sbx", leftover.sandbox_id)
            .field("gen", leftover.generation)
            .field("err", "processes of an earlier run do not die")
            .error();
        Remains remains;
        remains.sandbox_id = std::move(leftover.sandbox_id);
        remains.generation = leftover.generation;
        remains.host_uids = std::move(leftover.host_uids);
        remains.group = std::move(leftover.group);
        ++living_;
        undying_.add(std::move(remains));
    }
}

void Manager::keep_remains(Sandbox& sandbox) {
    Generation& generation = *sandbox.generation;
    LogLine(evt::sandbox_undying)
        .field("sbx", sandbox.record.id)
        .field("gen", generation.number)
        .field("err", "its processes do not die")
        .error();
    generation.channel.reset();
    generation.operations.reset();
    if (generation.process)
        generation.process->on_log(nullptr);
    Remains remains;
    remains.sandbox_id = sandbox.record.id;
    remains.generation = generation.number;
    remains.memory_mb = generation.memory_mb;
    remains.place = std::move(generation.place);
    remains.group = std::move(generation.group);
    remains.process = std::move(generation.process);
    remains.has_exited = generation.has_exited;
    undying_.add(std::move(remains));
}

void Manager::remains_gone(const std::string& id, std::uint32_t generation, std::uint32_t memory_mb) {
    --living_;
    committed_mb_ -= memory_mb;
    LogLine(evt::sandbox_undying)
        .field("sbx", id)
        .field("gen", generation)
        .field("err", "died at last")
        .info();
    // Every sandbox that is being removed: an earlier run's group may be known by its uid only.
    std::vector<std::string> removable;
    for (const auto& [other, sandbox] : sandboxes_) {
        if (sandbox->removing && !sandbox->generation && !sandbox->is_workspace_going &&
            !has_undying(*sandbox))
            removable.push_back(other);
    }
    for (const std::string& other : removable)
        remove_workspace(other);
    if (observer_ != nullptr)
        observer_->on_capacity(id);
    become_quiet();
}

void Manager::remove(const std::string& id, Done answered, Done gone) {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr) {
        ports_.timers.defer([answered = std::move(answered), gone = std::move(gone)] {
            if (gone)
                gone();
            answered();
        });
        return;
    }
    auto removal = std::make_shared<Removal>(Removal{std::move(answered), std::move(gone)});
    removal->timer = ports_.timers.arm(base::k_removal_answer_deadline, [removal] {
        removal->timer = 0;
        std::exchange(removal->answered, nullptr)();
    });
    sandbox->removals.push_back(removal);
    if (std::exchange(sandbox->removing, true)) {
        if (sandbox->is_workspace_going)
            ports_.timers.defer([this, id] { answer_removals(id); });
        return;
    }
    if (observer_ != nullptr)
        observer_->on_removal(id);
    // Its workspace goes with it: there is nothing to be polite about.
    if (sandbox->generation)
        perform(*sandbox,
                sandbox->generation->machine.kill({ExitClass::stopped, 0, "the sandbox was removed"}));
    else if (!has_undying(*sandbox))
        remove_workspace(id);
}

// Precondition: no process of it is left.
void Manager::remove_workspace(const std::string& id) {
    Sandbox& sandbox = *lookup(id);
    sandbox.is_workspace_going = true;
    if (sandbox.is_bare)
        return ports_.timers.defer([this, id] { workspace_removed(id, {}); });
    const auto moved =
        ports_.disk.remove(id, user_of(sandbox.record),
                           [this, id](const Result<void>& removed) { workspace_removed(id, removed); });
    ports_.timers.defer(
        [this, id, moved] { moved ? answer_removals(id) : removal_failed(id, moved.error()); });
}

void Manager::workspace_removed(const std::string& id, const Result<void>& removed) {
    if (!removed)
        return removal_failed(id, removed.error());
    const auto node = sandboxes_.extract(id);
    if (node.empty())
        return;
    Sandbox& sandbox = *node.mapped();
    --stats_.by_status[sandbox.status];
    release_uid(sandbox);
    if (sandbox.is_bare)
        logs_.drop(id);
    LogLine(evt::sandbox_removed).field("sbx", id).info();
    for (const auto& removal : sandbox.removals) {
        ports_.timers.cancel(removal->timer);
        if (removal->gone)
            removal->gone();
    }
    for (const auto& removal : sandbox.removals) {
        if (removal->answered)
            std::exchange(removal->answered, nullptr)();
    }
}

// Its files are there, or a part of them is in the trash: the store keeps the record, by which the next start
// finds and removes them. Without it they would be an orphan whose uid nobody gets. A second try of this run
// would find no workspace where only the trash is left, and release the uid of its files.
void Manager::removal_failed(const std::string& id, const base::Error& error) {
    LogLine(evt::sandbox_cleanup).field("sbx", id).quoted("err", error.detail()).error();
    answer_removals(id);
}

/// `gone` is called later, or not at all for a sandbox that stays.
void Manager::answer_removals(const std::string& id) {
    const Sandbox* const sandbox = lookup(id);
    const auto removals = sandbox == nullptr ? decltype(sandbox->removals)() : sandbox->removals;
    for (const auto& removal : removals) {
        ports_.timers.cancel(std::exchange(removal->timer, 0));
        if (removal->answered)
            std::exchange(removal->answered, nullptr)();
    }
}

// Precondition: its workspace is gone. A uid whose facts cannot be read or erased is not handed out before
// the next start has erased them.
void Manager::release_uid(Sandbox& sandbox) {
    if (sandbox.is_bare)
        return ports_.uids.release(*sandbox.host_uid);
    auto released = find_host_uid(sandbox);
    if (released)
        released = ports_.node.erase(sandbox.record.id);
    if (released)
        return ports_.uids.release(*sandbox.host_uid);
    LogLine(evt::sandbox_cleanup)
        .field("sbx", sandbox.record.id)
        .quoted("err", released.error().detail())
        .error();
}

// Reports the end once only undying processes are left.
void Manager::become_quiet() {
    if (!shutting_down_ || living_ > undying_.size() || !on_quiet_)
        return;
    for (const Unkillable& left : undying_.list(base::k_max_undying_told))
        LogLine(evt::sandbox_undying)
            .field("sbx", left.sandbox_id)
            .field("gen", left.generation)
            .field("err", "left to the next start")
            .error();
    undying_.stop();
    std::exchange(on_quiet_, nullptr)();
}

void Manager::shut_down(Done done) {
    shutting_down_ = true;
    host_memory_.stop();
    on_quiet_ = std::move(done);
    for (auto& [id, sandbox] : sandboxes_) {
        if (sandbox->generation)
            perform(*sandbox,
                    sandbox->generation->machine.stop(ExitClass::stopped, "the server is stopping"));
    }
    ports_.timers.defer([this] { become_quiet(); });
}

}  // namespace atl::sandbox
