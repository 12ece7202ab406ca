// Lists: every filter, alone and with others, against a look at all rows; and their way through the helper.
#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/limits.hpp"
#include "core/store/finder.hpp"
#include "core/store/list_reads.hpp"
#include "core/store/record_text.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/list_reading.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace finder_test {

using namespace atl;
using namespace atl::conversation;
using nlohmann::json;
using store::SqliteStore;

namespace {

using Random = std::mt19937_64;

constexpr std::int64_t k_day_ms = 86'400'000;

std::int64_t below(Random& random, std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

base::WallTime at(std::int64_t millis) {
    return base::WallTime{base::Millis{millis}};
}

std::unique_ptr<SqliteStore> open(const std::filesystem::path& file) {
    auto opened = SqliteStore::open(file);
    REQUIRE(opened);
    return std::move(*opened);
}

/// Some of each kind, some created at the same time, some with a later key and an earlier time.
Record random_record(Random& random, std::int64_t key) {
    Record record;
    record.key = key;
    record.id = "conversation" + std::to_string(key);
    record.sandbox_id = "box" + std::to_string(key);
    record.agent = below(random, 4) == 0 ? "echo" : "shell";
    if (below(random, 3) > 0)
        record.user_id = "user" + std::to_string(below(random, 5));
    record.status = k_all_statuses.at(static_cast<std::size_t>(below(random, 5)));
    record.created_at = at(k_day_ms + (key * 1000 - below(random, 5000)) / 100 * 100);
    record.last_active_at = record.created_at + base::Millis{below(random, 20) * 1'000'000};
    record.title = "title";
    record.tools.read_before_edit = true;
    json metadata = {{"team", std::string(1, static_cast<char>('a' + below(random, 3)))},
                     {"number", below(random, 4) - 1},
                     {"is\"odd.", key % 2 == 1},
                     {"deep", {{"team", "a"}}},
                     {"half", 0.5},
                     {"none", nullptr},
                     {"long", std::string(300, 'l')}};
    record.metadata = below(random, 10) == 0 ? "{}" : metadata.dump();
    return record;
}

ListFilter random_filter(Random& random, std::int64_t rows) {
    ListFilter filter;
    const auto sometimes = [&] { return below(random, 4) == 0; };
    const auto time = [&] { return at(k_day_ms + below(random, rows * 1000)); };
    if (sometimes())
        filter.user_id = "user" + std::to_string(below(random, 6));
    if (sometimes())
        filter.agent = sometimes() ? "echo" : "shell";
    if (sometimes())
        filter.status = k_all_statuses.at(static_cast<std::size_t>(below(random, 5)));
    if (sometimes() && sometimes())
        filter.sandbox_id = "box" + std::to_string(below(random, rows) + 1);
    if (sometimes())
        filter.metadata.push_back({"team", std::string(1, static_cast<char>('a' + below(random, 4)))});
    if (sometimes())
        filter.metadata.push_back({"number", std::to_string(below(random, 4) - 1)});
    if (sometimes())
        filter.metadata.push_back({"is\"odd.", sometimes() ? "true" : "false"});
    for (auto* bound :
         {&filter.created_after, &filter.created_before, &filter.active_after, &filter.active_before}) {
        if (sometimes() && sometimes())
            *bound = time();
    }
    return filter;
}

using Keys = std::vector<std::int64_t>;

Keys listed_keys(Store& store, ListRange range, std::size_t* pages = nullptr) {
    Keys keys;
    do {
        const auto page = answered_at_once<ConversationList>(
            [&](ReadDone<ConversationList> done) { store.list(range, std::move(done)); });
        REQUIRE(page);
        for (const auto& item : page->items)
            keys.push_back(item.record.key);
        range.from = page->next;
        if (pages != nullptr)
            ++*pages;
    } while (range.from.key != 0);
    return keys;
}

/// Puts the record; true if a list then finds it. The server's own check of the record must say the same.
bool is_found_once_put(SqliteStore& store, const Record& record, const MetadataFilter& filter) {
    REQUIRE(test::commit(store, {PutConversation{record}}));
    ListRange range;
    range.filter.metadata = {filter};
    const bool is_found = !listed_keys(store, range).empty();
    CHECK(matches(range.filter, record) == is_found);
    return is_found;
}

Keys expected_keys(const std::vector<Record>& records, const ListRange& range) {
    std::vector<ListPlace> places;
    for (const Record& record : records) {
        if (matches(range.filter, record))
            places.push_back(place_of(record));
    }
    std::ranges::sort(places);
    if (range.order == ListOrder::newest_first)
        std::ranges::reverse(places);
    Keys keys;
    for (const ListPlace& place : places)
        keys.push_back(place.key);
    return keys;
}

sandbox::PreviewSettings preview_of(std::int64_t key) {
    sandbox::PreviewSettings preview;
    if (key % 3 == 0)
        preview = {
            sandbox::PreviewAccess::token_bearers, key % 2 == 0, {80, static_cast<std::uint16_t>(key)}};
    return preview;
}

std::vector<Record> fill(SqliteStore& store, Random& random, std::int64_t rows) {
    std::vector<Record> records;
    std::vector<Write> writes;
    for (std::int64_t key = 1; key <= rows; ++key) {
        records.push_back(random_record(random, key));
        sandbox::Record box;
        box.id = records.back().sandbox_id;
        box.conversation_id = records.back().id;
        box.generation = static_cast<std::uint32_t>(key);
        box.preview = preview_of(key);
        writes.insert(writes.end(), {PutConversation{records.back()}, PutSandbox{box}});
    }
    REQUIRE(test::commit(store, writes));
    return records;
}

bool can_be_read(const std::filesystem::path& file) {
    try {
        SQLite::Database other(file.string(), SQLite::OPEN_READONLY);
        return other.execAndGet("SELECT count(*) FROM conversations").getInt() >= 0;
    } catch (const SQLite::Exception&) {
        return false;
    }
}

}  // namespace

TEST_CASE("Every filter of a list finds what a look at all rows finds, in order and page by page") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    Random random(Catch::getSeed());
    CAPTURE(Catch::getSeed());
    constexpr std::int64_t k_rows = 600;
    std::vector<Record> records = fill(*store, random, k_rows);
    // A list finds changed conversations as they are now, and does not find erased ones.
    std::vector<Write> changes;
    for (Record& record : records) {
        if (record.key % 7 == 0) {
            record.metadata = random_record(random, record.key).metadata;
            record.status = Status::ended;
            record.last_active_at += base::Millis{3'600'000};
            changes.emplace_back(PutConversation{record});
        } else if (record.key % 11 == 0) {
            changes.emplace_back(EraseConversation{record.key});
        }
    }
    REQUIRE(test::commit(*store, changes));
    std::erase_if(records, [](const Record& record) { return record.key % 7 != 0 && record.key % 11 == 0; });
    std::size_t found = 0;
    for (int trial = 0; trial < 400; ++trial) {
        ListRange range;
        range.filter = random_filter(random, k_rows);
        range.order = below(random, 2) == 0 ? ListOrder::newest_first : ListOrder::oldest_first;
        range.limit = static_cast<std::size_t>(below(random, 100) + 1);
        CAPTURE(trial, store::json_text(range));
        const Keys keys = listed_keys(*store, range);
        CHECK(keys == expected_keys(records, range));
        found += keys.size();
    }
    CHECK(found > 1000);
}

