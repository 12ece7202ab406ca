#include "core/conversation/restore.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/conversation/conversation.hpp"
#include "core/conversation/journal.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

base::Result<void> Restore::run(Snapshot snapshot) {
    if (auto recorded = record_turns(snapshot); !recorded)
        return recorded;
    for (const std::int64_t key : snapshot.orphaned_logs)
        context_.journal.purge(key);
    restore_sandboxes(snapshot);
    std::unordered_map<std::string, const sandbox::Record*> sandboxes;
    for (const sandbox::Record& record : snapshot.sandboxes)
        sandboxes.emplace(record.id, &record);
    for (Record& record : snapshot.conversations) {
        const auto found = sandboxes.find(record.sandbox_id);
        restore_conversation(std::move(record), found == sandboxes.end() ? sandbox::Record{} : *found->second,
                             snapshot);
        if (auto committed = commit_some(); !committed)
            return committed;
    }
    return commit();
}

/// A server starts on a store that answers at once: nothing is served before.
base::Result<void> Restore::commit() {
    base::Result<void> ended = base::Error(base::Errc::storage_failed, "the database did not answer at once");
    const auto told = std::make_shared<bool>(true);
    context_.journal.flush([&ended, told](base::Result<void> result) {
        if (*told)
            ended = std::move(result);
    });
    *told = false;
    return ended;
}

// The journal looks through its batch for each turn that is added: a batch of all would take quadratic time.
base::Result<void> Restore::commit_some() {
    constexpr std::size_t k_batch_writes = 128;
    return context_.journal.pending() < k_batch_writes ? base::Result<void>() : commit();
}

// The record of a turn is written behind its events: what the last server did not get to is made up for.
base::Result<void> Restore::record_turns(Snapshot& snapshot) {
    const auto before = [](const TurnRecord& a, const TurnRecord& b) {
        return std::pair(a.conversation_key, a.turn) < std::pair(b.conversation_key, b.turn);
    };
    std::vector<TurnRecord> missing;
    for (const LoggedTurn& logged : snapshot.unrecorded_turns) {
        TurnRecord turn;
        turn.conversation_key = logged.conversation_key;
        turn.turn = logged.turn;
        turn.first_seq = logged.first_seq;
        const auto at = std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), turn, before);
        const bool recorded = at != snapshot.turns.end() && !before(turn, *at);
        TurnRecord& record = recorded ? *at : missing.emplace_back(std::move(turn));
        if (!logged.done)
            continue;
        record.last_seq = logged.last_seq;
        record.bytes = logged.bytes;
        context_.journal.add(PutTurn{record});
        if (auto committed = commit_some(); !committed)
            return committed;
    }
    const auto recorded = static_cast<std::ptrdiff_t>(snapshot.turns.size());
    std::sort(missing.begin(), missing.end(), before);
    snapshot.turns.insert(snapshot.turns.end(), std::make_move_iterator(missing.begin()),
                          std::make_move_iterator(missing.end()));
    std::inplace_merge(snapshot.turns.begin(), snapshot.turns.begin() + recorded, snapshot.turns.end(),
                       before);
    for (Record& record : snapshot.conversations) {
        TurnRecord beyond;
        beyond.conversation_key = record.key + 1;
        const auto end = std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), beyond, before);
        if (end != snapshot.turns.begin() && std::prev(end)->conversation_key == record.key)
            record.last_turn = std::max(record.last_turn, std::prev(end)->turn);
    }
    return {};
}

void Restore::restore_sandboxes(const Snapshot& snapshot) {
    std::unordered_set<std::string> owned;  // sandboxes that are some conversation's
    for (const Record& record : snapshot.conversations)
        owned.insert(record.sandbox_id);
    for (const sandbox::Record& record : snapshot.sandboxes) {
        if (record.gone)
            continue;
        context_.sandboxes.adopt(record);
        if (record.conversation_id.empty() || owned.contains(record.id)) {
            target_.restore_sandbox(record);
            continue;
        }
        // Its conversation was deleted and the server ended before the workspace was.
        context_.sandboxes.remove(
            record.id, [] {},
            [&journal = context_.journal, id = record.id] { journal.add(EraseSandbox{id}); });
    }
}

void Restore::restore_conversation(Record record, sandbox::Record sandbox_record, const Snapshot& snapshot) {
    // It ran when the last server ended, in whatever way; one that was told so already is left as it is.
    const bool ran = record.status == Status::active || record.status == Status::starting;
    if (ran) {
        record.status = Status::paused;
        record.reason = PauseReason::server_restart;
    }
    const std::int64_t key = record.key;
    // The only time that the wall clock tells its age: no other clock goes on from one run to the next.
    const auto age = std::clamp<base::Millis>(context_.clock.wall_now() - record.created_at, base::Millis{0},
                                              base::k_max_named_time);
    Conversation& conversation = target_.restore_conversation(std::move(record), std::move(sandbox_record));
    conversation.restore_life(age);
    const auto before = [](const TurnRecord& turn, std::int64_t of) { return turn.conversation_key < of; };
    auto turn = std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), key, before);
    for (; turn != snapshot.turns.end() && turn->conversation_key == key; ++turn)
        conversation.restore_turn(*turn);
    conversation.restore_sandbox(ran ? Conversation::LastRun::ran : Conversation::LastRun::rested);
}

}  // namespace atl::conversation
