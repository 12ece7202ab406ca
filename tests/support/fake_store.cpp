#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "tests/support/fake_world.hpp"

namespace atl::test {

using base::Errc;
using base::Error;
using base::Result;
using conversation::CommitEnd;

void FakeStore::commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) {
    require(!std::exchange(is_busy_, true), "two batches were given to the store at a time");
    // The batch is written now: it may outlive the server, which then never hears of it.
    auto answer = [this, done = std::move(done), end = keep(*batch)] {
        is_busy_ = false;
        done(end, end == CommitEnd::durable ? Error() : Error(Errc::storage_failed, "injected"));
    };
    if (later)
        later(std::move(answer));
    else
        answer();
}

CommitEnd FakeStore::keep(const conversation::WriteBatch& batch) {
    if (is_fenced)
        return CommitEnd::fenced;
    if (fails())
        return CommitEnd::refused;
    for (const auto& write : batch.writes)
        apply(write);
    return CommitEnd::durable;
}

void FakeStore::apply(const conversation::Write& write) {
    using namespace conversation;
    if (const auto* put = std::get_if<PutConversation>(&write)) {
        conversations[put->record.key] = put->record;
        keys_[put->record.id] = put->record.key;
    } else if (const auto* erase = std::get_if<EraseConversation>(&write)) {
        conversations.erase(erase->key);
        processes.erase(processes.lower_bound({erase->key, 0}), processes.lower_bound({erase->key + 1, 0}));
    } else if (const auto* box = std::get_if<PutSandbox>(&write)) {
        sandboxes[box->record.id] = box->record;
    } else if (const auto* gone = std::get_if<EraseSandbox>(&write)) {
        sandboxes.erase(gone->id);
    } else if (const auto* turn = std::get_if<PutTurn>(&write)) {
        turns[{turn->record.conversation_key, turn->record.turn}] = turn->record;
    } else if (const auto* kept = std::get_if<PutKeptProcess>(&write)) {
        processes[{kept->key, kept->process.number}] = kept->process.spec;
    } else if (const auto* forgotten = std::get_if<EraseKeptProcess>(&write)) {
        processes.erase({forgotten->key, forgotten->number});
    } else if (const auto* number = std::get_if<PutPreviewNumber>(&write)) {
        preview_numbers[number->row.number] = number->row;
    } else if (const auto* append = std::get_if<AppendEvent>(&write)) {
        const bool fresh = events.emplace(std::pair{append->key, append->event->seq}, append->event).second;
        require(fresh, "an event number was used twice");
    }
}

Result<conversation::Purged> FakeStore::purge_log(std::int64_t key, std::uint64_t below_seq,
                                                  conversation::PurgeBound bound) {
    if (purge_fails())
        return Error(Errc::storage_failed, "the disk is full");
    conversation::Purged purged;
    std::size_t bytes = 0;
    for (auto at = events.lower_bound({key, 0});
         at != events.end() && at->first.first == key && at->first.second < below_seq; ++purged.rows) {
        if (purged.rows == bound.rows || bytes >= bound.bytes)
            return purged;
        bytes += at->second->json.size();
        at = events.erase(at);
    }
    constexpr int k_seq_bits = 36;
    const bool is_whole = below_seq >> k_seq_bits != 0;
    const auto is_left = [&](auto at) {
        const std::uint64_t last_seq = at->second.last_seq;
        const auto next = std::next(at);
        const bool is_last = next == turns.end() || next->first.first != key;
        return is_whole || (!is_last && last_seq > 0 && last_seq < below_seq);
    };
    for (auto at = turns.lower_bound({key, 0}); at != turns.end() && at->first.first == key && is_left(at);
         ++purged.rows) {
        if (purged.rows == bound.rows)
            return purged;
        at = turns.erase(at);
    }
    purged.is_done = true;
    return purged;
}

conversation::Record FakeStore::with_log(const conversation::Record& record) const {
    conversation::Record copy = record;
    const auto first = events.lower_bound({record.key, 0});
    if (first != events.end() && first->first.first == record.key)
        copy.first_seq = std::max(copy.first_seq, first->first.second);
    const auto last = events.lower_bound({record.key + 1, 0});
    copy.last_seq = last != events.begin() && std::prev(last)->first.first == record.key
                        ? std::prev(last)->first.second
                        : record.first_seq - 1;
    return copy;
}

