// The questions of the host about processes that outlive a connection, to hostile guests and to a real one.
#include "bridge/process_questions.hpp"

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <optional>

#include "bridge/frame.hpp"
#include "bridge/unix_channel.hpp"
#include "core/base/asio_timers.hpp"
#include "fake_guest.hpp"
#include "guest_process.hpp"

namespace atl::test::process_questions_test {
namespace {

using base::Errc;
using bridge::FrameType;
using sandbox::ProcessInfo;

std::string frame(FrameType type, std::string_view payload = {}) {
    std::string out;
    bridge::append_frame(out, type, payload);
    return out;
}

constexpr std::string_view k_line = R"({"id":"a","tag":"t","command":"ls","cwd":"/tmp","env":{"A":"1"},)"
                                    R"("pid":7,"startedAtMs":1700000000000,"first":3,"end":9})";

/// Follows one process.
struct ProcessRecorder final : sandbox::RunObserver {
    void on_started(pid_t number) override { pid = number; }
    void on_position(std::uint64_t byte, sandbox::StreamKind of) override {
        from = byte;
        kind = of;
    }
    void on_output(sandbox::OutputKind, std::string_view bytes) override { output += bytes; }
    void on_dropped(std::uint64_t bytes) override { dropped += bytes; }
    void on_input_room() override { ++rooms; }
    void on_exit(const sandbox::RunExit& told) override { exit = told; }
    void on_failed(const base::Error& told) override { failure = told; }

    pid_t pid = 0;
    std::uint64_t from = 0;
    std::optional<sandbox::StreamKind> kind;
    std::string output;
    std::uint64_t dropped = 0;
    int rooms = 0;
    std::optional<sandbox::RunExit> exit;
    std::optional<base::Error> failure;
};

struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Operations> operations = channels.open_operations(guest);
    std::unique_ptr<sandbox::Question> question;
    std::optional<base::Result<std::vector<ProcessInfo>>> listed;
    int answers = 0;
    ProcessRecorder seen;
    std::unique_ptr<sandbox::Run> run;

    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    FakePeer list() {
        question = operations->list_processes("", [this](base::Result<std::vector<ProcessInfo>> told) {
            listed = std::move(told);
            ++answers;
        });
        FakePeer peer = guest.accept();
        CHECK(peer.received() == "{\"cmd\":\"processes\"}\n");
        return peer;
    }
    FakePeer attach(std::string_view reply) {
        run = operations->attach("a", 5, seen);
        FakePeer peer = guest.accept();
        CHECK(peer.received() == "{\"cmd\":\"attach\",\"id\":\"a\",\"after\":5}\n");
        CHECK(peer.send(reply));
        settle();
        return peer;
    }
};

}  // namespace

TEST_CASE("a process to start is told with all that it has") {
    sandbox::ProcessSpec spec;
    spec.id = "a";
    spec.tag = "web \"1\"";
    spec.program.argv = {"bash", "-i"};
    spec.program.env = {{"A", "1"}};
    spec.terminal = {100, 40};
    CHECK(bridge::encode_process(spec) ==
          R"({"cmd":"process","id":"a","tag":"web \"1\"","argv":["bash","-i"],"env":{"A":"1"},)"
          R"("terminal":{"columns":100,"rows":40}})"
          "\n");
    sandbox::ProcessControl control;
    control.size = {80, 24};
    control.signal = SIGTERM;
    control.input = sandbox::ProcessControl::Input::end;
    CHECK(bridge::encode_control("a", control) ==
          R"({"cmd":"control","id":"a","columns":80,"rows":24,"signal":15,"inputEnd":true})"
          "\n");
}

TEST_CASE("a line of a list is taken apart, or refused") {
    const auto info = bridge::parse_process_line(k_line);
    REQUIRE(info.has_value());
    CHECK(info->id == "a");
    CHECK(info->tag == "t");
    CHECK(info->command == "ls");
    CHECK(info->directory == "/tmp");
    CHECK(info->env == sandbox::Environment{{"A", "1"}});
    CHECK(info->pid == 7);
    CHECK(info->first_byte == 3);
    CHECK(info->end_byte == 9);
    CHECK_FALSE(info->terminal.has_value());
    CHECK_FALSE(info->exit.has_value());
    const auto ended = bridge::parse_process_line(
        R"({"id":"b","argv":["x","y"],"pid":8,"startedAtMs":1,"first":0,"end":0,"columns":80,"rows":24,)"
        R"("exitCode":3,"signal":0,"timedOut":true})");
    REQUIRE(ended.has_value());
    CHECK(ended->argv == std::vector<std::string>{"x", "y"});
    CHECK(ended->terminal == sandbox::TerminalSize{80, 24});
    CHECK(ended->exit == sandbox::RunExit{3, 0, true});
    for (const std::string_view bad :
         {"", "[]", "{}", R"({"id":"a"})", R"({"id":"","pid":7})", R"({"id":"a","pid":0})",
          R"({"id":"a","pid":4194305})", R"({"id":"a","pid":7,"first":2,"end":1})",
          R"({"id":"a","pid":7,"columns":80})", R"({"id":"a","pid":7,"columns":65536,"rows":1})",
          R"({"id":"a","pid":7,"argv":[1]})", R"({"id":"a","pid":7,"env":{"A":1}})",
          R"({"id":"a","pid":7,"exitCode":256})", R"({"id":"a","pid":7,"startedAtMs":253402300800000})",
          R"({"id":"a","pid":7,"x":[[1]]})"})
        CHECK_FALSE(bridge::parse_process_line(bad).has_value());
}

