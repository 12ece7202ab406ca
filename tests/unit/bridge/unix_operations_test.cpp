// Programs and connections inside, as the host sees them: hostile guests first, then a real one.
#include "bridge/unix_operations.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "bridge/frame.hpp"
#include "bridge/run_stream.hpp"
#include "bridge/unix_channel.hpp"
#include "core/base/asio_timers.hpp"
#include "fake_guest.hpp"
#include "guest_process.hpp"

namespace atl::test::unix_operations_test {
namespace {

using base::Errc;
using bridge::FrameType;

constexpr std::string_view k_started = "{\"ok\":true,\"pid\":7}\n";

std::string frame(FrameType type, std::string_view payload = {}) {
    std::string out;
    bridge::append_frame(out, type, payload);
    return out;
}

struct RunRecorder final : sandbox::RunObserver {
    void on_started(pid_t number) override {
        pid = number;
        record("started");
    }
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override {
        (kind == sandbox::OutputKind::standard ? output : error) += bytes;
        record("output");
    }
    void on_input_room() override { record("room"); }
    void on_exit(const sandbox::RunExit& told) override {
        exit = told;
        record("exit");
    }
    void on_failed(const base::Error& told) override {
        failure = told;
        record("failed");
    }
    bool is_full() const override { return full; }
    bool ended() const { return exit.has_value() || failure.has_value(); }
    void record(std::string_view call) {
        CHECK_FALSE(last_was_called);
        last_was_called = call == "exit" || call == "failed";
        ++calls;
        rooms += call == "room";
        on_each();
    }

    pid_t pid = 0;
    std::string output;
    std::string error;
    std::optional<sandbox::RunExit> exit;
    std::optional<base::Error> failure;
    bool full = false;
    bool last_was_called = false;
    std::size_t calls = 0;
    int rooms = 0;
    std::function<void()> on_each = [] {};
};

struct DialRecorder final : sandbox::DialObserver {
    void on_open() override { open = true; }
    void on_bytes(std::string_view more) override { bytes += more; }
    void on_writable() override { ++rooms; }
    void on_eof() override { eof = true; }
    void on_end(const base::Result<void>& told) override {
        CHECK_FALSE(end.has_value());
        end = told;
    }
    bool is_full() const override { return full; }

    bool open = false;
    std::string bytes;
    bool eof = false;
    bool full = false;
    int rooms = 0;
    std::optional<base::Result<void>> end;
};

/// A loop driven by hand and a scripted guest.
struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Operations> operations = channels.open_operations(guest);
    RunRecorder seen;
    DialRecorder dialled;
    std::unique_ptr<sandbox::Run> run;
    std::unique_ptr<sandbox::Dial> dial;

    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    FakePeer open_run() {
        sandbox::RunSpec spec;
        spec.argv = {"cat"};
        spec.stdin_kind = sandbox::RunSpec::Stdin::pipe;
        run = operations->run(spec, seen);
        FakePeer peer = guest.accept();
        CHECK(peer.received() == "{\"cmd\":\"exec\",\"argv\":[\"cat\"],\"stdin\":true}\n");
        return peer;
    }
    FakePeer started_run() {
        FakePeer peer = open_run();
        CHECK(peer.send(k_started));
        settle();
        REQUIRE(seen.pid == 7);
        return peer;
    }
    FakePeer open_dial() {
        dial = operations->dial(8080, dialled);
        FakePeer peer = guest.accept();
        CHECK(peer.received() == "{\"cmd\":\"dial\",\"port\":8080}\n");
        return peer;
    }
};

const std::string k_run = std::string(k_started) + frame(FrameType::output, "out") +
                          frame(FrameType::error, "err") + frame(FrameType::output, "put") +
                          bridge::encode_exit({3, 0, false});

}  // namespace

