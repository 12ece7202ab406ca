#include <algorithm>
#include <string>
#include <utility>

#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr int k_killed_by = 9;  // signal(7)

}  // namespace

Result<void> Manager::room_for(const Demand& demand, const Places& spared) const {
    const Limits& limits = demand.limits;
    if (shutting_down_)
        return Error(Errc::shutting_down, "the server is stopping; try again in a moment");
    // A user's own use is refused first. What is nobody's yet, or does not die, has no user's place.
    if (demand.holder && places_.room(*demand.holder) == 0 && places_.used() < settings_.max_sandboxes)
        return places_.refusal(*demand.holder, 1);
    if (auto share = room_in_memory(demand.holder, limits.memory_mb); !share)
        return share;
    if (living_ + reserved_->sandboxes - spared.sandboxes >= settings_.max_sandboxes)
        return Error(Errc::capacity,
                     "all " + std::to_string(settings_.max_sandboxes) +
                         " sandboxes are in use; delete or pause a conversation, or try again later",
                     base::k_place_retry)
            .with("budget", "\"places\"");
    if (settings_.max_memory_mb > 0 &&
        committed_mb_ + reserved_->memory_mb - spared.memory_mb + limits.memory_mb > settings_.max_memory_mb)
        return Error(Errc::capacity,
                     "its memory limit of " + std::to_string(limits.memory_mb) +
                         " MB is more than is left of the " + std::to_string(settings_.max_memory_mb) +
                         " MB for all sandboxes; delete or pause a conversation, ask for less, or try again "
                         "later",
                     base::k_place_retry)
            .with("budget", "\"memory\"");
    return room_on_host(demand.holder);
}

namespace {

/// A user who holds none may have one sandbox of any size.
std::uint64_t memory_room(const base::Budget& memory, const base::ShareHolder& holder,
                          std::uint64_t given_back_mb = 0) {
    if (memory.held_by(holder) > given_back_mb)
        return memory.room(holder, given_back_mb);
    const std::uint64_t total = memory.spec().total;
    return total - std::min(memory.used() - given_back_mb, total);
}

}  // namespace

Result<void> Manager::room_in_memory(const std::optional<base::ShareHolder>& holder,
                                     std::uint64_t more_mb) const {
    const bool is_own_use = settings_.max_memory_mb > 0 && holder &&
                            memory_room(memory_, *holder) < more_mb &&
                            memory_.used() + more_mb <= settings_.max_memory_mb;
    return is_own_use ? Result<void>(memory_.refusal(*holder, more_mb)) : Result<void>();
}

bool Manager::has_share(const Demand& demand, const Places& given_back) const {
    if (!demand.holder)
        return true;
    const base::ShareHolder& holder = *demand.holder;
    const std::uint64_t sandboxes = std::min<std::uint64_t>(given_back.sandboxes, places_.held_by(holder));
    const std::uint64_t memory_mb = std::min(given_back.memory_mb, memory_.held_by(holder));
    return places_.room(holder, sandboxes) > 0 && !is_over_host_share(holder) &&
           (settings_.max_memory_mb == 0 ||
            memory_room(memory_, holder, memory_mb) >= demand.limits.memory_mb);
}

Result<PlaceShares> Manager::take_place(const std::optional<base::ShareHolder>& holder,
                                        std::uint32_t memory_mb) {
    PlaceShares place;
    if (!holder)
        return place;
    auto sandbox = places_.take(*holder, 1);
    if (!sandbox)
        return sandbox.error();
    place.sandbox = std::move(*sandbox);
    if (settings_.max_memory_mb > 0) {
        const bool fits = memory_room(memory_, *holder) >= memory_mb;
        auto memory = memory_.take(*holder, fits ? 0 : memory_mb);
        if (!memory)
            return memory.error();
        if (fits)
            memory->charge(memory_mb);
        place.memory = std::move(*memory);
    }
    return place;
}

void Manager::list_budgets(std::vector<const base::Budget*>& all) const {
    all.push_back(&places_);
    if (settings_.max_memory_mb > 0)
        all.push_back(&memory_);
}

