// The fields of all that the store keeps, or passes between the server and its helper: each is named once.
// record_text.hpp makes SQL, rows, JSON objects and JSON arrays of them. Internal to core/store and to
// atoll-helper.
//
// A new stored field is a member of its record and a line here, or a row of a table of fields
// (core/base/field_table.hpp): rows from before it lack the member of `rest`, and keep the record's
// default.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/sandbox/limit_table.hpp"
#include "core/sandbox/operations.hpp"
#include "core/store/questions.hpp"
#include "core/store/schema.hpp"

namespace atl::store {

/// Where a row has a field.
enum class Kept : std::uint8_t {
    rest,      // as a member of the JSON object in the column `rest`, unless it is empty
    column,    // as a column: SQL finds or sorts by it, or a change of the status writes it
    fixed,     // as a column that is written once, with a new row
    unlisted,  // as a column that lists leave out
    in_id,     // in the row's id; read and written apart from the others
};

/// The range counts for numbers in rows, and for the items of a list of numbers.
struct Field {
    std::string_view name{};
    Kept kept = Kept::rest;
    std::int64_t least = 0;
    std::int64_t most = (std::int64_t{1} << 53) - 1;  // a sum of a time and a duration has room
};

template <class T, class Kind>
concept A = std::same_as<std::remove_const_t<T>, Kind>;

/// The fields of a type whose values have their places alone.
void each_of(auto&& visit, const Field& field, auto&... members) {
    (visit(field, members), ...);
}

inline constexpr std::int64_t k_max_seq = (std::int64_t{1} << k_seq_bits) - 1;

void each_field(A<sandbox::ToolSettings> auto& tools, auto&& visit) {
    for (const sandbox::ToolSettingEntry& setting : sandbox::k_tool_settings)
        visit({setting.api}, tools.*setting.value);
}

void each_client_field(const auto& table, auto& record, auto&& visit) {
    base::each_row(table, [&](const auto& row) { visit({row.api}, record.*row.value); });
}

void each_field(A<conversation::Record> auto& record, auto&& visit) {
    using enum Kept;
    visit({"key", fixed, 0, k_max_key}, record.key);
    visit({"id", fixed}, record.id);
    visit({"agent", fixed}, record.agent);
    visit({"user_id", fixed}, record.user_id);
    visit({"metadata", column}, record.metadata);
    visit({"sandbox_id", fixed}, record.sandbox_id);
    visit({"status", column}, record.status);
    visit({"reason", column}, record.reason);
    visit({"ttl_seconds", column}, record.ttl_seconds);
    visit({"created_at", fixed}, record.created_at);
    visit({"last_active_at", column}, record.last_active_at);
    visit({"first_seq", column, 1, k_max_seq}, record.first_seq);
    visit({"last_seq", in_id}, record.last_seq);
    visit({"create_key", unlisted}, record.create_key);
    visit({"create_digest", unlisted}, record.create_digest);
    each_client_field(conversation::k_client_fields, record, visit);
    visit({"madeBy"}, record.made_by);
    each_field(record.tools, visit);
    visit({"logBytes"}, record.log_bytes);
}

void each_field(A<sandbox::Limits> auto& limits, auto&& visit) {
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        visit({limit.api}, limits.*limit.value);
}

void each_field(A<sandbox::RouteHeader> auto& header, auto&& visit) {
    each_of(visit, {}, header.name, header.value, header.secret);
}

void each_field(A<sandbox::EgressRoute> auto& route, auto&& visit) {
    each_of(visit, {}, route.name, route.upstream, route.headers, route.methods, route.paths, route.git);
}

void each_field(A<sandbox::Record> auto& record, auto&& visit) {
    using enum Kept;
    visit({"id", fixed}, record.id);
    visit({"conversation_id", column}, record.conversation_id);
    visit({"user_id", fixed}, record.user_id);
    visit({"gone", column}, record.gone);
    visit({"env", unlisted}, record.env);
    visit({"generation"}, record.generation);
    visit({"network"}, record.network);
    visit({"egressAllow"}, record.egress.allow);
    visit({"egressUserId"}, record.egress.user_id);
    visit({"egressRoutes"}, record.egress.routes);
    visit({"egressHosts"}, record.egress.hosts);
    visit({"egressAsk"}, record.egress.ask);
    visit({"egressRulesUserId"}, record.egress.of_user.user_id);
    visit({"egressUserRules"}, record.egress.of_user.rules);
    each_field(record.limits, visit);
    visit({"previewAccess"}, record.preview.access);
    visit({"previewWake"}, record.preview.wake);
    visit({"previewPorts", rest, 1}, record.preview.ports);
    visit({"previewAnyPort"}, record.preview.any_port);
    each_field(record.tools, visit);
    visit({"metadata"}, record.metadata);
    visit({"createdAt"}, record.created_at);
    each_client_field(sandbox::k_client_fields, record, visit);
}

void each_field(A<sandbox::TerminalSize> auto& size, auto&& visit) {
    each_of(visit, {}, size.columns, size.rows);
}

void each_field(A<sandbox::Environment::value_type> auto& variable, auto&& visit) {
    each_of(visit, {}, variable.first, variable.second);
}

void each_field(A<sandbox::ProcessSpec> auto& process, auto&& visit) {
    visit({"id"}, process.id);
    visit({"tag"}, process.tag);
    visit({"command"}, process.program.command);
    visit({"argv"}, process.program.argv);
    visit({"directory"}, process.program.directory);
    visit({"env"}, process.program.env);
    visit({"timeoutMs"}, process.program.timeout);
    visit({"stdin"}, process.program.stdin_kind);
    visit({"terminal"}, process.terminal);
}

void each_field(A<conversation::TurnRecord> auto& turn, auto&& visit) {
    using enum Kept;
    visit({"conversation_key", in_id}, turn.conversation_key);
    visit({"turn", in_id}, turn.turn);
    visit({"idempotency_key", column}, turn.idempotency_key);
    visit({"content_digest", column}, turn.content_digest);
    visit({"first_seq", column, 0, k_max_seq}, turn.first_seq);
    visit({"last_seq", column, 0, k_max_seq}, turn.last_seq);
    visit({"bytes", column}, turn.bytes);
}

void each_field(A<conversation::LoggedTurn> auto& turn, auto&& visit) {
    each_of(visit, {"", Kept::column}, turn.turn, turn.first_seq, turn.last_seq, turn.bytes, turn.done);
}

void each_field(A<conversation::PreviewNumber> auto& row, auto&& visit) {
    each_of(visit, {"", Kept::column}, row.number, row.sandbox_id, row.freed, row.is_stale);
}

void each_field(A<conversation::Ending> auto& ending, auto&& visit) {
    each_of(visit, {"", Kept::column}, ending.id, ending.created_at, ending.life);
}

// The requests and results of lists and loads.

void each_field(A<conversation::ListPlace> auto& place, auto&& visit) {
    each_of(visit, {}, place.created_at, place.key);
}

void each_field(A<conversation::MetadataFilter> auto& member, auto&& visit) {
    each_of(visit, {}, member.name, member.value);
}

void each_field(A<conversation::ListFilter> auto& filter, auto&& visit) {
    each_of(visit, {}, filter.status, filter.user_id, filter.agent, filter.sandbox_id, filter.metadata,
            filter.created_after, filter.created_before, filter.active_after, filter.active_before);
}

void each_field(A<conversation::ListRange> auto& range, auto&& visit) {
    each_of(visit, {}, range.filter, range.order, range.from, range.limit);
}

void each_field(A<conversation::SandboxRange> auto& range, auto&& visit) {
    each_of(visit, {}, range.user_id, range.from_key, range.limit);
}

void each_field(A<OpenCount> auto& count, auto&& visit) {
    each_of(visit, {}, count.user_id, count.limit);
}

void each_field(A<TurnsOf> auto& turns, auto&& visit) {
    each_of(visit, {}, turns.key);
}

void each_field(A<LargestLogs> auto& question, auto&& visit) {
    each_of(visit, {}, question.limit);
}

void each_field(A<conversation::LogRange> auto& range, auto&& visit) {
    each_of(visit, {}, range.after_key, range.last_key);
}

void each_field(A<conversation::LogSize> auto& log, auto&& visit) {
    each_of(visit, {}, log.user_id, log.bytes, log.sandbox_id);
}

void each_field(A<conversation::Listed<conversation::LogSize>> auto& list, auto&& visit) {
    each_of(visit, {}, list.items, list.next_key);
}

void each_field(A<conversation::ListedConversation> auto& item, auto&& visit) {
    each_of(visit, {}, item.record, item.sandbox);
}

void each_field(A<conversation::ConversationList> auto& list, auto&& visit) {
    each_of(visit, {}, list.items, list.next);
}

void each_field(A<conversation::Listed<sandbox::Record>> auto& list, auto&& visit) {
    each_of(visit, {}, list.items, list.next_key);
}

void each_field(A<StoredTurns> auto& stored, auto&& visit) {
    each_of(visit, {}, stored.last_turn, stored.turns, stored.unrecorded, stored.open_bytes,
            stored.open_questions.permissions, stored.open_questions.hosts);
}

/// The last value of an enum: code that looks for one value would take any other number for the rest.
template <class Enum>
inline constexpr std::int64_t k_last =
    std::same_as<Enum, conversation::Status>        ? std::int64_t(conversation::k_all_statuses.back())
    : std::same_as<Enum, conversation::PauseReason> ? std::int64_t(conversation::PauseReason::ttl)
    : std::same_as<Enum, conversation::ListOrder>   ? std::int64_t(conversation::ListOrder::newest_first)
    : std::same_as<Enum, sandbox::NetworkMode>      ? std::int64_t(sandbox::NetworkMode::egress)
    : std::same_as<Enum, sandbox::PreviewAccess>    ? std::int64_t(sandbox::PreviewAccess::token_bearers)
    : std::same_as<Enum, sandbox::RunSpec::Stdin>   ? std::int64_t(sandbox::RunSpec::Stdin::pipe)
                                                    : -1;

/// The table that has the rows of a record.
template <class Record>
inline constexpr const char* k_table = std::same_as<Record, conversation::Record>          ? "conversations"
                                       : std::same_as<Record, conversation::Ending>        ? "conversations"
                                       : std::same_as<Record, conversation::TurnRecord>    ? "turns"
                                       : std::same_as<Record, conversation::LoggedTurn>    ? "events"
                                       : std::same_as<Record, conversation::PreviewNumber> ? "preview_numbers"
                                       : std::same_as<Record, sandbox::Record>             ? "sandboxes"
                                                                                           : "kept_processes";

}  // namespace atl::store