TEST_CASE("a program to run is told with all that it has") {
    sandbox::RunSpec spec;
    spec.command = "echo \"hi\"";
    spec.directory = "sub";
    spec.env = {{"A", "1"}, {"B", ""}};
    spec.timeout = base::Millis{1500};
    CHECK(bridge::encode_exec(spec) ==
          R"({"cmd":"exec","command":"echo \"hi\"","cwd":"sub","env":{"A":"1","B":""},"timeoutMs":1500})"
          "\n");
}

TEST_CASE("a run may arrive cut at any byte") {
    for (std::size_t cut = 0; cut <= k_run.size(); ++cut) {
        Bench bench;
        FakePeer peer = bench.open_run();
        CHECK(peer.send(k_run.substr(0, cut)));
        bench.settle();
        peer.send(k_run.substr(cut));
        bench.settle();
        CHECK(bench.seen.output == "output");
        CHECK(bench.seen.error == "err");
        CHECK(bench.seen.exit == sandbox::RunExit{3, 0, false});
        CHECK(bench.timers.armed() == 0);
        CHECK(peer.at_end());
    }
}

TEST_CASE("a run that breaks off at any byte has failed") {
    for (std::size_t cut = 0; cut < k_run.size(); ++cut) {
        Bench bench;
        FakePeer peer = bench.open_run();
        CHECK(peer.send(k_run.substr(0, cut)));
        peer.close();
        bench.settle();
        REQUIRE(bench.seen.failure.has_value());
        CHECK(bench.seen.failure->code() == Errc::bridge_failed);
        CHECK(bench.timers.armed() == 0);
    }
}

TEST_CASE("a run may be destroyed in any of its calls") {
    for (std::size_t at = 0; at <= 5; ++at) {
        Bench bench;
        bench.seen.on_each = [&] {
            if (bench.seen.calls == at)
                bench.run.reset();
        };
        FakePeer peer = bench.open_run();
        if (at == 0)
            bench.run.reset();
        peer.send(k_run);
        bench.settle();
        CHECK(bench.seen.calls == at);
        CHECK(peer.at_end());
        CHECK(bench.timers.armed() == 0);
    }
}

