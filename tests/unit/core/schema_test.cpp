#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "core/store/record_text.hpp"
#include "core/store/schema.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/store_calls.hpp"

namespace schema_test {

using namespace atl;
using namespace atl::conversation;
using store::SqliteStore;

namespace {

std::unique_ptr<SqliteStore> open(const std::filesystem::path& file) {
    auto opened = SqliteStore::open(file);
    REQUIRE(opened);
    return std::move(*opened);
}

sandbox::Record box(const std::string& id) {
    sandbox::Record record;
    record.id = id;
    return record;
}

std::vector<std::string> box_ids(SqliteStore& store) {
    const auto state = test::load_start(store);
    REQUIRE(state);
    std::vector<std::string> ids;
    for (const auto& record : state->standalone)
        ids.push_back(record.id);
    std::ranges::sort(ids);
    return ids;
}

/// Other values than a new record has, of every field, also of one that is added some day.
void fill(auto& record, int round) {
    int next = round;
    store::each_field(record, [&]<class T>(const store::Field&, T& member) {
        ++next;
        if constexpr (std::same_as<T, bool>)
            member = round == 1;
        else if constexpr (std::is_enum_v<T>)
            member = static_cast<T>(1);
        else if constexpr (std::is_integral_v<T>)
            member = static_cast<T>(next);
        else if constexpr (store::k_is_time<T>)
            member = T(base::Millis(next));
        else if constexpr (std::same_as<T, std::string>)
            member = R"({"a\u0000":"\u00e4\n)" + std::to_string(next) + "\"}";
        else if constexpr (std::same_as<T, std::optional<std::string>>)
            member = "\xc3\xa4 " + std::to_string(next);
        else if constexpr (std::same_as<T, std::vector<std::string>>)
            member = {"", std::to_string(next)};
        else if constexpr (std::same_as<T, std::vector<std::uint16_t>>)
            member = {static_cast<std::uint16_t>(next), 65535, 1};
        else if constexpr (std::same_as<T, sandbox::Environment>)
            member = {{"B", ""}, {"A", "x=y\n" + std::to_string(next)}};
        else if constexpr (std::same_as<T, std::optional<sandbox::TerminalSize>>)
            member = sandbox::TerminalSize{static_cast<std::uint16_t>(next), 65535};
        else if constexpr (std::same_as<T, std::vector<sandbox::EgressRoute>>)
            member = {{"r" + std::to_string(next),
                       "https://a.example:443/x",
                       {{"authorization", "Bearer ", "key"}, {"x-a", "\xc3\xa4", ""}},
                       {"GET"},
                       {"/v1/*", ""},
                       true},
                      {"s", "https://b.example:443", {}, {}, {}, false}};
        else
            member = round == 1;
    });
}

std::string all_of(const auto& record) {
    std::string text;
    store::each_field(record, [&](const store::Field& field, const auto& member) {
        text.append(field.name).append(" ").append(store::json_text(member)).append("\n");
    });
    return text;
}

EventPtr event(std::uint64_t seq) {
    return make_event(seq, EventType::text_delta, base::WallTime{}, 1, "{}");
}

}  // namespace

TEST_CASE("Every stored field comes back as it was put, in a new row and in a changed one") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    for (const int round : {1, 2}) {
        Record record;
        sandbox::Record box;
        RestartedProcess process;
        fill(record, round);
        fill(box, round);
        fill(process.spec, round);
        // The row keeps some of these, its log tells the others.
        record.key = 7;
        record.id = "c7";
        record.agent = "shell";
        record.user_id = box.user_id = "eve";
        record.created_at = base::WallTime{base::Millis{1000}};
        record.last_seq = record.first_seq - 1;
        record.sandbox_id = box.id = "box";
        PreviewNumber number{30'001, "box", static_cast<std::uint64_t>(round), true};
        REQUIRE(test::commit(*open(file), {PutConversation{record}, PutSandbox{box},
                                           PutKeptProcess{7, process}, PutPreviewNumber{number}}));
        const auto store = open(file);
        const auto stored = test::load(*store, "c7");
        REQUIRE(stored);
        REQUIRE(stored->has_value());
        CHECK(all_of((*stored)->record) == all_of(record));
        CHECK(all_of((*stored)->sandbox) == all_of(box));
        REQUIRE((*stored)->kept_processes.size() == 1);
        CHECK(all_of((*stored)->kept_processes.front().spec) == all_of(process.spec));
        const auto state = test::load_start(*store);
        REQUIRE(state);
        REQUIRE(state->preview_numbers.size() == 1);
        if (box.gone)
            number.sandbox_id.clear();
        CHECK(all_of(state->preview_numbers.front()) == all_of(number));
    }
}

