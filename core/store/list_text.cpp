#include "core/store/list_text.hpp"

#include <SQLiteCpp/Exception.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/store/finder.hpp"
#include "core/store/row_ids.hpp"

namespace atl::store {

using conversation::ConversationList;
using conversation::Listed;
using conversation::ListFilter;
using conversation::ListPlace;
using conversation::ListRange;
using conversation::LoggedTurn;
using conversation::Record;
using conversation::SandboxRange;
using conversation::TurnRecord;
using nlohmann::json;

namespace {

json text_or_null(const std::optional<std::string>& text) {
    return text ? json(*text) : json(nullptr);
}
std::optional<std::string> optional_text(const json& value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
}

json time_or_null(const std::optional<base::WallTime>& time) {
    return time ? json(millis(*time)) : json(nullptr);
}
std::optional<base::WallTime> optional_time(const json& value) {
    return value.is_null() ? std::nullopt : std::optional(wall(value.get<std::int64_t>()));
}

json place_json(const ListPlace& place) {
    return json::array({millis(place.created_at), place.key});
}
ListPlace place_in(const json& value) {
    return {wall(value.at(0).get<std::int64_t>()), value.at(1).get<std::int64_t>()};
}

json filter_json(const ListFilter& filter) {
    json members = json::array();
    for (const auto& member : filter.metadata)
        members.push_back(json::array({member.name, member.value}));
    return {
        {"status", filter.status ? json(static_cast<int>(*filter.status)) : json(nullptr)},
        {"userId", text_or_null(filter.user_id)},
        {"agent", text_or_null(filter.agent)},
        {"sandboxId", text_or_null(filter.sandbox_id)},
        {"metadata", std::move(members)},
        {"created", json::array({time_or_null(filter.created_after), time_or_null(filter.created_before)})},
        {"active", json::array({time_or_null(filter.active_after), time_or_null(filter.active_before)})}};
}

ListFilter filter_in(const json& value) {
    ListFilter filter;
    if (!value.at("status").is_null())
        filter.status = static_cast<conversation::Status>(value["status"].get<int>());
    filter.user_id = optional_text(value.at("userId"));
    filter.agent = optional_text(value.at("agent"));
    filter.sandbox_id = optional_text(value.at("sandboxId"));
    for (const json& member : value.at("metadata"))
        filter.metadata.push_back({member.at(0).get<std::string>(), member.at(1).get<std::string>()});
    filter.created_after = optional_time(value.at("created").at(0));
    filter.created_before = optional_time(value.at("created").at(1));
    filter.active_after = optional_time(value.at("active").at(0));
    filter.active_before = optional_time(value.at("active").at(1));
    return filter;
}

// Rows are arrays: a page is parsed on the loop.
json row_of(const Record& record) {
    return json::array({record.key, record.id, record.agent, text_or_null(record.user_id), record.title,
                        record.metadata, record.sandbox_id, static_cast<int>(record.status),
                        static_cast<int>(record.reason), record.idle_seconds, record.ttl_seconds,
                        millis(record.created_at), millis(record.last_active_at), record.first_seq,
                        record.last_seq, record.tools.read_before_edit});
}

Record record_in(const json& row) {
    Record record;
    record.key = row.at(0).get<std::int64_t>();
    record.id = row.at(1).get<std::string>();
    record.agent = row.at(2).get<std::string>();
    record.user_id = optional_text(row.at(3));
    record.title = row.at(4).get<std::string>();
    record.metadata = row.at(5).get<std::string>();
    record.sandbox_id = row.at(6).get<std::string>();
    record.status = static_cast<conversation::Status>(row.at(7).get<int>());
    record.reason = static_cast<conversation::PauseReason>(row.at(8).get<int>());
    record.idle_seconds = row.at(9).get<std::uint32_t>();
    record.ttl_seconds = row.at(10).get<std::uint32_t>();
    record.created_at = wall(row.at(11).get<std::int64_t>());
    record.last_active_at = wall(row.at(12).get<std::int64_t>());
    record.first_seq = row.at(13).get<std::uint64_t>();
    record.last_seq = row.at(14).get<std::uint64_t>();
    record.tools.read_before_edit = row.at(15).get<bool>();
    return record;
}

// Without its environment, as in every list.
json row_of(const sandbox::Record& record) {
    const auto& limits = record.limits;
    return json::array({record.id, record.conversation_id, text_or_null(record.user_id), record.generation,
                        static_cast<int>(record.network), record.metadata, millis(record.created_at),
                        record.ttl_seconds, record.gone, limits.memory_mb, limits.cpu_percent, limits.disk_mb,
                        limits.max_processes, limits.max_sockets, limits.max_open_files,
                        static_cast<int>(record.preview.access),
                        record.preview.wake ? json(*record.preview.wake) : json(nullptr),
                        record.preview.ports, limits.tmp_mb});
}

sandbox::Record sandbox_in(const json& row) {
    sandbox::Record record;
    record.id = row.at(0).get<std::string>();
    record.conversation_id = row.at(1).get<std::string>();
    record.user_id = optional_text(row.at(2));
    record.generation = row.at(3).get<std::uint32_t>();
    record.network = static_cast<sandbox::NetworkMode>(row.at(4).get<int>());
    record.metadata = row.at(5).get<std::string>();
    record.created_at = wall(row.at(6).get<std::int64_t>());
    record.ttl_seconds = row.at(7).get<std::uint32_t>();
    record.gone = row.at(8).get<bool>();
    record.limits.memory_mb = row.at(9).get<std::uint32_t>();
    record.limits.cpu_percent = row.at(10).get<std::uint32_t>();
    record.limits.disk_mb = row.at(11).get<std::uint32_t>();
    record.limits.max_processes = row.at(12).get<std::uint32_t>();
    record.limits.max_sockets = row.at(13).get<std::uint32_t>();
    record.limits.max_open_files = row.at(14).get<std::uint32_t>();
    record.preview.access = static_cast<sandbox::PreviewAccess>(row.at(15).get<int>());
    if (!row.at(16).is_null())
        record.preview.wake = row.at(16).get<bool>();
    record.preview.ports = row.at(17).get<std::vector<std::uint16_t>>();
    record.limits.tmp_mb = row.at(18).get<std::uint32_t>();
    return record;
}

json answer_conversations(Finder& finder, const json& question) {
    ListRange range;
    range.filter = filter_in(question.at("filter"));
    range.order = static_cast<conversation::ListOrder>(question.at("order").get<int>());
    range.from = place_in(question.at("from"));
    range.limit = question.at("limit").get<std::size_t>();
    const ConversationList found = finder.list(range);
    json rows = json::array();
    for (const auto& item : found.items)
        rows.push_back(json::array({row_of(item.record), row_of(item.sandbox)}));
    return {{"rows", std::move(rows)}, {"next", place_json(found.next)}};
}

json answer_sandboxes(Finder& finder, const json& question) {
    const SandboxRange range{optional_text(question.at("userId")), question.at("from").get<std::int64_t>(),
                             question.at("limit").get<std::size_t>()};
    const auto found = finder.list_sandboxes(range);
    json rows = json::array();
    for (const auto& record : found.items)
        rows.push_back(row_of(record));
    return {{"rows", std::move(rows)}, {"next", found.next_key}};
}

// Arrays as those of lists, since they are parsed on the loop, too.
json answer_turns(Finder& finder, std::int64_t key) {
    const StoredTurns found = finder.turns_of(key);
    json turns = json::array();
    for (const TurnRecord& turn : found.turns) {
        turns.push_back(json::array({turn.turn, turn.first_seq, turn.last_seq, turn.bytes}));
        if (turn.last_seq == 0) {
            turns.back().push_back(turn.idempotency_key);
            turns.back().push_back(turn.content_digest);
        }
    }
    json unrecorded = json::array();
    for (const LoggedTurn& turn : found.unrecorded)
        unrecorded.push_back(json::array({turn.turn, turn.first_seq, turn.last_seq, turn.bytes, turn.done}));
    return {{"key", key},
            {"lastTurn", found.last_turn},
            {"turns", std::move(turns)},
            {"unrecorded", std::move(unrecorded)},
            {"openBytes", found.open_bytes}};
}

}  // namespace

json question_of(const ListRange& range) {
    return {{"of", "conversations"},
            {"filter", filter_json(range.filter)},
            {"order", static_cast<int>(range.order)},
            {"from", place_json(range.from)},
            {"limit", range.limit}};
}

json question_of(const SandboxRange& range) {
    return {{"of", "sandboxes"},
            {"userId", text_or_null(range.user_id)},
            {"from", range.from_key},
            {"limit", range.limit}};
}

json question_of(const std::string& user_id, std::size_t limit) {
    return {{"of", "count"}, {"userId", user_id}, {"limit", limit}};
}

json question_of_turns(std::int64_t key) {
    return {{"of", "turns"}, {"key", key}};
}

json answer(Finder& finder, const json& question) {
    const std::string of = question.at("of").get<std::string>();
    try {
        if (of == "conversations")
            return answer_conversations(finder, question);
        if (of == "sandboxes")
            return answer_sandboxes(finder, question);
        if (of == "turns")
            return answer_turns(finder, question.at("key").get<std::int64_t>());
        return {{"count", finder.count_open(question.at("userId").get<std::string>(),
                                            question.at("limit").get<std::size_t>())}};
    } catch (const SQLite::Exception& error) {
        return {{"sqliteCode", error.getErrorCode()}, {"sqliteText", error.what()}};
    }
}

void check_answer(const json& answer) {
    if (answer.contains("sqliteCode"))
        throw SQLite::Exception(answer.at("sqliteText").get<std::string>(),
                                answer.at("sqliteCode").get<int>());
}

ConversationList conversations_in(const json& answer) {
    ConversationList found;
    for (const json& row : answer.at("rows"))
        found.items.push_back({record_in(row.at(0)), sandbox_in(row.at(1))});
    found.next = place_in(answer.at("next"));
    return found;
}

Listed<sandbox::Record> sandboxes_in(const json& answer) {
    Listed<sandbox::Record> found;
    for (const json& row : answer.at("rows"))
        found.items.push_back(sandbox_in(row));
    found.next_key = answer.at("next").get<std::int64_t>();
    return found;
}

std::size_t count_in(const json& answer) {
    return answer.at("count").get<std::size_t>();
}

StoredTurns turns_in(const json& answer) {
    StoredTurns found;
    found.last_turn = answer.at("lastTurn").get<std::uint64_t>();
    for (const json& row : answer.at("turns")) {
        TurnRecord& turn = found.turns.emplace_back();
        turn.conversation_key = answer.at("key").get<std::int64_t>();
        turn.turn = row.at(0).get<std::uint64_t>();
        turn.first_seq = row.at(1).get<std::uint64_t>();
        turn.last_seq = row.at(2).get<std::uint64_t>();
        turn.bytes = row.at(3).get<std::uint64_t>();
        if (turn.last_seq == 0) {
            turn.idempotency_key = row.at(4).get<std::string>();
            turn.content_digest = row.at(5).get<std::string>();
        }
    }
    for (const json& row : answer.at("unrecorded"))
        found.unrecorded.push_back({row.at(0).get<std::uint64_t>(), row.at(1).get<std::uint64_t>(),
                                    row.at(2).get<std::uint64_t>(), row.at(3).get<std::uint64_t>(),
                                    row.at(4).get<bool>()});
    found.open_bytes = answer.at("openBytes").get<std::uint64_t>();
    return found;
}

}  // namespace atl::store