TEST_CASE("what a guest may not answer or send ends a run") {
    Bench bench;
    SECTION("not a reply") {
        FakePeer peer = bench.open_run();
        for (const std::string_view line : {"garbage\n"})
            CHECK(peer.send(line));
        bench.settle();
    }
    SECTION("a reply without a pid") {
        CHECK(bench.open_run().send("{\"ok\":true}\n"));
        bench.settle();
    }
    SECTION("a reply with no pid that a kernel gives") {
        CHECK(bench.open_run().send("{\"ok\":true,\"pid\":4194305}\n"));
        bench.settle();
    }
    SECTION("a reply without an end") {
        FakePeer peer = bench.open_run();
        CHECK(peer.send(std::string(base::k_max_reply_line_bytes + 1, '[')));
        bench.settle();
    }
    SECTION("a frame beyond its bound") {
        FakePeer peer = bench.started_run();
        const auto header = bridge::frame_header(FrameType::output, base::k_max_frame_bytes + 1);
        CHECK(peer.send({header.data(), header.size()}));
        bench.settle();
        CHECK(peer.at_end());
    }
    SECTION("a frame of the host's") {
        FakePeer peer = bench.started_run();
        CHECK(peer.send(frame(FrameType::input, "x")));
        bench.settle();
    }
    SECTION("a grant for nothing") {
        FakePeer peer = bench.started_run();
        CHECK(peer.send(bridge::encode_grant(1)));
        bench.settle();
    }
    REQUIRE(bench.seen.failure.has_value());
    CHECK(bench.seen.failure->code() == Errc::bridge_failed);
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("an exit is told once, whatever comes behind it") {
    Bench bench;
    FakePeer peer = bench.started_run();
    CHECK(peer.send(bridge::encode_exit({1, 0, false}) + bridge::encode_exit({2, 0, false}) + "garbage"));
    bench.settle();
    CHECK(bench.seen.exit == sandbox::RunExit{1, 0, false});
    CHECK(bench.seen.calls == 2);
    CHECK(peer.at_end());
}

TEST_CASE("a program that cannot run is refused with its reason") {
    const auto [code, expected] =
        GENERATE(std::pair<const char*, Errc>{",\"code\":\"invalid\"", Errc::invalid_field},
                 std::pair<const char*, Errc>{",\"code\":\"busy\"", Errc::capacity},
                 std::pair<const char*, Errc>{",\"code\":\"no_process\"", Errc::too_many_processes},
                 std::pair<const char*, Errc>{",\"code\":\"else\"", Errc::bridge_failed},
                 std::pair<const char*, Errc>{"", Errc::bridge_failed});
    Bench bench;
    FakePeer peer = bench.open_run();
    CHECK(peer.send("{\"ok\":false,\"error\":\"no \\u0007\"" + std::string(code) + "}\n"));
    bench.settle();
    REQUIRE(bench.seen.failure.has_value());
    CHECK(bench.seen.failure->code() == expected);
    CHECK(bench.seen.failure->detail() == "no \x07");
    CHECK(bench.run->write("x") == 1);
    bench.run->close_input();
    bench.run->signal(SIGTERM);
}

TEST_CASE("a guest that does not answer is not waited for for ever") {
    Bench bench;
    FakePeer run_peer = bench.open_run();
    FakePeer dial_peer = bench.open_dial();
    bench.timers.advance(base::k_control_reply_deadline);
    REQUIRE(bench.dialled.end.has_value());
    CHECK(bench.dialled.end->error().code() == Errc::deadline_exceeded);
    CHECK_FALSE(bench.seen.failure.has_value());
    bench.timers.advance(bridge::k_exec_reply_deadline - base::k_control_reply_deadline);
    REQUIRE(bench.seen.failure.has_value());
    CHECK(bench.seen.failure->code() == Errc::deadline_exceeded);
    CHECK(run_peer.at_end());
    CHECK(dial_peer.at_end());
}

TEST_CASE("input goes out as far as it is granted, signals beside it") {
    Bench bench;
    FakePeer peer = bench.open_run();
    CHECK(bench.run->write("early") == 0);
    bench.run->signal(SIGTERM);
    CHECK(peer.received().empty());
    CHECK(peer.send(k_started));
    bench.settle();
    CHECK(bench.run->write("one") == 3);
    CHECK(peer.received() == frame(FrameType::input, "one"));
    const std::string big(base::k_input_window_bytes, 'x');
    CHECK(bench.run->write(big) == big.size() - 3);
    CHECK(bench.run->write("x") == 0);
    bench.run->signal(SIGINT);
    CHECK(peer.received().ends_with(bridge::encode_signal(SIGINT)));
    CHECK(bench.seen.rooms == 0);
    CHECK(peer.send(bridge::encode_grant(5) + bridge::encode_grant(5)));
    bench.settle();
    CHECK(bench.seen.rooms == 1);
    CHECK(bench.run->write("1234567890+") == 10);
    bench.run->close_input();
    bench.run->close_input();
    CHECK(peer.received() == frame(FrameType::input, "1234567890") + frame(FrameType::input_end));
    CHECK(bench.run->write("dropped") == 7);
    CHECK(peer.received().empty());
}

TEST_CASE("output without an end goes no faster than its observer") {
    Bench bench;
    FakePeer peer = bench.started_run();
    const std::string piece = frame(FrameType::output, std::string(8000, 'x'));
    bench.seen.full = true;
    std::size_t sent = 0;
    while (peer.send(piece)) {
        ++sent;
        bench.settle();
    }
    REQUIRE(sent > 1);
    CHECK(bench.seen.output.empty());
    CHECK(bench.timers.armed() == 0);
    bench.run->resume();
    bench.settle();
    CHECK(bench.seen.output.empty());
    // Full again in the middle of what one read brought.
    bench.seen.full = false;
    bench.seen.on_each = [&] { bench.seen.full = bench.seen.output.size() >= 16'000; };
    bench.run->resume();
    bench.settle();
    CHECK(bench.seen.output.size() == 16'000);
    bench.seen.on_each = [] {};
    bench.seen.full = false;
    bench.run->resume();
    bench.settle();
    CHECK(bench.seen.output.size() >= sent * 8000);
}

TEST_CASE("one handler hands out a bounded number of frames") {
    Bench bench;
    FakePeer peer = bench.started_run();
    std::string frames;
    for (int i = 0; i < 2000; ++i)
        frames += frame(FrameType::output, "x");
    CHECK(peer.send(frames + bridge::encode_exit({})));
    bench.loop.restart();
    for (std::size_t before = bench.seen.calls; !bench.seen.ended(); before = bench.seen.calls) {
        REQUIRE(bench.loop.poll_one() == 1);
        CHECK(bench.seen.calls - before <= bridge::k_frames_per_handler);
    }
    CHECK(bench.seen.output.size() == 2000);
}

TEST_CASE("a dialled connection carries bytes both ways until both ends are closed") {
    Bench bench;
    FakePeer peer = bench.open_dial();
    CHECK(bench.dial->write("early") == 0);
    CHECK(peer.send("{\"ok\":true}\nhello"));
    bench.settle();
    CHECK(bench.dialled.open);
    CHECK(bench.dialled.bytes == "hello");
    CHECK(bench.dial->write("question") == 8);
    CHECK(peer.received() == "question");
    SECTION("the host ends first") {
        bench.dial->close_write();
        CHECK(peer.at_end());
        CHECK(peer.send("answer"));
        peer.close();
        bench.settle();
        CHECK(bench.dialled.bytes == "helloanswer");
    }
    SECTION("the guest ends first") {
        shutdown(peer.fd(), SHUT_WR);
        bench.settle();
        CHECK(bench.dialled.eof);
        CHECK_FALSE(bench.dialled.end.has_value());
        CHECK(bench.dial->write("more") == 4);
        CHECK(peer.received() == "more");
        SECTION("then the host") {
            bench.dial->close_write();
            bench.settle();
            CHECK(peer.at_end());
        }
        SECTION("and goes") {
            peer.close();
            bench.dial->write("x");
            bench.dial->write("x");
            bench.settle();
        }
    }
    REQUIRE(bench.dialled.end.has_value());
    CHECK(bench.dialled.eof);
    CHECK(bench.dialled.end->has_value());
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("a dialled connection that is not read takes a bounded number of bytes") {
    Bench bench;
    FakePeer peer = bench.open_dial();
    CHECK(peer.send("{\"ok\":true}\n"));
    bench.settle();
    const std::string bytes(10'000'000, 'x');
    const std::size_t taken = bench.dial->write(bytes);
    CHECK(taken == base::k_stream_queue_bytes);
    std::size_t total = taken;
    std::size_t received = 0;
    for (int i = 0; i < 10'000 && total < bytes.size(); ++i) {
        received += peer.received().size();
        bench.settle();
        if (bench.dialled.rooms != 0) {
            bench.dialled.rooms = 0;
            total += bench.dial->write(std::string_view(bytes).substr(total));
        }
    }
    CHECK(total == bytes.size());
    bench.dial->close_write();
    for (int i = 0; i < 100; ++i) {
        received += peer.received().size();
        bench.settle();
    }
    CHECK(received == bytes.size());
}

TEST_CASE("a dial that is refused, broken or answered with garbage ends") {
    Bench bench;
    Errc expected = Errc::bridge_failed;
    {
        FakePeer peer = bench.open_dial();
        SECTION("nothing listens") {
            CHECK(peer.send("{\"ok\":false,\"error\":\"no\",\"code\":\"no_listener\"}\n"));
            expected = Errc::sandbox_failed;
            bench.settle();
        }
        SECTION("a bad port") {
            CHECK(peer.send("{\"ok\":false,\"error\":\"no\",\"code\":\"invalid\"}\n"));
            expected = Errc::invalid_field;
            bench.settle();
        }
        SECTION("garbage") {
            CHECK(peer.send("HTTP/1.1 200 OK\r\n"));
            bench.settle();
        }
        SECTION("nothing at all") {}
    }
    bench.settle();
    REQUIRE(bench.dialled.end.has_value());
    CHECK(bench.dialled.end->error().code() == expected);
    CHECK_FALSE(bench.dialled.open);
    CHECK(bench.timers.armed() == 0);
}

namespace {

/// A real guest and a real loop.
struct Real {
    GuestProcess guest;
    BridgeOnly process;
    boost::asio::io_context loop{1};
    base::AsioTimers timers{loop.get_executor()};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    std::unique_ptr<sandbox::Operations> operations;

    Real() {
        process.path = guest.path();
        operations = channels.open_operations(process);
    }
    template <class Condition>
    void run_until(Condition condition) {
        loop.restart();
        while (!condition())
            REQUIRE(loop.run_one_for(k_client_deadline) >= 1);
    }
};

}  // namespace

TEST_CASE("host and guest run programs together") {
    Real real;
    RunRecorder seen;
    sandbox::RunSpec spec;
    spec.command = "cat; echo err >&2; exit 9";
    spec.stdin_kind = sandbox::RunSpec::Stdin::pipe;
    auto run = real.operations->run(spec, seen);
    std::string sent(3'000'000, '\0');
    for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<char>(i * 7 + i / 251);
    std::size_t at = 0;
    seen.on_each = [&] {
        at += run->write(std::string_view(sent).substr(at));
        if (at == sent.size())
            run->close_input();
    };
    real.run_until([&] { return seen.ended(); });
    CHECK((seen.output == sent));
    CHECK(seen.error == "err\n");
    CHECK(seen.exit == sandbox::RunExit{9, 0, false});

    RunRecorder signalled;
    spec.command = "echo; sleep 1000";
    spec.stdin_kind = sandbox::RunSpec::Stdin::none;
    run = real.operations->run(spec, signalled);
    real.run_until([&] { return !signalled.output.empty(); });
    run->signal(SIGKILL);
    real.run_until([&] { return signalled.ended(); });
    CHECK(signalled.exit == sandbox::RunExit{0, SIGKILL, false});

    RunRecorder refused;
    spec.command.reset();
    spec.argv = {"/nonexistent"};
    run = real.operations->run(spec, refused);
    real.run_until([&] { return refused.ended(); });
    CHECK(refused.failure->code() == Errc::invalid_field);

    RunRecorder held;
    held.full = true;
    spec.argv = {"head", "-c", "2000000", "/dev/zero"};
    run = real.operations->run(spec, held);
    real.run_until([&] { return held.pid != 0; });
    held.full = false;
    run->resume();
    real.run_until([&] { return held.ended(); });
    CHECK(held.output.size() == 2'000'000);
}

TEST_CASE("host and guest dial together") {
    Real real;
    base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener.get(), 4) == 0);
    REQUIRE(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    DialRecorder seen;
    auto dial = real.operations->dial(ntohs(address.sin_port), seen);
    real.run_until([&] { return seen.open; });
    const base::UniqueFd peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    CHECK(dial->write("ping") == 4);
    dial->close_write();
    char text[16];
    CHECK(recv(peer.get(), text, 4, MSG_WAITALL) == 4);
    CHECK(recv(peer.get(), text, 1, 0) == 0);
    CHECK(send(peer.get(), "pong", 4, 0) == 4);
    shutdown(peer.get(), SHUT_WR);
    real.run_until([&] { return seen.end.has_value(); });
    CHECK(seen.end->has_value());
    CHECK(seen.eof);
    CHECK(seen.bytes == "pong");

    listener.reset();
    DialRecorder refused;
    dial = real.operations->dial(ntohs(address.sin_port), refused);
    real.run_until([&] { return refused.end.has_value(); });
    CHECK(refused.end->error().code() == Errc::sandbox_failed);
}

}  // namespace atl::test::unix_operations_test
