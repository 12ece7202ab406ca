// The frames of a watch, and what a watch of one directory tells.
#include "http/api/watch_stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

namespace atl::test::http_watch_stream_test {
namespace {

using conversation::FileWatch;
using conversation::WatchNote;
using http::WatchScope;
using sandbox::FileChange;
using ChangeKind = FileChange::Kind;
using Thing = FileChange::Thing;

/// "created a", "renamed a > b"; "-" for what is not told.
std::string seen(const WatchScope& scope, const FileChange& change) {
    const auto told = scope.seen(change);
    if (!told)
        return "-";
    return std::string(sandbox::to_string(told->kind)) + ' ' + told->path +
           (told->to.empty() ? "" : " > " + told->to);
}

struct Stream {
    explicit Stream(WatchScope scope = WatchScope(), http::EventNames names = {}) {
        auto made = std::make_unique<FileWatch>(std::make_shared<conversation::FileWatches*>(nullptr), "s");
        watch = made.get();
        stream = std::make_unique<http::FileWatchStream>(std::move(made), http::StreamLease(),
                                                         std::move(scope), names);
    }
    void push(WatchNote::Kind kind, sandbox::FileChanges changes = {}) const {
        WatchNote note;
        note.kind = kind;
        note.directories = 7;
        note.why = base::Error(base::Errc::sandbox_gone, "the sandbox was removed");
        note.changes = std::make_shared<const sandbox::FileChanges>(std::move(changes));
        watch->push(std::move(note));
    }
    std::string pull(http::BodyStream::State expected) const {
        std::string out;
        CHECK(stream->pull(out, 1 << 20) == expected);
        return out;
    }

    FileWatch* watch;
    std::unique_ptr<http::FileWatchStream> stream;
};

using State = http::BodyStream::State;

}  // namespace

TEST_CASE("A watch of a directory tells what happens below it, and a move over its border as one end") {
    const WatchScope all;
    const WatchScope below("src/");
    const WatchScope entries("src", WatchScope::Depth::entries);
    const FileChange deep{ChangeKind::modified, Thing::file, "src/a/b", ""};
    CHECK(seen(all, deep) == "modified src/a/b");
    CHECK(seen(below, deep) == "modified src/a/b");
    CHECK(seen(entries, deep) == "-");
    CHECK(seen(entries, {ChangeKind::created, Thing::directory, "src/a", ""}) == "created src/a");
    CHECK(seen(below, {ChangeKind::created, Thing::directory, "src", ""}) == "-");
    CHECK(seen(below, {ChangeKind::created, Thing::file, "src2/a", ""}) == "-");
    CHECK(seen(below, {ChangeKind::renamed, Thing::file, "src/a", "src/b"}) == "renamed src/a > src/b");
    CHECK(seen(below, {ChangeKind::renamed, Thing::file, "a", "src/b"}) == "created src/b");
    CHECK(seen(below, {ChangeKind::renamed, Thing::file, "src/a", "b"}) == "renamed src/a");
    CHECK(seen(below, {ChangeKind::renamed, Thing::file, "a", "b"}) == "-");
}

TEST_CASE("A watch of the workspace leaves out what HOME holds of shells and package managers, or shows it") {
    using Depth = WatchScope::Depth;
    const WatchScope usual("", Depth::all, WatchScope::Home::left_out);
    const WatchScope all("", Depth::all, WatchScope::Home::shown);
    const WatchScope inside(".npm", Depth::all, WatchScope::Home::left_out);
    const FileChange change{ChangeKind::modified, Thing::file, ".npm/x", ""};
    CHECK(seen(usual, change) == "-");
    CHECK(seen(all, change) == "modified .npm/x");
    CHECK(seen(inside, change) == "modified .npm/x");
    CHECK(seen(usual, {ChangeKind::created, Thing::file, ".bash_history", ""}) == "-");
    CHECK(seen(usual, {ChangeKind::created, Thing::file, "a/.cache", ""}) == "created a/.cache");
    CHECK(seen(usual, {ChangeKind::renamed, Thing::file, ".cache/x", "y"}) == "created y");
}

TEST_CASE("Each frame of a watch is one line of JSON with a type, whatever a file is named") {
    const Stream stream;
    CHECK(stream.pull(State::waiting).empty());
    stream.push(WatchNote::Kind::started);
    stream.push(WatchNote::Kind::changes, {{ChangeKind::created, Thing::file, "a\n\ndata: x", ""},
                                           {ChangeKind::renamed, Thing::directory, "b", "c"}});
    stream.push(WatchNote::Kind::uncovered);
    stream.push(WatchNote::Kind::paused);
    stream.push(WatchNote::Kind::rescan);
    CHECK(stream.pull(State::waiting) ==
          "data: {\"type\":\"started\"}\n\n"
          "data: {\"type\":\"changes\",\"changes\":["
          "{\"change\":\"created\",\"path\":\"a\\n\\ndata: "
          "x\",\"href\":\"a%0A%0Adata%3A%20x\",\"directory\":false},"
          "{\"change\":\"renamed\",\"path\":\"b\",\"href\":\"b\",\"to\":\"c\",\"toHref\":\"c\",\"directory\":"
          "true}]}"
          "\n\n"
          "data: {\"type\":\"incomplete\",\"directories\":7}\n\n"
          "data: {\"type\":\"paused\"}\n\n"
          "data: {\"type\":\"rescan\"}\n\n");
    stream.push(WatchNote::Kind::ended);
    CHECK(
        stream.pull(State::finished) ==
        "data: {\"type\":\"stream_closed\",\"code\":\"sandbox_gone\",\"detail\":\"the sandbox was removed\"}"
        "\n\n");
}

TEST_CASE("A change shows its paths as they are and has hrefs that lead to their bytes") {
    const Stream stream;
    // In the text of the guest's: the bytes 50%20off, and \xff.
    stream.push(WatchNote::Kind::changes, {{ChangeKind::renamed, Thing::file, "50%2520off", "a%FF"}});
    const std::string frame = stream.pull(State::waiting);
    const auto change = nlohmann::json::parse(frame.substr(6)).at("changes").at(0);
    CHECK(change.at("path") == "50%20off");
    CHECK(change.at("href") == "50%2520off");
    CHECK(change.at("to") == "a\xef\xbf\xbd");
    CHECK(change.at("toHref") == "a%FF");
}

TEST_CASE("A watch has names of its frames on demand, and none for changes that nobody asked for") {
    const Stream stream(WatchScope("src"), http::EventNames::types);
    stream.push(WatchNote::Kind::changes, {{ChangeKind::created, Thing::file, "a", ""}});
    CHECK(stream.pull(State::waiting).empty());
    stream.push(WatchNote::Kind::rescan);
    CHECK(stream.pull(State::waiting) == "event: rescan\ndata: {\"type\":\"rescan\"}\n\n");
    std::string out;
    stream.stream->end_early(base::Errc::token_expired, out);
    CHECK(out.starts_with(
        "event: stream_closed\ndata: {\"type\":\"stream_closed\",\"code\":\"token_expired\""));
}

}  // namespace atl::test::http_watch_stream_test
