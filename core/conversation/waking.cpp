// The room that a conversation's sandbox needs to start, and the waking of a conversation for a visitor of
// its previews, which evicts no other sandbox.
#include <utility>

#include "core/conversation/conversation.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::Result;

Result<void> Conversation::check_room_to_write(LeaseUse use) {
    const bool runs_on = machine_.sandbox_living() && !machine_.sandbox_is_stopping();
    if (runs_on && (may_write_ || use == LeaseUse::no_new_files))
        return {};
    auto room = context_.sandboxes.room_to_write(sandbox_record_);
    may_write_ = room.has_value();
    return use == LeaseUse::no_new_files ? Result<void>() : room;
}

Result<void> Conversation::check_capacity(LeaseUse use) {
    // The machine is told of an end for a limit afterwards: what comes now waits for the next generation.
    if (const auto end = context_.sandboxes.known_end(record_.sandbox_id))
        perform(machine_.sandbox_ending(*end));
    if (auto room = check_room_to_write(use); !room)
        return room;
    if (machine_.sandbox_living())
        return {};
    return owner_.admission().check_capacity({sandbox_record_.limits, sandbox_record_.holder});
}

void Conversation::wake(const Reply<void>& reply) {
    const auto refuse_it = [&](Error error) {
        context_.timers.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (auto open = check_open(); !open)
        return refuse_it(open.error());
    if (machine_.status() == Status::error)
        return refuse_it(
            Error(Errc::sandbox_failed, "the sandbox could not be started; a message tries again"));
    if (const auto end = context_.sandboxes.known_end(record_.sandbox_id))
        perform(machine_.sandbox_ending(*end));
    // The next generation would be started later, when there may be no room without an eviction.
    if (machine_.sandbox_is_stopping())
        return refuse_it(
            Error(Errc::sandbox_gone, "the sandbox is just being ended", std::chrono::seconds(1)));
    if (auto room = check_room_to_write(LeaseUse::process); !room)
        return refuse_it(room.error());
    if (!machine_.sandbox_living()) {
        if (auto room = owner_.admission().has_capacity({sandbox_record_.limits, sandbox_record_.holder});
            !room)
            return refuse_it(room.error());
    }
    touch();
    leases_.add(record_.sandbox_id, LeaseUse::process, [reply](const Result<std::unique_ptr<Lease>>& lease) {
        reply(lease ? Result<void>() : Result<void>(lease.error()));
    });
    perform(machine_.acquire_lease(LeaseUse::process));
    arm_life();
}

}  // namespace atl::conversation
