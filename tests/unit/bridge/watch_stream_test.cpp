// A watch as the host sees it: hostile guests. Real ones are in watch_files_test.cpp.
#include "bridge/watch_stream.hpp"

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>

#include "bridge/unix_channel.hpp"
#include "core/plain/operation_limits.hpp"
#include "fake_guest.hpp"

namespace atl::test::bridge_watch_stream_test {
namespace {

using base::Errc;
using sandbox::FileChange;

struct WatchRecorder final : sandbox::WatchObserver {
    void on_watching() override { calls += "watching "; }
    void on_changes(sandbox::FileChanges more) override {
        calls += "changes ";
        changes.insert(changes.end(), more.begin(), more.end());
    }
    void on_rescan() override { calls += "rescan "; }
    void on_uncovered(std::uint64_t directories) override {
        calls += "uncovered=" + std::to_string(directories) + ' ';
    }
    void on_failed(const base::Error& error) override {
        failure = error.code();
        watch->reset();
    }
    bool is_full() const override { return full; }

    std::string calls;
    sandbox::FileChanges changes;
    std::optional<Errc> failure;
    bool full = false;
    std::unique_ptr<sandbox::Watch>* watch = nullptr;
};

struct WatchBench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Operations> operations = channels.open_operations(guest);
    WatchRecorder seen;
    std::unique_ptr<sandbox::Watch> watch = operations->watch(seen);
    FakePeer peer = guest.accept();

    WatchBench() {
        seen.watch = &watch;
        CHECK(peer.received() == "{\"cmd\":\"file\",\"op\":\"watch\",\"path\":\"\"}\n");
    }
    void says(std::string_view text) {
        peer.send(text);
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    void tells(std::string_view lines) {
        std::string out;
        bridge::append_frame(out, bridge::FrameType::output, lines);
        says(out);
    }
};

}  // namespace

TEST_CASE("A watch's lines are changes, in their order, rescans and counts, cut at any byte") {
    const std::string lines =
        "{\"change\":\"created\",\"path\":\"a\",\"directory\":true}\n"
        "{\"change\":\"renamed\",\"path\":\"a\",\"to\":\"b\",\"directory\":false}\n"
        "{\"rescan\":true}\n{\"uncovered\":7}\n{\"new\":1}\n{\"change\":\"deleted\",\"path\":\"c\"}\n";
    for (std::size_t cut = 1; cut < lines.size(); ++cut) {
        WatchBench bench;
        bench.says("{\"ok\":true,\"directories\":1}\n");
        bench.tells(lines.substr(0, cut));
        bench.tells(lines.substr(cut));
        using Kind = FileChange::Kind;
        using Thing = FileChange::Thing;
        CHECK(bench.seen.changes == sandbox::FileChanges{{Kind::created, Thing::directory, "a", ""},
                                                         {Kind::renamed, Thing::file, "a", "b"},
                                                         {Kind::deleted, Thing::file, "c", ""}});
        CHECK(bench.seen.calls.starts_with("watching changes "));
        for (const std::string_view once : {"rescan ", "uncovered=7 "}) {
            CHECK(bench.seen.calls.find(once) != std::string::npos);
            CHECK(bench.seen.calls.find(once) == bench.seen.calls.rfind(once));
        }
        CHECK_FALSE(bench.seen.failure);
    }
}

TEST_CASE("Readers of a watch are told once of each kind of what a guest sends at a time") {
    WatchBench bench;
    bench.says("{\"ok\":true}\n");
    std::string lines;
    for (int i = 1; i <= 500; ++i)
        lines += "{\"rescan\":true}\n{\"change\":\"created\",\"path\":\"a\"}\n{\"uncovered\":" +
                 std::to_string(i) + "}\n";
    bench.tells(lines);
    CHECK(bench.seen.calls == "watching changes rescan uncovered=500 ");
    CHECK(bench.seen.changes.size() == 500);
    bench.tells("{\"rescan\":true}\n");
    CHECK(bench.seen.calls.ends_with("uncovered=500 rescan "));
}

TEST_CASE("A guest may be silent behind the beginning of a watch, not before it") {
    WatchBench begun;
    begun.says("{\"ok\":true}\n");
    CHECK(begun.timers.armed() == 0);
    const WatchBench asked;
    CHECK(asked.timers.armed() > 0);
}

TEST_CASE("A watch whose lines are not of their form is ended once") {
    const std::string bad =
        GENERATE(as<std::string>(), "x\n", "[]\n", "{\"change\":\"created\"}\n",
                 "{\"change\":\"created\",\"path\":\"\"}\n", "{\"path\":{\"a\":{}}}\n",
                 "{\"change\":\"created\",\"path\":\"\xff\"}\n",
                 "{\"change\":\"created\",\"path\":\"" + std::string(20'000, 'x') + "\"}\n");
    WatchBench bench;
    bench.says("{\"ok\":true}\n");
    bench.tells(bad + "{\"rescan\":true}\n");
    CHECK(bench.seen.failure == Errc::bridge_failed);
    CHECK(bench.seen.calls == "watching ");
    CHECK(bench.peer.at_end());
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("A line of a watch that never ends takes a bounded memory") {
    WatchBench bench;
    bench.says("{\"ok\":true}\n");
    const std::string piece(16UL * 1024, 'x');
    for (std::size_t bytes = 0; bytes <= base::k_max_watch_line_bytes && !bench.seen.failure;
         bytes += piece.size())
        bench.tells(piece);
    CHECK(bench.seen.failure == Errc::bridge_failed);
}

TEST_CASE("A watch that the guest refuses says why, and one that it ends is broken") {
    WatchBench refused;
    refused.says("{\"ok\":false,\"error\":\"no instance left\",\"code\":\"busy\"}\n");
    CHECK(refused.seen.failure == Errc::capacity);
    WatchBench ended;
    ended.says("{\"ok\":true}\n" + bridge::encode_exit({}));
    CHECK(ended.seen.failure == Errc::bridge_failed);
    CHECK(ended.seen.calls == "watching ");
}

}  // namespace atl::test::bridge_watch_stream_test