const conversation::Record* FakeStore::find(const std::string& id) const {
    const auto lookup = [&]() -> const conversation::Record* {
        const auto key = keys_.find(id);
        const auto found = key == keys_.end() ? conversations.end() : conversations.find(key->second);
        return found != conversations.end() && found->second.id == id ? &found->second : nullptr;
    };
    if (const auto* found = lookup())
        return found;
    if (keys_.size() < conversations.size()) {
        for (const auto& [key, record] : conversations)
            keys_[record.id] = key;
    }
    return lookup();
}

void FakeStore::load_start(conversation::ReadDone<conversation::StartState> done) {
    conversation::StartState state;
    std::set<std::string> owned;
    for (const auto& [key, record] : conversations) {
        ++state.by_status[record.status];
        state.last_key = std::max(state.last_key, key);
        owned.insert(record.sandbox_id);
        const auto box = sandboxes.find(record.sandbox_id);
        if (record.status == conversation::Status::active ||
            record.status == conversation::Status::starting ||
            (record.status == conversation::Status::ended && box != sandboxes.end() && !box->second.gone))
            state.unfinished.push_back(record.id);
    }
    for (const auto& [id, turn] : turns) {
        if (turn.last_seq == 0 && conversations.contains(id.first))
            state.unfinished.push_back(conversations[id.first].id);
    }
    for (const auto& [id, record] : sandboxes) {
        if (!record.gone)
            ++state.sandboxes;
        if (!record.gone && (record.conversation_id.empty() || !owned.contains(id)))
            (record.conversation_id.empty() ? state.standalone : state.abandoned).push_back(record);
    }
    for (const auto& [number, row] : preview_numbers) {
        state.preview_numbers.push_back(row);
        const auto box = sandboxes.find(row.sandbox_id);
        if (box == sandboxes.end() || box->second.gone)
            state.preview_numbers.back().sandbox_id.clear();
        else
            state.preview_numbers.back().user_id = box->second.user_id;
        for (const auto& [key, record] : conversations) {
            using conversation::Status;
            const bool ran = record.status == Status::starting || record.status == Status::active;
            if (record.sandbox_id == row.sandbox_id && record.user_id)
                state.preview_numbers.back().user_id = record.user_id;
            if (record.sandbox_id != row.sandbox_id || (!ran && record.status != Status::paused))
                continue;
            base::WallTime since = record.last_active_at;
            const auto behind = events.lower_bound({key + 1, 0});
            if (record.reason == conversation::PauseReason::server_restart && behind != events.begin() &&
                std::prev(behind)->first.first == key)
                since = std::max(since, conversation::event_time(std::prev(behind)->second->json).value());
            state.resting_previews.push_back({number, ran, since});
        }
    }
    std::ranges::stable_sort(state.resting_previews, std::greater(),
                             [](const auto& each) { return std::pair(each.was_up, each.since); });
    for (auto at = events.begin(); at != events.end();) {
        const std::int64_t key = at->first.first;
        const auto owner = conversations.find(key);
        const std::uint64_t begins = owner != conversations.end() ? owner->second.first_seq
                                                                  : std::numeric_limits<std::uint64_t>::max();
        if (at->first.second < begins)
            state.left_events.push_back({key, begins});
        state.last_key = std::max(state.last_key, key);
        at = events.lower_bound({key + 1, 0});
    }
    for (auto at = turns.begin(); at != turns.end(); at = turns.lower_bound({at->first.first + 1, 0})) {
        if (conversations.contains(at->first.first))
            continue;
        state.left_events.push_back({at->first.first, std::numeric_limits<std::uint64_t>::max()});
        state.last_key = std::max(state.last_key, at->first.first);
    }
    answer(std::move(done), std::move(state));
}

