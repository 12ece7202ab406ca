#include "core/conversation/restore.hpp"

#include <memory>
#include <utility>

#include "core/conversation/journal.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

base::Result<void> Restore::run(const StartState& state) {
    for (const LeftEvents& left : state.left_events)
        context_.journal.purge(left.key, left.below_seq);
    restore_sandboxes(state);
    for (const std::string& id : state.unfinished) {
        if (auto loaded = load(id); !loaded)
            return loaded;
        if (auto committed = commit_some(); !committed)
            return committed;
    }
    return commit();
}

void Restore::restore_sandboxes(const StartState& state) {
    // The conversation was deleted and the server ended before the workspace was.
    for (const sandbox::Record& record : state.abandoned) {
        context_.sandboxes.adopt(record);
        context_.sandboxes.remove(
            record.id, [] {},
            [&journal = context_.journal, id = record.id] { journal.add(EraseSandbox{id}); });
    }
}

base::Result<void> Restore::load(const std::string& id) {
    const auto loaded = answered_at_once<Conversation*>(
        [&](ReadDone<Conversation*> done) { residents_.get(id, std::move(done)); });
    return loaded ? base::Result<void>() : loaded.error();
}

base::Result<void> Restore::commit() {
    return answered_at_once<void>([&](ReadDone<void> done) { context_.journal.flush(std::move(done)); });
}

// The journal looks through its batch for each turn that is added: if one batch took all, the time would be
// quadratic.
base::Result<void> Restore::commit_some() {
    constexpr std::size_t k_batch_writes = 128;
    return context_.journal.pending() < k_batch_writes ? base::Result<void>() : commit();
}

}  // namespace atl::conversation
