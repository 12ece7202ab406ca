// A reader of a watch: the notes that wait for it are bounded, and it is told that it lost some. The tests of
// watches in real sandboxes are in tests/integration/watch_test.cpp.
#include "core/conversation/file_watches.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/plain/operation_limits.hpp"

namespace atl::test::file_watches_test {
namespace {

using conversation::FileWatch;
using conversation::WatchNote;
using Kind = WatchNote::Kind;

WatchNote changes(std::size_t count, std::size_t bytes = 0) {
    WatchNote note;
    note.kind = Kind::changes;
    note.changes = std::make_shared<const sandbox::FileChanges>(count);
    note.bytes = bytes;
    return note;
}

/// Reads all that waits.
std::string words(FileWatch& reader) {
    static constexpr const char* k_words[] = {"started", "changes", "rescan", "uncovered", "paused", "ended"};
    std::string out;
    while (const auto note = reader.next())
        out += (out.empty() ? "" : " ") + std::string(k_words[static_cast<std::size_t>(note->kind)]);
    return out;
}

struct Reader : FileWatch {
    Reader() : FileWatch(std::make_shared<conversation::FileWatches*>(nullptr), "s") {}
};

}  // namespace

TEST_CASE("A reader of a watch is told of its beginning, of each pause once, and of a rescan behind it") {
    Reader reader;
    reader.paused();
    reader.paused();
    reader.watching();
    reader.push(changes(3));
    CHECK(words(reader) == "paused started changes");
    reader.paused();
    reader.watching();
    CHECK(words(reader) == "paused rescan");
}

TEST_CASE("A slow reader of a watch gets one rescan for all that it was too slow for") {
    Reader reader;
    reader.watching();
    for (std::size_t told = 0; told < 10 * base::k_watch_waiting_changes; told += 100)
        reader.push(changes(100));
    std::size_t waiting = 0;
    std::size_t rescans = 0;
    while (const auto note = reader.next()) {
        waiting += note->kind == Kind::changes ? note->changes->size() : 0;
        rescans += note->kind == Kind::rescan ? 1 : 0;
    }
    CHECK(rescans == 1);
    CHECK(waiting <= base::k_watch_waiting_changes);
    reader.push(changes(1));
    CHECK(words(reader) == "changes");
}

TEST_CASE("What waits for a reader of a watch is bounded in bytes, too, and a pause is never lost") {
    Reader reader;
    reader.watching();
    for (int i = 0; i < 5; ++i)
        reader.push(changes(1, base::k_watch_waiting_bytes / 2));
    reader.paused();
    CHECK(words(reader) == "rescan changes paused");
    reader.watching();
    for (int i = 0; i < 1000; ++i) {
        reader.paused();
        reader.watching();
    }
    reader.paused();
    const std::string told = words(reader);
    CHECK(told.size() < 256 * std::string("rescan ").size());
    CHECK(told.ends_with("rescan paused"));
}

TEST_CASE("A reader of a watch is woken for what waits already, and for what comes") {
    Reader reader;
    int wakes = 0;
    reader.watching();
    reader.on_wake([&wakes] { ++wakes; });
    CHECK(wakes == 1);
    reader.push(changes(1));
    reader.wake();
    CHECK(wakes == 2);
    reader.on_wake(nullptr);
    reader.push(changes(1));
    reader.wake();
    CHECK(wakes == 2);
}

}  // namespace atl::test::file_watches_test