void FakeStore::load(const std::string& id,
                     conversation::ReadDone<std::optional<conversation::StoredConversation>> done) {
    if (load_fails())
        return answer(
            conversation::ReadDone<std::optional<conversation::StoredConversation>>(
                [done = std::move(done)](const auto&) { done(Error(Errc::storage_failed, "injected")); }),
            std::optional<conversation::StoredConversation>());
    std::optional<conversation::StoredConversation> stored;
    if (const auto* record = find(id)) {
        stored.emplace();
        stored->record = with_log(*record);
        if (const auto box = sandboxes.find(record->sandbox_id); box != sandboxes.end())
            stored->sandbox = box->second;
        for (auto at = turns.lower_bound({record->key, 0}); at != turns.lower_bound({record->key + 1, 0});
             ++at) {
            stored->record.last_turn = at->first.second;
            // Else its events were cut from the log.
            if (at->second.last_seq == 0 || at->second.last_seq >= stored->record.first_seq)
                stored->turns.push_back(at->second);
        }
        add_unrecorded_turns(*stored);
        for (auto at = processes.lower_bound({record->key, 0});
             at != processes.lower_bound({record->key + 1, 0}); ++at)
            stored->kept_processes.push_back({at->first.second, at->second});
    }
    answer(std::move(done), std::move(stored));
}

void FakeStore::add_unrecorded_turns(conversation::StoredConversation& stored) const {
    const std::int64_t key = stored.record.key;
    const std::uint64_t first_seq = stored.record.first_seq;
    std::map<std::uint64_t, conversation::LoggedTurn> logged;
    for (auto at = events.lower_bound({key, first_seq}); at != events.end() && at->first.first == key; ++at) {
        const conversation::Event& event = *at->second;
        if (event.type >= conversation::k_first_question_type &&
            event.type <= conversation::k_last_question_type)
            stored.open_questions.see(event.type, event.json);
        const auto record = turns.find({key, event.turn});
        if (event.turn == 0 || (record != turns.end() && record->second.last_seq != 0))
            continue;
        auto& turn = logged[event.turn];
        if (turn.turn == 0)
            turn = {event.turn, event.seq, event.seq, 0, false};
        turn.last_seq = event.seq;
        turn.bytes += event.json.size();
        turn.done = turn.done || event.type == conversation::EventType::done;
    }
    for (const auto& [number, turn] : logged)
        stored.unrecorded_turns.push_back(turn);
    std::uint64_t finished_seq = first_seq - 1;
    for (const auto& turn : stored.turns)
        finished_seq = std::max(finished_seq, turn.last_seq);
    for (const auto& turn : stored.unrecorded_turns)
        finished_seq = std::max(finished_seq, turn.last_seq);
    for (auto at = events.upper_bound({key, finished_seq}); at != events.end() && at->first.first == key;
         ++at)
        stored.open_bytes += at->second->json.size();
}

void FakeStore::find_conversation(
    const std::string& id, conversation::ReadDone<std::optional<conversation::ListedConversation>> done) {
    std::optional<conversation::ListedConversation> found;
    if (const auto* record = find(id)) {
        const auto box = sandboxes.find(record->sandbox_id);
        found = {with_log(*record), box == sandboxes.end() ? sandbox::Record{} : box->second};
    }
    answer(std::move(done), std::move(found));
}

void FakeStore::find_created(const std::string& create_key,
                             conversation::ReadDone<std::optional<conversation::CreatedBefore>> done) {
    const auto found = std::ranges::find_if(
        conversations, [&](const auto& row) { return row.second.create_key == create_key; });
    std::optional<conversation::CreatedBefore> before;
    if (found != conversations.end())
        before = {found->second.id, found->second.create_digest};
    answer(std::move(done), std::move(before));
}