TEST_CASE("Values of metadata match as strings, integers and booleans of the top level") {
    Record record;
    record.metadata =
        R"({"s":"x","n":7,"minus":-7,"yes":true,"half":0.5,"none":null,"o":{"s":"x"},"a":["x"],"":"e"})";
    record.key = 1;
    record.id = "c1";
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    const auto finds = [&](const std::string& name, const std::string& value) {
        return is_found_once_put(*store, record, {name, value});
    };
    CHECK(finds("s", "x"));
    CHECK(finds("n", "7"));
    CHECK(finds("minus", "-7"));
    CHECK(finds("yes", "true"));
    CHECK(finds("", "e"));
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"s", "y"},
                                                                                      {"s", ""},
                                                                                      {"n", "7.0"},
                                                                                      {"yes", "1"},
                                                                                      {"half", "0.5"},
                                                                                      {"none", "null"},
                                                                                      {"o", "{\"s\":\"x\"}"},
                                                                                      {"o.s", "x"},
                                                                                      {"a", "x"},
                                                                                      {"missing", "x"}})
        CHECK_FALSE(finds(name, value));
}

TEST_CASE(
    "Metadata that SQLite and the server could take differently is found the same by both, or not at all") {
    std::string many = "{";
    for (int at = 100; at < 200; ++at)
        many += "\"k" + std::to_string(at) + "\":1,";
    many.back() = '}';
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    Record record;
    record.key = 1;
    record.id = "c1";
    const auto finds = [&](const std::string& metadata, const std::string& name, const std::string& value) {
        // Also as a change of the metadata before.
        record.metadata = metadata;
        return is_found_once_put(*store, record, {name, value});
    };
    CHECK_FALSE(finds(R"({"a\u0000b":"x","a\u0000c":"x"})", "a", "x"));
    CHECK_FALSE(finds(R"({"a":"x\u0000y"})", "a", "x"));
    CHECK_FALSE(finds(R"({"a":18446744073709551615})", "a", "18446744073709551615"));
    CHECK(finds(R"({"a":9223372036854775807})", "a", "9223372036854775807"));
    CHECK(finds(R"({"a":-9223372036854775808})", "a", "-9223372036854775808"));
    CHECK(finds(many, "k163", "1"));
    CHECK_FALSE(finds(many, "k164", "1"));
    CHECK(finds("{\"\u00e4\":\"\u20ac\"}", "\u00e4", "\u20ac"));
    CHECK_FALSE(finds("{}", "k163", "1"));
}

