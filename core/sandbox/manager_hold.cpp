#include <utility>

#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

using base::Errc;
using base::Error;
using base::Result;

void Manager::hold_still(const std::string& id, Ready done) {
    using Phase = GenerationMachine::Phase;
    const auto answer = [&](Result<void> result) {
        ports_.timers.defer([done = std::move(done), result = std::move(result)] { done(result); });
    };
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation || !sandbox->generation->group || freezer() == "none")
        return answer(Error(Errc::sandbox_failed, "it cannot be stopped"));
    Generation& generation = *sandbox->generation;
    if (generation.machine.phase() == Phase::frozen) {
        generation.hold = Hold::parked;
        return answer({});
    }
    if (generation.machine.phase() != Phase::ready)
        return answer(Error(Errc::sandbox_failed, "it is not ready"));
    generation.hold = Hold::coming;
    generation.group->freeze(
        [this, id, number = generation.number, done = std::move(done)](const Result<void>& result) {
            Generation* living = lookup(id, number);
            if (living == nullptr || living->hold != Hold::coming)
                return;
            living->hold = result ? Hold::standing : Hold::none;
            done(result);
        });
}

Exit Manager::stuck_exit() {
    return {ExitClass::lost, 0, "its processes could not be let go on again"};
}

bool Manager::end_hold(const std::string& id) {
    Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return false;
    const Hold hold = sandbox->generation->hold;
    if (!end_hold(*sandbox))
        perform(*sandbox, sandbox->generation->machine.kill(stuck_exit()));
    return hold == Hold::standing || hold == Hold::parked;
}

/// Thaws the processes if only the hold stopped them. False if the kernel refuses.
bool Manager::end_hold(Sandbox& sandbox) {
    Generation& generation = *sandbox.generation;
    const Hold hold = std::exchange(generation.hold, Hold::none);
    return (hold != Hold::coming && hold != Hold::standing) || generation.group->thaw();
}

std::optional<pid_t> Manager::process(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation || !sandbox->generation->process)
        return std::nullopt;
    return sandbox->generation->process->pid();
}

std::vector<pid_t> Manager::members(const std::string& id) const {
    const Sandbox* sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation || !sandbox->generation->group)
        return {};
    return sandbox->generation->group->members();
}

}  // namespace atl::sandbox
