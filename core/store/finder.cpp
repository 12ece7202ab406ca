#include "core/store/finder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/base/limits.hpp"
#include "core/store/record_text.hpp"
#include "core/store/row_ids.hpp"
#include "core/store/turn_sql.hpp"

namespace atl::store {

using conversation::ConversationList;
using conversation::Listed;
using conversation::ListFilter;
using conversation::ListOrder;
using conversation::ListPlace;
using conversation::ListRange;
using conversation::Record;
using conversation::Status;

namespace {

constexpr std::int64_t k_hour_ms = 3'600'000;
constexpr std::size_t k_few_rows = 16;
// The bytes of metadata in the rows that a page may look at: SQLite reads long rows whole.
constexpr std::size_t k_looked_at_bytes = 1024UL * 1024;

bool has_range_of_activity(const ListFilter& filter) {
    return filter.active_after || filter.active_before;
}

/// The bounds on when a conversation was created, as SQL with the numbers in it.
std::string created_within(const ListFilter& filter, const std::string& table) {
    std::string sql;
    if (filter.created_after)
        sql += " AND " + table + ".created_at >= " + std::to_string(millis(*filter.created_after));
    if (filter.created_before)
        sql += " AND " + table + ".created_at < " + std::to_string(millis(*filter.created_before));
    return sql;
}

}  // namespace

/// A page that is being filled.
struct Finder::Page {
    const ListRange& range;
    ConversationList found{};
    ListPlace last{};
    std::size_t bytes = 0;
    std::size_t seen = 0;
    std::size_t seen_bytes = 0;
};

Finder::Finder(SQLite::Database& database)
    : database_(database),
      log_ends_(database),
      sandbox_(database, select<sandbox::Record>(Columns::listed) + "sandboxes WHERE id = ?"),
      by_key_(database, select<Record>(Columns::listed) + "conversations WHERE key = ?"),
      has_member_(database,
                  "SELECT 1 FROM metadata_members WHERE name = ? AND value = ? AND created_at = ? "
                  "AND key = ?"),
      turns_(database) {}

/// The likely narrowest first.
std::vector<Finder::Walk> Finder::walks_of(const ListFilter& filter) {
    if (filter.sandbox_id)
        return {{"sandboxes s CROSS JOIN conversations c ON c.id = s.conversation_id",
                 "s.id = ?",
                 {*filter.sandbox_id},
                 "c"}};
    std::vector<Walk> walks;
    for (const auto& member : filter.metadata)
        walks.push_back({"metadata_members m CROSS JOIN conversations c ON c.key = m.key",
                         "m.name = ? AND m.value = ?",
                         {member.name, member.value},
                         "m",
                         "metadata_members m"});
    if (filter.user_id)
        walks.push_back(
            {"conversations c INDEXED BY conversations_by_user", "c.user_id = ?", {*filter.user_id}, "c"});
    if (filter.status)
        walks.push_back({"conversations c INDEXED BY conversations_by_status",
                         "c.status = ?",
                         {static_cast<std::int64_t>(*filter.status)},
                         "c"});
    if (filter.agent)
        walks.push_back(
            {"conversations c INDEXED BY conversations_by_agent", "c.agent = ?", {*filter.agent}, "c"});
    if (walks.empty())
        walks.push_back({"conversations c INDEXED BY conversations_by_creation", "1", {}, "c"});
    return walks;
}

void Finder::bind(SQLite::Statement& statement, const Values& values) {
    for (int at = 0; const auto& value : values)
        std::visit([&](const auto& each) { statement.bind(++at, each); }, value);
}

/// How many rows a walk has, `limit` at most.
std::size_t Finder::count(const Walk& walk, const ListFilter& filter, std::size_t limit) {
    SQLite::Statement statement(database_, "SELECT count(*) FROM (SELECT 1 FROM " +
                                               (walk.counted.empty() ? walk.from : walk.counted) + " WHERE " +
                                               walk.where + created_within(filter, walk.place) + " LIMIT " +
                                               std::to_string(limit) + ")");
    bind(statement, walk.values);
    statement.executeStep();
    return unsigned_at(statement, 0);
}

/// The places of those whose hour of activity is in the filter's range, in the list's order; `limit` of them
/// if there are as many or more, unsorted.
std::vector<ListPlace> Finder::find_active(const ListRange& range, std::size_t limit) {
    const ListFilter& filter = range.filter;
    SQLite::Statement statement(database_,
                                "SELECT c.created_at, c.key FROM conversations c INDEXED BY "
                                "conversations_by_active_hour WHERE c.last_active_at / 3600000 >= ? AND "
                                "c.last_active_at / 3600000 <= ? LIMIT ?");
    statement.bind(1, filter.active_after ? millis(*filter.active_after) / k_hour_ms : 0);
    statement.bind(2, filter.active_before ? millis(*filter.active_before) / k_hour_ms
                                           : std::numeric_limits<std::int64_t>::max());
    statement.bind(3, static_cast<std::int64_t>(limit));
    std::vector<ListPlace> places;
    while (statement.executeStep())
        places.push_back({wall(statement.getColumn(0).getInt64()), statement.getColumn(1).getInt64()});
    if (places.size() >= limit)
        return places;
    const bool is_newest_first = range.order == ListOrder::newest_first;
    std::erase_if(places, [&](const ListPlace& place) {
        return range.from.key != 0 && (is_newest_first ? place >= range.from : place <= range.from);
    });
    std::ranges::sort(
        places, [&](const ListPlace& a, const ListPlace& b) { return is_newest_first ? a > b : a < b; });
    return places;
}

ConversationList Finder::find(const ListRange& range) {
    Page page{range};
    std::vector<Walk> walks = walks_of(range.filter);
    std::size_t fewest = base::k_list_scan_items + 1;
    const Walk* chosen = walks.data();
    const bool has_choice =
        walks.size() > 1 || (has_range_of_activity(range.filter) && !range.filter.sandbox_id);
    for (const Walk& each : walks) {
        if (!has_choice)
            break;
        const std::size_t rows = count(each, range.filter, fewest);
        if (rows < fewest) {
            fewest = rows;
            chosen = &each;
        }
    }
    // A few rows are looked at sooner than another index.
    if (has_range_of_activity(range.filter) && fewest > k_few_rows) {
        const auto active = find_active(range, fewest);
        if (active.size() < fewest) {
            visit(active, page);
            return std::move(page.found);
        }
    }
    walk(*chosen, range, page);
    return std::move(page.found);
}

void Finder::walk(const Walk& walk, const ListRange& range, Page& page) {
    const bool is_newest_first = range.order == ListOrder::newest_first;
    const std::string created_at = walk.place + ".created_at";
    const std::string key = walk.place + ".key";
    std::string sql = select<Record>(Columns::listed, "c") + walk.from + " WHERE " + walk.where +
                      created_within(range.filter, walk.place);
    if (range.from.key != 0)
        sql += " AND (" + created_at + ", " + key + ") " + (is_newest_first ? "<" : ">") + " (" +
               std::to_string(millis(range.from.created_at)) + ", " + std::to_string(range.from.key) + ")";
    const char* const direction = is_newest_first ? " DESC" : "";
    sql += " ORDER BY " + created_at + direction + ", " + key + direction;
    SQLite::Statement rows(database_, sql);
    bind(rows, walk.values);
    while (rows.executeStep() && look(rows, page)) {
    }
}

void Finder::visit(const std::vector<ListPlace>& places, Page& page) {
    for (const ListPlace& place : places) {
        Rows row(by_key_);
        row->bind(1, place.key);
        if (row.next() && !look(by_key_, page))
            return;
    }
}

/// Takes the row into the page if it matches; false: the page is full, and this row not in it.
bool Finder::look(SQLite::Statement& row, Page& page) {
    if (page.found.items.size() == page.range.limit || page.bytes > base::k_list_page_bytes ||
        page.seen++ == base::k_list_scan_items || page.seen_bytes > k_looked_at_bytes) {
        page.found.next = page.last;
        return false;
    }
    Record record;
    read_columns(row, record);
    page.last = place_of(record);
    page.seen_bytes += record.metadata.size();
    if (!matches_fields(page.range.filter, record, record.status) ||
        !has_members(page.range.filter, page.last))
        return true;
    read_rest(row, record);
    log_ends_.set(record);
    page.bytes += record.metadata.size() + base::k_list_item_bytes;
    auto& item = page.found.items.emplace_back();
    Rows sandbox(sandbox_);
    sandbox->bind(1, record.sandbox_id);
    if (sandbox.next())
        item.sandbox = read_row<sandbox::Record>(sandbox_);
    item.record = std::move(record);
    return true;
}

bool Finder::has_members(const ListFilter& filter, const ListPlace& place) {
    return std::ranges::all_of(filter.metadata, [&](const conversation::MetadataFilter& member) {
        Rows row(has_member_);
        row->bindNoCopy(1, member.name);
        row->bindNoCopy(2, member.value);
        row->bind(3, millis(place.created_at));
        row->bind(4, place.key);
        return row.next();
    });
}

Listed<sandbox::Record> Finder::find(const conversation::SandboxRange& range) {
    // A user's are few: the user's own, and those of conversations that have not ended (3).
    const char* const of_user =
        "s.key IN (SELECT key FROM sandboxes WHERE user_id = ?3 UNION ALL SELECT b.key FROM conversations c "
        "CROSS JOIN sandboxes b ON b.id = c.sandbox_id WHERE c.user_id = ?3 AND c.status <> 3) AND ";
    SQLite::Statement statement(
        database_, select<sandbox::Record>(Columns::listed, "s") + "sandboxes s " +
                       (range.user_id ? "WHERE " : "INDEXED BY present_sandboxes WHERE ") +
                       (range.user_id ? of_user : "") + "s.gone = 0 AND s.key > ?1 ORDER BY s.key LIMIT ?2");
    statement.bind(1, range.from_key);
    statement.bind(2, static_cast<std::int64_t>(base::k_list_scan_items) + 1);
    if (range.user_id)
        statement.bind(3, *range.user_id);
    Listed<sandbox::Record> listed;
    std::size_t bytes = 0;
    std::int64_t last = 0;
    for (std::size_t seen = 0; statement.executeStep(); ++seen) {
        if (listed.items.size() == range.limit || bytes > base::k_list_page_bytes ||
            seen == base::k_list_scan_items) {
            listed.next_key = last;
            break;
        }
        last = statement.getColumn(0).getInt64();
        auto record = read_row<sandbox::Record>(statement);
        bytes += record.metadata.size() + base::k_list_item_bytes;
        listed.items.push_back(std::move(record));
    }
    return listed;
}

std::size_t Finder::find(const OpenCount& count) {
    SQLite::Statement statement(database_,
                                "SELECT count(*) FROM (SELECT 1 FROM conversations INDEXED BY "
                                "open_conversations_by_user WHERE user_id = ?1 AND status <> 3 LIMIT ?2)");
    statement.bind(1, count.user_id);
    statement.bind(2, static_cast<std::int64_t>(count.limit));
    statement.executeStep();
    return unsigned_at(statement, 0);
}

Listed<conversation::LogSize> Finder::find(const conversation::LogRange& range) {
    SQLite::Statement rows(database_, std::string(k_log_sizes_sql) + k_logs_of_range_sql);
    rows.bind(1, range.after_key);
    rows.bind(2, range.last_key);
    rows.bind(3, static_cast<std::int64_t>(base::k_logs_counted_at_once));
    Listed<conversation::LogSize> found;
    while (rows.executeStep()) {
        found.next_key = rows.getColumn(0).getInt64();
        auto& log = found.items.emplace_back();
        if (!rows.getColumn(1).isNull())
            log.user_id = rows.getColumn(1).getString();
        log.bytes = unsigned_at(rows, 2);
        log.sandbox_id = rows.getColumn(3).getString();
    }
    if (found.items.size() < base::k_logs_counted_at_once)
        found.next_key = 0;
    return found;
}

std::vector<std::string> Finder::find(const LargestLogs& question) {
    SQLite::Statement logs(database_, std::string(k_log_sizes_sql) + k_largest_logs_sql);
    logs.bind(1, static_cast<std::int64_t>(question.limit));
    std::vector<std::string> found;
    while (logs.executeStep())
        found.push_back(logs.getColumn(0).getString());
    return found;
}

std::string Finder::answer(const std::string& question) {
    Question asked;
    if (!read_json(nlohmann::json::parse(question), asked))
        throw std::invalid_argument("this is no question");
    return std::visit([this](const auto& each) { return json_text(find(each)); }, asked);
}

}  // namespace atl::store