TEST_CASE("A log that begins later twice before its events are purged is purged once, to the last place") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    Record record;
    record.key = 1;
    record.id = "c1";
    const auto begins_at = [&](std::uint64_t seq) {
        record.first_seq = seq;
        return PutConversation{record};
    };
    REQUIRE(test::commit(*store, {begins_at(1)}));
    REQUIRE(test::commit(*store, {begins_at(5)}));
    REQUIRE(test::commit(*store, {begins_at(6), begins_at(7)}));
    const auto left = test::load_start(*store)->left_events;
    REQUIRE(left.size() == 1);
    CHECK(left.front().below_seq == 7);
    REQUIRE(test::commit(*store, {EraseConversation{1}}));
    CHECK(test::load_start(*store)->left_events.size() == 1);
}

TEST_CASE("A list walks the index that leaves the fewest rows") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    std::vector<Write> writes;
    constexpr std::int64_t k_rows = 3 * static_cast<std::int64_t>(base::k_list_scan_items);
    for (std::int64_t key = 1; key <= k_rows; ++key) {
        Record record;
        record.key = key;
        record.id = "conversation" + std::to_string(key);
        record.agent = "shell";
        record.status = Status::paused;
        record.user_id = key % 2 == 0 ? "many" : "few " + std::to_string(key % 1000);
        record.metadata = key == 5 ? R"({"team":"rare"})" : R"({"team":"usual"})";
        record.created_at = at(k_day_ms + key);
        record.last_active_at = at(key == 6 ? 90 * k_day_ms : k_day_ms + key);
        writes.emplace_back(PutConversation{record});
    }
    REQUIRE(test::commit(*store, writes));
    const auto pages = [&](const ListFilter& filter, std::size_t expected) {
        for (const auto order : {ListOrder::newest_first, ListOrder::oldest_first}) {
            std::size_t count = 0;
            CHECK(listed_keys(*store, {filter, order, {}, 1000}, &count).size() == expected);
            CHECK(count == 1);
        }
    };
    pages({.status = Status::paused, .agent = "shell", .metadata = {{"team", "rare"}}}, 1);
    pages({.status = Status::paused, .user_id = "few 5", .agent = "shell", .metadata = {{"team", "usual"}}},
          5);
    pages({.status = Status::error, .agent = "shell", .metadata = {{"team", "usual"}}}, 0);
    pages({.agent = "shell", .active_after = at(80 * k_day_ms)}, 1);
    pages({.agent = "shell", .created_after = at(k_day_ms + 10), .created_before = at(k_day_ms + 12)}, 2);
    // Two large sets without a row in common: pages without items lead to the end.
    ListRange none;
    none.filter = {.user_id = "many", .metadata = {{"team", "nowhere"}}};
    CHECK(listed_keys(*store, none).empty());
    std::size_t count = 0;
    none.filter = {.user_id = "many", .active_before = at(k_day_ms)};
    CHECK(listed_keys(*store, none, &count).empty());
    CHECK(count > 1);
}

