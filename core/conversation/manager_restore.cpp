#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/base/log.hpp"
#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

base::Result<void> Manager::Impl::restore() {
    auto loaded = store_.load();
    if (!loaded)
        return loaded.error();
    Snapshot& snapshot = *loaded;
    last_key_ = snapshot.last_key;
    record_turns(snapshot);
    for (const std::int64_t key : snapshot.orphaned_logs)
        journal_.purge(key);
    std::unordered_map<std::string, std::string> owner;  // sandbox -> conversation
    for (const Record& record : snapshot.conversations)
        owner.emplace(record.sandbox_id, record.id);
    for (const sandbox::Record& box : snapshot.sandboxes) {
        if (box.gone)
            continue;
        sandboxes_.adopt(box);
        if (!box.conversation_id.empty() && !owner.contains(box.id)) {
            // Its conversation was deleted and the server ended before the workspace was.
            sandboxes_.remove(box.id, [this, id = box.id] { journal_.add(EraseSandbox{id}); });
            continue;
        }
        loose_.enlist(box);
    }
    for (Record& record : snapshot.conversations)
        restore_conversation(std::move(record), snapshot);
    return journal_.flush();
}

// The record of a turn is written behind its events: what the last server did not get to is made up for.
void Manager::Impl::record_turns(Snapshot& snapshot) {
    const auto before = [](const TurnRecord& a, const TurnRecord& b) {
        return std::pair(a.conversation_key, a.turn) < std::pair(b.conversation_key, b.turn);
    };
    for (const LoggedTurn& logged : snapshot.unrecorded_turns) {
        TurnRecord turn;
        turn.conversation_key = logged.conversation_key;
        turn.turn = logged.turn;
        turn.first_seq = logged.first_seq;
        auto at = std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), turn, before);
        if (at == snapshot.turns.end() || before(turn, *at))
            at = snapshot.turns.insert(at, std::move(turn));
        if (!logged.done)
            continue;
        at->last_seq = logged.last_seq;
        at->bytes = logged.bytes;
        journal_.add(PutTurn{*at});
    }
    for (Record& record : snapshot.conversations) {
        TurnRecord beyond;
        beyond.conversation_key = record.key + 1;
        const auto end = std::lower_bound(snapshot.turns.begin(), snapshot.turns.end(), beyond, before);
        if (end != snapshot.turns.begin() && std::prev(end)->conversation_key == record.key)
            record.last_turn = std::max(record.last_turn, std::prev(end)->turn);
    }
}

void Manager::Impl::restore_conversation(Record record, const Snapshot& snapshot) {
    // It ran when the last server ended, in whatever way; one that was told so already is left as it is.
    const bool ran = record.status == Status::active || record.status == Status::starting;
    if (ran) {
        record.status = Status::paused;
        record.reason = PauseReason::server_restart;
    }
    Conversation& conversation = enlist(std::move(record));
    const auto box =
        std::find_if(snapshot.sandboxes.begin(), snapshot.sandboxes.end(),
                     [&](const auto& candidate) { return candidate.id == conversation.record.sandbox_id; });
    if (box != snapshot.sandboxes.end())
        conversation.box = *box;
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
    if (conversation.record.status == Status::ended && !conversation.box.gone)
        remove_sandbox(conversation);
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