Result<void> Manager::room_to_grow(const std::string& id, const Limits& limits) const {
    if (settings_.max_memory_mb == 0)
        return {};
    const Sandbox* sandbox = lookup(id);
    const bool lives = sandbox != nullptr && sandbox->generation;
    const std::uint64_t own = lives ? sandbox->generation->memory_mb : 0;
    const std::uint64_t others = lives ? committed_mb_ + reserved_->memory_mb - own : 0;
    if (limits.memory_mb <= own)
        return {};
    if (lives) {
        if (auto share = room_in_memory(sandbox->record.holder, limits.memory_mb - own); !share)
            return share;
    }
    if (others + limits.memory_mb <= settings_.max_memory_mb)
        return {};
    return Error(Errc::capacity,
                 "a memory limit of " + std::to_string(limits.memory_mb) +
                     " MB is more than is left of the " + std::to_string(settings_.max_memory_mb) +
                     " MB for all sandboxes",
                 base::k_place_retry)
        .with("budget", "\"memory\"");
}

Result<void> Manager::give_to(const std::string& id, const base::ShareHolder& holder) {
    Sandbox& sandbox = *lookup(id);
    if (sandbox.generation) {
        auto place = take_place(holder, sandbox.generation->memory_mb);
        if (!place)
            return place.error();
        sandbox.generation->place = std::move(*place);
    }
    sandbox.record.holder = holder;
    ports_.disk.set_user(id, user_of(sandbox.record));
    return {};
}

std::unique_ptr<Reservation> Manager::reserve(const Demand& demand) {
    auto taken = take_place(demand.holder, demand.limits.memory_mb);
    if (!taken && taken.error().code() == Errc::user_share)
        return nullptr;
    return std::make_unique<Reservation>(reserved_, demand.limits.memory_mb,
                                         taken ? std::move(*taken) : PlaceShares());
}

std::size_t Manager::worth_evicting(const Limits& limits) const {
    if (settings_.max_memory_mb > 0 && limits.memory_mb > settings_.max_memory_mb)
        return 0;
    // If other programs took the host's memory, ending our sandboxes does not bring it back.
    return is_host_short() ? 1 : base::k_max_evictions_per_start;
}

// For its memory limit the kernel kills one process on v1 and all processes on v2. Either way the sandbox
// ends, since its state may be incomplete.
void Manager::watch_memory(Sandbox& sandbox) {
    const std::string id = sandbox.record.id;
    const std::uint32_t number = sandbox.generation->number;
    sandbox.generation->group->watch_oom([this, id, number] {
        if (lookup(id, number) != nullptr)
            (void)limit_reached(id);
    });
    sandbox.generation->group->watch_memory(
        [this, id, number](std::string_view resource, std::uint64_t used, std::uint64_t limit) {
            if (lookup(id, number) != nullptr && observer_ != nullptr)
                observer_->on_resource_warning(id, resource, used, limit);
        });
}

void Manager::watch_processes(Sandbox& sandbox) {
    const std::string id = sandbox.record.id;
    const std::uint32_t number = sandbox.generation->number;
    sandbox.generation->group->watch_processes([this, id, number](std::uint32_t used, std::uint32_t limit) {
        if (lookup(id, number) != nullptr && observer_ != nullptr)
            observer_->on_resource_warning(id, "processes", used, limit);
    });
}

bool Manager::is_crowded(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    return sandbox != nullptr && sandbox->generation && sandbox->generation->group &&
           sandbox->generation->group->is_crowded();
}

void Manager::watch_disk(Sandbox& sandbox) {
    const std::string id = sandbox.record.id;
    const std::uint32_t number = sandbox.generation->number;
    auto on_excess = [this, id, number](Exit exit) {
        if (Generation* living = lookup(id, number))
            perform(*lookup(id), living->machine.kill(std::move(exit)));
    };
    auto on_warning = [this, id, number](std::uint64_t used, std::uint64_t limit) {
        if (lookup(id, number) != nullptr && observer_ != nullptr)
            observer_->on_resource_warning(id, "disk", used, limit);
    };
    ports_.disk.watch(id, user_of(sandbox.record), sandbox.record.limits.disk_mb, std::move(on_excess),
                      std::move(on_warning));
}