TEST_CASE("a list may arrive cut at any byte, and is told once") {
    const std::string text = std::string(k_line) + "\n" + std::string(k_line) + "\n{\"ok\":true}\n";
    const std::size_t cut = GENERATE(as<std::size_t>{}, 0, 1, 50, 118, 119, 120, 200, 249);
    Bench bench;
    FakePeer peer = bench.list();
    CHECK(peer.send(text.substr(0, cut)));
    bench.settle();
    CHECK_FALSE(bench.listed.has_value());
    CHECK(peer.send(text.substr(cut) + "garbage"));
    bench.settle();
    REQUIRE(bench.listed.has_value());
    REQUIRE(bench.listed->has_value());
    CHECK((*bench.listed)->size() == 2);
    CHECK(bench.answers == 1);
    CHECK(bench.timers.armed() == 0);
    CHECK(peer.at_end());
}

TEST_CASE("a list that a guest may not give has failed") {
    Bench bench;
    FakePeer peer = bench.list();
    SECTION("no process") {
        CHECK(peer.send("{\"id\":1}\n"));
    }
    SECTION("too many") {
        std::string lines;
        for (std::size_t i = 0; i <= bridge::k_most_listed_processes; ++i)
            lines += std::string(k_line) + "\n";
        CHECK(peer.send(lines));
    }
    SECTION("no end") {
        CHECK(peer.send(std::string(k_line) + "\n"));
        peer.close();
    }
    bench.settle();
    REQUIRE(bench.listed.has_value());
    REQUIRE(bench.listed->has_error());
    CHECK(bench.listed->error().code() == Errc::bridge_failed);
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("a question that is dropped is not answered, and one without an answer ends") {
    Bench bench;
    FakePeer peer = bench.list();
    SECTION("dropped") {
        // The answer is on its way.
        CHECK(peer.send("{\"ok\":true}\n"));
        bench.question.reset();
        bench.settle();
        CHECK(peer.at_end());
        CHECK_FALSE(bench.listed.has_value());
        CHECK(bench.timers.armed() == 0);
    }
    SECTION("no answer") {
        bench.timers.advance(base::k_control_reply_deadline);
        REQUIRE(bench.listed.has_value());
        CHECK(bench.listed->error().code() == Errc::deadline_exceeded);
    }
}

TEST_CASE("what a guest refuses about a process has its reason") {
    const auto [code, expected] =
        GENERATE(std::pair<const char*, Errc>{"unknown", Errc::not_found},
                 std::pair<const char*, Errc>{"ended", Errc::process_ended},
                 std::pair<const char*, Errc>{"no_process", Errc::too_many_processes},
                 std::pair<const char*, Errc>{"invalid", Errc::invalid_field});
    Bench bench;
    std::optional<base::Result<void>> told;
    bench.question =
        bench.operations->control_process("a", {}, [&told](base::Result<void> result) { told = result; });
    FakePeer peer = bench.guest.accept();
    CHECK(peer.send("{\"ok\":false,\"error\":\"no\",\"code\":\"" + std::string(code) + "\"}\n"));
    bench.settle();
    REQUIRE(told.has_value());
    CHECK(told->error().code() == expected);
}

TEST_CASE("an attached process is told where its output goes on, and what is missing") {
    Bench bench;
    FakePeer peer =
        bench.attach("{\"ok\":true,\"pid\":7,\"from\":5,\"terminal\":true}\n" +
                     bridge::encode_dropped(std::uint64_t{1} << 33U) + frame(FrameType::output, "out"));
    CHECK(bench.seen.pid == 7);
    CHECK(bench.seen.from == 5);
    CHECK(bench.seen.kind == sandbox::StreamKind::terminal);
    CHECK(bench.seen.dropped == std::uint64_t{1} << 33U);
    CHECK(bench.seen.output == "out");
    bench.run->resize({132, 50});
    CHECK(peer.received() == bridge::encode_resize(132, 50));
    CHECK(bench.run->write("in") == 2);
    CHECK(bench.run->waiting_input_bytes() == 2);
    CHECK(peer.send(bridge::encode_grant(2)));
    bench.settle();
    CHECK(bench.run->waiting_input_bytes() == 0);
    CHECK(bench.seen.rooms == 1);
    CHECK(peer.send(bridge::encode_exit({3, 0, false})));
    bench.settle();
    CHECK(bench.seen.exit == sandbox::RunExit{3, 0, false});
}

TEST_CASE("who only feeds a process says so, and learns why that cannot be") {
    const auto [code, expected] = GENERATE(std::pair<const char*, Errc>{"ended", Errc::process_ended},
                                           std::pair<const char*, Errc>{"invalid", Errc::invalid_field});
    Bench bench;
    bench.run = bench.operations->feed("a", bench.seen);
    FakePeer peer = bench.guest.accept();
    CHECK(peer.received() == "{\"cmd\":\"attach\",\"id\":\"a\",\"input\":true}\n");
    CHECK(peer.send("{\"ok\":false,\"error\":\"no\",\"code\":\"" + std::string(code) + "\"}\n"));
    bench.settle();
    REQUIRE(bench.seen.failure.has_value());
    CHECK(bench.seen.failure->code() == expected);
}

TEST_CASE("a process with pipes takes no size, and a program of exec tells of nothing dropped") {
    Bench bench;
    FakePeer peer = bench.attach("{\"ok\":true,\"pid\":7,\"from\":0}\n");
    bench.run->resize({132, 50});
    // The control: a signal is sent at once.
    bench.run->signal(SIGTERM);
    CHECK(peer.received() == bridge::encode_signal(SIGTERM));
    sandbox::RunSpec spec;
    spec.argv = {"true"};
    ProcessRecorder other;
    const auto run = bench.operations->run(spec, other);
    FakePeer second = bench.guest.accept();
    CHECK(second.send("{\"ok\":true,\"pid\":7}\n" + bridge::encode_dropped(1)));
    bench.settle();
    REQUIRE(other.failure.has_value());
    CHECK(other.failure->code() == Errc::bridge_failed);
}

TEST_CASE("a real guest starts, lists, follows and ends a process") {
    const GuestProcess guest;
    BridgeOnly bridge;
    bridge.path = guest.path();
    boost::asio::io_context loop{1};
    base::AsioTimers timers(loop.get_executor());
    bridge::UnixChannels channels(loop.get_executor(), timers);
    const auto operations = channels.open_operations(bridge);
    const auto run_until = [&loop](const std::function<bool()>& done) {
        const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
        while (!done() && std::chrono::steady_clock::now() < deadline)
            loop.run_one_for(std::chrono::milliseconds(100));
        return done();
    };
    sandbox::ProcessSpec spec;
    spec.id = "a";
    spec.program.command = "read line; echo \"got $line\"; exec sleep 1000";
    spec.program.stdin_kind = sandbox::RunSpec::Stdin::pipe;
    std::optional<base::Result<pid_t>> started;
    auto question = operations->start_process(spec, [&started](base::Result<pid_t> told) { started = told; });
    REQUIRE(run_until([&] { return started.has_value(); }));
    REQUIRE(started->has_value());
    ProcessRecorder seen;
    auto run = operations->attach("a", 0, seen);
    REQUIRE(run_until([&] { return seen.kind.has_value(); }));
    CHECK(seen.pid == **started);
    CHECK(run->write("it\n") == 3);
    REQUIRE(run_until([&] { return seen.output == "got it\n"; }));
    run.reset();
    std::optional<base::Result<std::vector<ProcessInfo>>> listed;
    question = operations->list_processes(
        "a", [&listed](base::Result<std::vector<ProcessInfo>> told) { listed = std::move(told); });
    REQUIRE(run_until([&] { return listed.has_value(); }));
    REQUIRE(listed->has_value());
    REQUIRE((*listed)->size() == 1);
    CHECK((**listed)[0].end_byte == 7);
    CHECK_FALSE((**listed)[0].exit.has_value());
    ProcessRecorder again;
    run = operations->attach("a", 4, again);
    sandbox::ProcessControl control;
    control.signal = SIGKILL;
    question = operations->control_process("a", control, [](const base::Result<void>&) {});
    REQUIRE(run_until([&] { return again.exit.has_value(); }));
    CHECK(again.output == "it\n");
    CHECK(again.exit == sandbox::RunExit{0, SIGKILL, false});
}

}  // namespace atl::test::process_questions_test
