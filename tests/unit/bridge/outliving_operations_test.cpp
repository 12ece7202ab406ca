// Operations under way, once their maker or the whole generation is gone.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridge/protocol.hpp"
#include "bridge/unix_channel.hpp"
#include "core/sandbox/operations.hpp"
#include "fake_guest.hpp"

namespace atl::test::outliving_operations_test {
namespace {

using base::Errc;

/// Notes the last call of each kind of operation.
struct Ends final : sandbox::RunObserver,
                    sandbox::DialObserver,
                    sandbox::CallObserver,
                    sandbox::WatchObserver {
    void on_started(pid_t) override {}
    void on_output(sandbox::OutputKind, std::string_view bytes) override { output += bytes; }
    void on_exit(const sandbox::RunExit&) override { ends.emplace_back(); }
    void on_open() override {}
    void on_bytes(std::string_view bytes) override { output += bytes; }
    void on_eof() override { is_at_eof = true; }
    void on_end(const base::Result<void>& told) override {
        ends.push_back(told ? std::nullopt : std::optional(told.error().code()));
    }
    void on_reply(std::string_view) override {}
    void on_end() override { ends.emplace_back(); }
    void on_watching() override {}
    void on_changes(sandbox::FileChanges) override {}
    void on_rescan() override {}
    void on_uncovered(std::uint64_t) override {}
    void on_failed(const base::Error& error) override { ends.emplace_back(error.code()); }
    bool is_full() const override { return false; }

    std::string output;
    bool is_at_eof = false;
    std::vector<std::optional<Errc>> ends;
};

struct OutlivingBench {
    explicit OutlivingBench(int backlog = 64) : guest(std::make_unique<FakeGuest>(backlog)) {
        operations = channels.open_operations(*guest);
    }
    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    std::unique_ptr<sandbox::Run> run(Ends& seen) {
        sandbox::RunSpec spec;
        spec.argv = {"cat"};
        return operations->run(spec, seen);
    }

    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    std::unique_ptr<FakeGuest> guest;
    std::unique_ptr<sandbox::Operations> operations;
};

}  // namespace

TEST_CASE("what operations made goes on without them, ends with the guest, and may be destroyed later") {
    OutlivingBench bench;
    Ends ran;
    Ends dialled;
    Ends called;
    Ends watched;
    std::optional<base::Result<pid_t>> answer;
    const auto run = bench.run(ran);
    FakePeer run_peer = bench.guest->accept();
    const auto dial = bench.operations->dial(8080, dialled);
    FakePeer dial_peer = bench.guest->accept();
    const auto call = bench.operations->call({bridge::cmd::file, R"("op":"stat","path":"f")"}, called);
    FakePeer call_peer = bench.guest->accept();
    const auto watch = bench.operations->watch(watched);
    FakePeer watch_peer = bench.guest->accept();
    const auto question = bench.operations->start_process({}, [&](const auto& told) { answer = told; });
    FakePeer question_peer = bench.guest->accept();

    bench.operations.reset();
    CHECK(dial_peer.send("{\"ok\":true}\nbytes"));
    bench.settle();
    CHECK(dialled.output == "bytes");
    CHECK(dial->write("more") == 4);
    CHECK(dial_peer.received().ends_with("more"));

    bench.guest.reset();
    for (FakePeer* const peer : {&run_peer, &dial_peer, &call_peer, &watch_peer, &question_peer})
        peer->close();
    bench.settle();
    for (const Ends* const seen : {&ran, &called, &watched})
        CHECK(seen->ends == std::vector{std::optional(Errc::bridge_failed)});
    REQUIRE(answer.has_value());
    CHECK(answer->error().code() == Errc::bridge_failed);
    CHECK(bench.timers.armed() == 0);
    // A dial was told that its peer sends no more; it ends with the next write.
    CHECK(dialled.is_at_eof);
    CHECK(dialled.ends.empty());
    CHECK(dial->write("late") == 4);
    bench.settle();
    CHECK(dialled.ends.size() == 1);
}

TEST_CASE("what operations made reaches no other sandbox once its own is gone") {
    OutlivingBench bench(0);
    Ends first;
    Ends late;
    const auto fills_backlog = bench.run(first);
    const auto run = bench.run(late);
    REQUIRE(bench.timers.armed() > 0);
    // The path leads through a descriptor, whose number the next sandbox may get.
    const std::string path = bench.guest->bridge_path();
    FakeGuest other;
    bench.operations.reset();
    bench.guest.reset();
    std::filesystem::create_directory(std::filesystem::path(path).parent_path());
    std::filesystem::create_symlink(other.bridge_path(), path);
    bench.timers.advance(base::Millis{2000});
    bench.settle();
    CHECK_FALSE(other.has_connection());
    CHECK(late.ends == std::vector{std::optional(Errc::bridge_failed)});
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

}  // namespace atl::test::outliving_operations_test