TEST_CASE("A helper reads lists over its own connection, and the database is shared only meanwhile") {
    const test::TempDir dir;
    const auto file = dir.path() / "db";
    const auto store = open(file);
    Random random(Catch::getSeed());
    const auto records = fill(*store, random, 50);
    test::FakeClock clock;
    test::FakeTimers timers(clock);
    test::ListReading helper;
    REQUIRE(store->set_sharing(SqliteStore::Sharing::exclusive));
    // The lock is taken with a write.
    REQUIRE(test::commit(*store, {PutConversation{records.front()}}));
    CHECK_FALSE(can_be_read(file));
    {
        store::ListReads reads(timers, helper, *store, file);
        ListRange range;
        range.filter.agent = "shell";
        range.limit = 1000;
        std::optional<base::Result<ConversationList>> answer;
        const auto ask = [&] {
            store->list(range, [&](base::Result<ConversationList> listed) { answer = std::move(listed); });
        };
        ask();
        CHECK_FALSE(answer);
        // A commit between the question and the answer.
        Record changed = records.front();
        changed.title = "another";
        REQUIRE(test::commit(*store, {PutConversation{changed}}));
        helper.answer_all();
        REQUIRE(answer);
        REQUIRE(*answer);
        Keys keys;
        for (const auto& item : (*answer)->items) {
            keys.push_back(item.record.key);
            CHECK(item.sandbox.generation == item.record.key);
            CHECK(item.sandbox.preview == preview_of(item.record.key));
            const Record& put = records.at(static_cast<std::size_t>(item.record.key - 1));
            CHECK(item.record.metadata == put.metadata);
            CHECK(item.record.user_id == put.user_id);
            CHECK(item.record.last_active_at == put.last_active_at);
        }
        CHECK(keys == expected_keys(records, range));
        std::size_t count = 0;
        store->count_open("user1", 1000, [&](base::Result<std::size_t> open) { count = open.value(); });
        std::size_t boxes = 0;
        store->list_sandboxes({}, [&](auto listed) { boxes = listed->items.size(); });
        helper.answer_all();
        CHECK(boxes == 50);
        CHECK(count == static_cast<std::size_t>(std::ranges::count_if(records, [](const Record& record) {
                  return record.user_id == "user1" && record.status != Status::ended;
              })));
        CHECK(can_be_read(file));

        // Unused for a while it is closed first, and then the store's alone again.
        timers.advance(store::ListReads::k_shared_after_use);
        CHECK(can_be_read(file));
        helper.answer_all();
        CHECK_FALSE(helper.opened);
        REQUIRE(test::commit(*store, {PutConversation{changed}}));
        CHECK_FALSE(can_be_read(file));

        // A question that comes while it is being closed.
        answer.reset();
        ask();
        helper.answer_all();
        timers.advance(store::ListReads::k_shared_after_use);
        ask();
        answer.reset();
        helper.answer_all();
        REQUIRE(answer);
        CHECK(answer->has_value());
        CHECK(can_be_read(file));
    }
    // Without the helper the store answers by itself.
    CHECK(listed_keys(*store, {}).size() == 50);
}

TEST_CASE("The sandboxes of a user are those of open conversations and those without one") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    std::vector<Write> writes;
    for (int i = 0; i < 6; ++i) {
        Record record;
        record.key = i + 1;
        record.id = "c" + std::to_string(i);
        record.sandbox_id = "of" + record.id;
        record.user_id = i % 2 == 0 ? "ann" : "bob";
        record.status = i == 4 ? Status::ended : Status::paused;
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        box.gone = i == 4;
        writes.insert(writes.end(), {PutSandbox{box}, PutConversation{record}});
        sandbox::Record loose;
        loose.id = "loose" + std::to_string(i);
        if (i < 2)
            loose.user_id = "ann";
        writes.emplace_back(PutSandbox{loose});
    }
    REQUIRE(test::commit(*store, writes));
    const auto ids = [&](const std::optional<std::string>& user, std::size_t limit) {
        std::vector<std::string> found;
        SandboxRange range{user, 0, limit};
        do {
            const auto page = answered_at_once<Listed<sandbox::Record>>(
                [&](auto done) { store->list_sandboxes(range, std::move(done)); });
            REQUIRE(page);
            for (const auto& record : page->items)
                found.push_back(record.id);
            range.from_key = page->next_key;
        } while (range.from_key != 0);
        return found;
    };
    using Ids = std::vector<std::string>;
    for (const std::size_t limit : {1, 2, 100}) {
        CHECK(ids("ann", limit) == Ids{"ofc0", "loose0", "loose1", "ofc2"});
        CHECK(ids("nobody", limit).empty());
        CHECK(ids({}, limit).size() == 11);
    }
}

}  // namespace finder_test