TEST_CASE("A field that a row lacks has its default, and a member that no field has is left alone") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    sandbox::Record record = box("a");
    record.limits.memory_mb = 64;
    record.preview.ports = {80};
    REQUIRE(test::commit(*open(file), {PutSandbox{record}}));
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
        .exec(
            "UPDATE sandboxes SET rest = json_set(json_remove(rest, '$.memoryMb', '$.previewPorts'), "
            "'$.unknown', 1)");
    const auto found = test::find_sandbox(*open(file), "a")->value();
    CHECK(found.limits == sandbox::Limits());
    CHECK(found.preview == sandbox::PreviewSettings());
}

TEST_CASE("A database of an older version is refused with the way out, and stays as it is") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    open(file).reset();
    for (int version = 1; version < store::k_schema_version; ++version) {
        const std::string pragma = "PRAGMA user_version";
        SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
            .exec(pragma + " = " + std::to_string(version));
        const auto refused = SqliteStore::open(file);
        REQUIRE_FALSE(refused);
        const std::string said = refused.error().detail();
        INFO(said);
        CHECK(said.find("written by an older server (schema " + std::to_string(version) +
                        ", this one knows 13)") != std::string::npos);
        CHECK(said.find("move the files atoll.db* away and start with --adopt-orphans") != std::string::npos);
        CHECK(SQLite::Database(file.string(), SQLite::OPEN_READWRITE).execAndGet(pragma).getInt() == version);
    }
}

TEST_CASE("A database of a newer version is refused and stays as it is") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    open(file).reset();
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
    const auto refused = SqliteStore::open(file);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail().find("newer server") != std::string::npos);
    CHECK(
        SQLite::Database(file.string(), SQLite::OPEN_READWRITE).execAndGet("PRAGMA user_version").getInt() ==
        99);
}

TEST_CASE("A sandbox has one row, whatever is put, erased and put again") {
    const test::TempDir dir;
    const std::filesystem::path file = dir.path() / "db";
    {
        const auto store = open(file);
        REQUIRE(test::commit(*store, {PutSandbox{box("b")}, PutSandbox{box("a")}}));
        REQUIRE(test::commit(*store, {PutSandbox{box("b")}, PutSandbox{box("c")}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"a", "b", "c"});
        REQUIRE(test::commit(*store, {EraseSandbox{"a"}, PutSandbox{box("a")}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"a", "b", "c"});
        REQUIRE(test::commit(*store, {EraseSandbox{"a"}, EraseSandbox{"nobody"}}));
        CHECK(box_ids(*store) == std::vector<std::string>{"b", "c"});
    }
    // A sandbox that another run has stored.
    const auto store = open(file);
    REQUIRE(test::commit(*store, {PutSandbox{box("d")}, PutSandbox{box("c")}, EraseSandbox{"b"}}));
    CHECK(box_ids(*store) == std::vector<std::string>{"c", "d"});
}

TEST_CASE("What a failed batch erased or put is so when it is tried again") {
    const test::TempDir dir;
    const auto store = open(dir.path() / "db");
    REQUIRE(test::commit(*store, {PutSandbox{box("a")}, AppendEvent{1, event(1)}}));
    const std::vector<Write> clash{EraseSandbox{"a"}, PutSandbox{box("b")}, AppendEvent{1, event(1)}};
    REQUIRE_FALSE(test::commit(*store, clash));
    CHECK(box_ids(*store) == std::vector<std::string>{"a"});
    REQUIRE(test::commit(*store, {EraseSandbox{"a"}, PutSandbox{box("b")}}));
    CHECK(box_ids(*store) == std::vector<std::string>{"b"});
}

}  // namespace schema_test