void FakeStore::list(const conversation::ListRange& range,
                     conversation::ReadDone<conversation::ConversationList> done) {
    if (lists_without_room > 0) {
        --lists_without_room;
        return done(base::Error(base::Errc::too_many_requests, "", std::chrono::seconds(1)));
    }
    const bool is_newest_first = range.order == conversation::ListOrder::newest_first;
    std::vector<const conversation::Record*> rows;
    for (const auto& [key, record] : conversations) {
        const conversation::ListPlace place = place_of(record);
        // Rows of other users are not scanned, as with the database's index.
        if (range.filter.user_id && record.user_id != range.filter.user_id)
            continue;
        if (range.from.key == 0 || (is_newest_first ? place < range.from : place > range.from))
            rows.push_back(&record);
    }
    std::ranges::sort(rows, [&](const auto* a, const auto* b) {
        return is_newest_first ? place_of(*a) > place_of(*b) : place_of(*a) < place_of(*b);
    });
    conversation::ConversationList listed;
    std::size_t bytes = 0;
    std::size_t seen = 0;
    conversation::ListPlace last;
    for (const conversation::Record* record : rows) {
        if (listed.items.size() == range.limit || bytes > base::k_list_page_bytes ||
            seen++ == base::k_list_scan_items) {
            listed.next = last;
            break;
        }
        last = place_of(*record);
        if (!matches(range.filter, *record))
            continue;
        const auto box = sandboxes.find(record->sandbox_id);
        listed.items.push_back({with_log(*record), box == sandboxes.end() ? sandbox::Record{} : box->second});
        bytes += record->metadata.size() + base::k_list_item_bytes;
    }
    answer(std::move(done), std::move(listed));
}

/// Here the place in the order of ids is the key.
void FakeStore::list_sandboxes(const conversation::SandboxRange& range,
                               conversation::ReadDone<conversation::Listed<sandbox::Record>> done) {
    conversation::Listed<sandbox::Record> listed;
    std::size_t bytes = 0;
    std::int64_t key = 0;
    for (const auto& [id, record] : sandboxes) {
        const auto* const owner = find(record.conversation_id);
        const auto& user_id = owner == nullptr ? record.user_id : owner->user_id;
        if (++key <= range.from_key || record.gone || (range.user_id && user_id != range.user_id))
            continue;
        if (listed.items.size() == range.limit || bytes > base::k_list_page_bytes) {
            listed.next_key = key - 1;
            break;
        }
        listed.items.push_back(record);
        listed.items.back().env.clear();
        bytes += record.metadata.size() + base::k_list_item_bytes;
    }
    answer(std::move(done), std::move(listed));
}

void FakeStore::find_sandbox(const std::string& id,
                             conversation::ReadDone<std::optional<sandbox::Record>> done) {
    const auto found = sandboxes.find(id);
    answer(std::move(done),
           found == sandboxes.end() ? std::optional<sandbox::Record>() : std::optional(found->second));
}

void FakeStore::count_open(const std::string& user_id, std::size_t limit,
                           conversation::ReadDone<std::size_t> done) {
    const auto count = static_cast<std::size_t>(std::ranges::count_if(conversations, [&](const auto& row) {
        return row.second.user_id == user_id && row.second.status != conversation::Status::ended;
    }));
    answer(std::move(done), std::min(count, limit));
}

void FakeStore::find_ending(bool has_ended, std::size_t limit,
                            conversation::ReadDone<std::vector<conversation::Ending>> done) {
    std::multimap<base::WallTime, conversation::Ending> by_end;
    for (const auto& [key, record] : conversations) {
        const base::Millis life = std::chrono::seconds(record.ttl_seconds);
        const bool ended = record.status == conversation::Status::ended;
        if (ended == has_ended && (ended || record.ttl_seconds > 0))
            by_end.emplace(record.created_at + life,
                           conversation::Ending{record.id, record.created_at, life});
    }
    std::vector<conversation::Ending> found;
    for (const auto& [end, ending] : by_end) {
        if (found.size() < limit)
            found.push_back(ending);
    }
    answer(std::move(done), std::move(found));
}

std::uint64_t FakeStore::log_bytes(std::int64_t key) const {
    const conversation::Record& record = conversations.at(key);
    std::uint64_t bytes = 0;
    for (auto turn = turns.lower_bound({key, 0}); turn != turns.end() && turn->first.first == key; ++turn)
        bytes += turn->second.last_seq >= record.first_seq ? turn->second.bytes : 0;
    return std::max(bytes, record.log_bytes);
}

