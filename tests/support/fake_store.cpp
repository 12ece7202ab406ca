#include <algorithm>
#include <limits>

#include "tests/support/fake_world.hpp"

namespace atl::test {

using base::Errc;
using base::Error;
using base::Result;

Result<void> FakeStore::commit(std::span<const conversation::Write> writes) {
    if (fails())
        return Error(Errc::storage_failed, "injected");
    for (const auto& write : writes)
        apply(write);
    return {};
}

void FakeStore::apply(const conversation::Write& write) {
    using namespace conversation;
    if (const auto* put = std::get_if<PutConversation>(&write)) {
        conversations[put->record.key] = put->record;
    } else if (const auto* erase = std::get_if<EraseConversation>(&write)) {
        conversations.erase(erase->key);
        turns.erase(turns.lower_bound({erase->key, 0}), turns.lower_bound({erase->key + 1, 0}));
    } else if (const auto* box = std::get_if<PutSandbox>(&write)) {
        sandboxes[box->record.id] = box->record;
    } else if (const auto* gone = std::get_if<EraseSandbox>(&write)) {
        sandboxes.erase(gone->id);
    } else if (const auto* turn = std::get_if<PutTurn>(&write)) {
        turns[{turn->record.conversation_key, turn->record.turn}] = turn->record;
    } else if (const auto* forget = std::get_if<ForgetTurns>(&write)) {
        std::erase_if(turns, [&](const auto& entry) {
            return entry.first.first == forget->key && entry.second.last_seq > 0 &&
                   entry.second.last_seq <= forget->last_seq;
        });
    } else if (const auto* append = std::get_if<AppendEvent>(&write)) {
        const bool fresh = events.emplace(std::pair{append->key, append->event->seq}, append->event).second;
        require(fresh, "an event number was used twice");
    }
}

void FakeStore::commit_batch(conversation::WriteBatchPtr batch, conversation::CommitDone done) {
    if (!later)
        return Store::commit_batch(std::move(batch), std::move(done));
    require(!std::exchange(is_busy_, true), "two batches were given to the store at a time");
    // What it has written may outlive the server that never hears of it.
    auto answer = [this, done = std::move(done), committed = commit(batch->writes)] {
        is_busy_ = false;
        done(committed ? conversation::CommitEnd::durable : conversation::CommitEnd::refused,
             committed ? base::Error() : committed.error());
    };
    later(std::move(answer));
}

Result<std::size_t> FakeStore::purge_events(std::int64_t key, std::uint64_t below_seq, std::size_t max_rows) {
    std::size_t removed = 0;
    for (auto at = events.lower_bound({key, 0});
         at != events.end() && at->first.first == key && at->first.second < below_seq && removed < max_rows;
         ++removed)
        at = events.erase(at);
    return removed;
}

Result<conversation::Snapshot> FakeStore::load() {
    conversation::Snapshot snapshot;
    for (auto& [key, record] : conversations) {
        conversation::Record copy = record;
        const auto first = events.lower_bound({key, 0});
        if (first != events.end() && first->first.first == key)
            copy.first_seq = std::max(copy.first_seq, first->first.second);
        const auto last = events.lower_bound({key + 1, 0});
        copy.last_seq = last != events.begin() && std::prev(last)->first.first == key
                            ? std::prev(last)->first.second
                            : record.first_seq - 1;
        const auto turn = turns.lower_bound({key + 1, 0});
        copy.last_turn =
            turn != turns.begin() && std::prev(turn)->first.first == key ? std::prev(turn)->first.second : 0;
        snapshot.conversations.push_back(copy);
        snapshot.last_key = std::max(snapshot.last_key, key);
    }
    for (const auto& [id, record] : sandboxes)
        snapshot.sandboxes.push_back(record);
    for (const auto& [key, record] : turns)
        snapshot.turns.push_back(record);
    for (const auto& [key, record] : conversations)
        add_unrecorded_turns(snapshot, key);
    for (const auto& [key, event] : events) {
        snapshot.last_key = std::max(snapshot.last_key, key.first);
        if (!conversations.contains(key.first) &&
            (snapshot.orphaned_logs.empty() || snapshot.orphaned_logs.back() != key.first))
            snapshot.orphaned_logs.push_back(key.first);
    }
    return snapshot;
}

void FakeStore::add_unrecorded_turns(conversation::Snapshot& snapshot, std::int64_t key) const {
    std::map<std::uint64_t, conversation::LoggedTurn> logged;
    for (auto at = events.lower_bound({key, 0}); at != events.end() && at->first.first == key; ++at) {
        const conversation::Event& event = *at->second;
        const auto record = turns.find({key, event.turn});
        if (event.turn == 0 || (record != turns.end() && record->second.last_seq != 0))
            continue;
        auto& turn = logged[event.turn];
        if (turn.turn == 0)
            turn = {key, event.turn, event.seq, event.seq, 0, false};
        turn.last_seq = event.seq;
        turn.bytes += event.json.size();
        turn.done = turn.done || event.type == conversation::EventType::done;
    }
    for (const auto& [number, turn] : logged)
        snapshot.unrecorded_turns.push_back(turn);
}

Result<std::vector<conversation::EventPtr>> FakeStore::read_events(std::int64_t key, std::uint64_t after,
                                                                   std::size_t limit_bytes) {
    std::vector<conversation::EventPtr> found;
    std::size_t bytes = 0;
    for (auto at = events.upper_bound({key, after}); at != events.end() && at->first.first == key; ++at) {
        if (bytes >= limit_bytes)
            break;
        found.push_back(at->second);
        bytes += at->second->cost_bytes();
    }
    return found;
}

Result<conversation::TurnRecord> FakeStore::find_turn(std::int64_t key, const std::string& idempotency_key) {
    for (const auto& [id, record] : turns) {
        if (id.first == key && record.idempotency_key == idempotency_key)
            return record;
    }
    return conversation::TurnRecord{};
}

Result<void> FakeNodeStore::put(const sandbox::HostFacts& put) {
    if (fails())
        return Error(Errc::storage_failed, "injected");
    require(put.host_uid == 0 || !names(put.host_uid), "the facts of two sandboxes name one uid");
    facts[put.sandbox_id] = put.host_uid;
    return {};
}

Result<void> FakeNodeStore::erase(const std::string& sandbox_id) {
    if (fails())
        return Error(Errc::storage_failed, "injected");
    facts.erase(sandbox_id);
    return {};
}

Result<std::vector<sandbox::HostFacts>> FakeNodeStore::load() {
    std::vector<sandbox::HostFacts> loaded;
    for (const auto& [id, uid] : facts)
        loaded.push_back({id, uid});
    return loaded;
}

bool FakeNodeStore::names(std::uint32_t host_uid) const {
    return std::ranges::any_of(facts, [&](const auto& entry) { return entry.second == host_uid; });
}

}  // namespace atl::test
