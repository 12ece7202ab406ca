#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/log.hpp"
#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

base::Result<void> Manager::Impl::restore(Snapshot snapshot) {
    last_key_ = snapshot.last_key;
    if (auto recorded = record_turns(snapshot); !recorded)
        return recorded;
    for (const std::int64_t key : snapshot.orphaned_logs)
        journal_.purge(key);
    std::unordered_set<std::string> owned;  // sandboxes that are some conversation's
    for (const Record& record : snapshot.conversations)
        owned.insert(record.sandbox_id);
    std::unordered_map<std::string, const sandbox::Record*> sandbox_records;
    for (const sandbox::Record& sandbox_record : snapshot.sandboxes) {
        sandbox_records.emplace(sandbox_record.id, &sandbox_record);
        if (sandbox_record.gone)
            continue;
        sandboxes_.adopt(sandbox_record);
        if (!sandbox_record.conversation_id.empty() && !owned.contains(sandbox_record.id)) {
            // Its conversation was deleted and the server ended before the workspace was.
            sandboxes_.remove(
                sandbox_record.id, [] {}, [this, id = sandbox_record.id] { journal_.add(EraseSandbox{id}); });
            continue;
        }
        standalone_.adopt(sandbox_record);
    }
    for (Record& record : snapshot.conversations) {
        const auto sandbox_record = sandbox_records.find(record.sandbox_id);
        restore_conversation(std::move(record),
                             sandbox_record == sandbox_records.end() ? nullptr : sandbox_record->second,
                             snapshot);
        if (auto committed = commit_some(); !committed)
            return committed;
    }
    return journal_.flush();
}

// The journal looks through its batch for each turn that is added: a batch of all would take quadratic time.
base::Result<void> Manager::Impl::commit_some() {
    constexpr std::size_t k_batch_writes = 128;
    return journal_.pending() < k_batch_writes ? base::Result<void>() : journal_.flush();
}

// The record of a turn is written behind its events: what the last server did not get to is made up for.
base::Result<void> Manager::Impl::record_turns(Snapshot& snapshot) {
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
        journal_.add(PutTurn{record});
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

void Manager::Impl::restore_conversation(Record record, const sandbox::Record* sandbox_record,
                                         const Snapshot& snapshot) {
    // It ran when the last server ended, in whatever way; one that was told so already is left as it is.
    const bool ran = record.status == Status::active || record.status == Status::starting;
    if (ran) {
        record.status = Status::paused;
        record.reason = PauseReason::server_restart;
    }
    Conversation& conversation = enlist(std::move(record));
    // The only time that the wall clock tells its age: no other clock goes on from one run to the next.
    const auto age = std::clamp<base::Millis>(clock_.wall_now() - conversation.record.created_at,
                                              base::Millis{0}, base::k_max_named_time);
    conversation.born -= age;
    if (sandbox_record != nullptr)
        conversation.sandbox_record = *sandbox_record;
    conversation.machine.restore(conversation.record.status, conversation.record.reason);
    recount(conversation);
    conversation.log->restore(conversation.record.first_seq, conversation.record.last_seq);
    restore_turns(conversation, snapshot);
    if (ran) {
        Action paused{Action::Kind::log_sandbox_paused,
                      {},
                      "the server was restarted",
                      PauseReason::server_restart,
                      {}};
        log_action(conversation, paused);
        persist(conversation);
    }
    if (conversation.record.first_seq > 1)
        journal_.purge(conversation.record.key, conversation.record.first_seq);
    if (conversation.record.status == Status::ended) {
        if (!conversation.sandbox_record.gone)
            remove_sandbox(conversation);
        else
            keep_ended(conversation, age - std::chrono::seconds(conversation.record.ttl_seconds));
    }
    arm_life(conversation);
}

void Manager::Impl::restore_turns(Conversation& conversation, const Snapshot& snapshot) {
    const auto before = [](const TurnRecord& turn, std::int64_t key) { return turn.conversation_key < key; };
    auto turn =
        std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), conversation.record.key, before);
    for (; turn != snapshot.turns.end() && turn->conversation_key == conversation.record.key; ++turn) {
        if (turn->last_seq != 0) {
            conversation.log->restore_turn(turn->last_seq, turn->bytes);
            continue;
        }
        conversation.turn = OpenTurn{};
        conversation.turn.record = *turn;
        conversation.append_of_turn(EventType::error,
                                    error_data("server_restart", "the server was restarted"));
        conversation.append_of_turn(EventType::done, "{}");
        close_turn(conversation);
    }
}

}  // namespace atl::conversation