void FakeStore::log_sizes(const conversation::LogRange& range,
                          conversation::ReadDone<conversation::Listed<conversation::LogSize>> done) {
    conversation::Listed<conversation::LogSize> found;
    for (const auto& [key, record] : conversations) {
        if (key > range.after_key && key <= range.last_key)
            found.items.push_back({record.user_id,
                                   log_bytes(key) + conversation::record_bytes(record.metadata),
                                   record.status == conversation::Status::ended ? "" : record.sandbox_id});
    }
    answer(std::move(done), std::move(found));
}

void FakeStore::largest_logs(std::size_t limit, conversation::ReadDone<std::vector<std::string>> done) {
    std::map<std::string, std::multimap<std::uint64_t, std::string, std::greater<>>> of_users;
    std::map<std::string, std::uint64_t> sums;
    for (const auto& [key, record] : conversations) {
        const std::string user = record.user_id.value_or(record.id);
        of_users[user].emplace(log_bytes(key), record.id);
        sums[user] += log_bytes(key);
    }
    std::vector<std::string> ids;
    const auto most = std::ranges::max_element(sums, {}, [](const auto& sum) { return sum.second; });
    if (most != sums.end()) {
        for (const auto& [bytes, id] : of_users.at(most->first))
            ids.push_back(id);
    }
    ids.resize(std::min(ids.size(), limit));
    answer(std::move(done), std::move(ids));
}

template <class T>
void FakeStore::answer(std::function<Result<T>()> read, std::function<void(Result<T>)> done) {
    if (!later)
        return done(read());
    if (reads_first())
        read = [seen = read()] { return seen; };
    later([read = std::move(read), done = std::move(done)] { done(read()); });
}

void FakeStore::read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                            conversation::EventsRead done) {
    using Events = std::vector<conversation::EventPtr>;
    auto read = [this, key, after, limit_bytes]() -> Result<Events> {
        if (read_fails())
            return Error(Errc::storage_failed, "injected");
        Events found;
        std::size_t bytes = 0;
        for (auto at = events.upper_bound({key, after});
             at != events.end() && at->first.first == key && bytes < limit_bytes; ++at) {
            found.push_back(at->second);
            bytes += at->second->cost_bytes();
        }
        reads.push_back(found.size());
        return found;
    };
    answer<Events>(std::move(read), std::move(done));
}

void FakeStore::find_turn(std::int64_t key, const std::string& idempotency_key,
                          conversation::TurnFound done) {
    using conversation::TurnRecord;
    auto read = [this, key, idempotency_key]() -> Result<TurnRecord> {
        for (const auto& [id, record] : turns) {
            if (id.first == key && record.idempotency_key == idempotency_key)
                return record;
        }
        return TurnRecord{};
    };
    answer<TurnRecord>(std::move(read), std::move(done));
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

Result<std::optional<std::uint32_t>> FakeNodeStore::find(const std::string& sandbox_id) {
    if (fails())
        return Error(Errc::storage_failed, "injected");
    const auto found = facts.find(sandbox_id);
    return found == facts.end() ? std::nullopt : std::optional(found->second);
}

Result<void> FakeNodeStore::put_all(std::span<const sandbox::HostFacts> all) {
    for (const sandbox::HostFacts& each : all) {
        if (auto done = put(each); !done)
            return done;
    }
    return {};
}

Result<void> FakeNodeStore::erase_all(std::span<const std::string> sandbox_ids) {
    for (const std::string& id : sandbox_ids) {
        if (auto done = erase(id); !done)
            return done;
    }
    return {};
}

Result<std::vector<sandbox::HostFacts>> FakeNodeStore::list(const std::string& after_id, std::size_t limit) {
    std::vector<sandbox::HostFacts> listed;
    for (auto at = facts.upper_bound(after_id); at != facts.end() && listed.size() < limit; ++at)
        listed.push_back({at->first, at->second});
    return listed;
}

bool FakeNodeStore::names(std::uint32_t host_uid) const {
    return std::ranges::any_of(facts, [&](const auto& entry) { return entry.second == host_uid; });
}

}  // namespace atl::test