std::optional<Exit> Manager::limit_reached(const std::string& id) {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return std::nullopt;
    Generation& generation = *sandbox->generation;
    if (generation.group && generation.group->oom_kills() > 0)
        perform(*sandbox, generation.machine.kill(oom_exit(*sandbox, k_killed_by)));
    const Exit& exit = generation.machine.exit();
    return is_limit(exit.exit_class) ? std::optional(exit) : std::nullopt;
}

bool Manager::is_limit_suspected(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return false;
    const Generation& generation = *sandbox->generation;
    return is_ending(id) || (generation.group && generation.group->is_oom_suspected());
}

bool Manager::is_ending(const std::string& id) const {
    using Phase = GenerationMachine::Phase;
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation || !sandbox->generation->machine.was_ready())
        return false;
    const Phase phase = sandbox->generation->machine.phase();
    return phase == Phase::leaving || phase == Phase::asking || phase == Phase::terminating ||
           phase == Phase::killing || phase == Phase::dead;
}

std::optional<Exit> Manager::known_end(const std::string& id) const {
    return is_ending(id) ? std::optional(lookup(id)->generation->machine.exit()) : std::nullopt;
}

std::optional<Exit> Manager::last_end(const std::string& id) const {
    const Sandbox* const sandbox = lookup(id);
    return sandbox != nullptr && !sandbox->generation ? sandbox->last_exit : known_end(id);
}

Exit Manager::oom_exit(const Sandbox& sandbox, int code) {
    constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
    Exit exit;
    exit.exit_class = ExitClass::oom;
    exit.code = code;
    exit.limit_bytes = sandbox.generation->memory_mb * k_bytes_per_mb;
    exit.peak_bytes = sandbox.generation->group->usage().memory_peak_bytes;
    exit.detail = "its processes needed more than the memory limit of " +
                  std::to_string(sandbox.generation->memory_mb) +
                  " MB; what they had in memory is lost, the files are kept";
    return exit;
}

Result<void> Manager::set_limits(const std::string& id, const Limits& limits) {
    Sandbox& sandbox = *lookup(id);
    Limits kept = std::exchange(sandbox.record.limits, limits);
    if (sandbox.generation)
        ports_.disk.set_limit(id, limits.disk_mb);
    sockets_.set_limit(id, limits.max_sockets);
    if (!sandbox.generation || !sandbox.generation->group)
        return {};
    // Lowering the memory limit makes the kernel reclaim while the loop waits, or kill: so a lower limit
    // applies from the next generation on.
    Limits now = limits;
    now.memory_mb = std::max(limits.memory_mb, sandbox.generation->memory_mb);
    if (auto applied = sandbox.generation->group->set_limits(now); !applied) {
        // The kernel may have taken some of them.
        kept.memory_mb = sandbox.generation->memory_mb;
        (void)sandbox.generation->group->set_limits(kept);
        return applied;
    }
    const std::uint32_t more_mb = now.memory_mb - sandbox.generation->memory_mb;
    committed_mb_ += more_mb;
    sandbox.generation->place.memory.charge(more_mb);
    sandbox.generation->memory_mb = now.memory_mb;
    return {};
}

Usage Manager::usage(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return {};
    const Generation& generation = *sandbox->generation;
    Usage usage = generation.group ? generation.group->usage() : Usage();
    if (generation.process)
        usage.sockets = generation.process->sockets();
    return usage;
}

std::optional<std::uint32_t> Manager::memory_limit_mb(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return std::nullopt;
    return sandbox->generation->memory_mb;
}

std::optional<DiskUsage> Manager::disk_usage(const std::string& id) const {
    return ports_.disk.usage(id);
}

void Manager::check_room(const std::string& id, std::optional<std::uint64_t> bytes,
                         std::function<void(Result<void>)> done) {
    ports_.disk.check_room(id, bytes, std::move(done));
}

}  // namespace atl::sandbox
