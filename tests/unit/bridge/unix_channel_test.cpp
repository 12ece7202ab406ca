#include "bridge/unix_channel.hpp"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <optional>

#include "bridge/protocol.hpp"
#include "core/base/asio_timers.hpp"
#include "fake_guest.hpp"
#include "guest_process.hpp"

namespace atl::test::unix_channel_test {
namespace {

using base::Errc;
using sandbox::QueryEnd;
using Reply = std::optional<base::Result<void>>;

/// A loop driven by hand, a channel on it, a scripted guest.
struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Channel> channel = channels.open("sandbox", guest);
    Recorder turn;
    std::unique_ptr<sandbox::Query> query;

    explicit Bench(int backlog = 64) : guest(backlog) {}
    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    FakePeer open_query() {
        query = channel->query("t1", "hello", "{}", turn);
        FakePeer peer = guest.accept();
        settle();
        return peer;
    }
    std::function<void(base::Result<void>)> into(Reply& reply) {
        return [&reply](base::Result<void> result) { reply.emplace(std::move(result)); };
    }
};

const std::string k_turn =
    "{\"ev\":\"text_delta\",\"data\":{\"delta\":\"\xE2\x82\xAC\"}}\n{\"ev\":\"message\",\"data\":{\"n\":1.0}}"
    "\n"
    "{\"ev\":\"done\"}\n";
const std::vector<std::string> k_turn_calls = {"text_delta {\"delta\":\"\xE2\x82\xAC\"}",
                                               "message {\"n\":1.0}", "done {}", end_call(QueryEnd::done)};

std::size_t open_descriptors() {
    std::size_t count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr)
        ++count;
    closedir(folder);
    return count;
}

}  // namespace

TEST_CASE("a query writes one command line and hands out events until done") {
    Bench bench;
    bench.query = bench.channel->query("t1", "say \"hi\"\n", "{\"model\":\"m\",\n\"n\":1.0}", bench.turn);
    FakePeer peer = bench.guest.accept();
    CHECK(peer.received() ==
          "{\"cmd\":\"query\",\"turn\":\"t1\",\"prompt\":\"say \\\"hi\\\"\\n\",\"options\":{\"model\":\"m\", "
          "\"n\":1.0}}\n");
    CHECK(peer.send(k_turn + "{\"ev\":\"text_delta\",\"data\":{}}\n"));
    CHECK(bench.turn.calls.empty());
    bench.settle();
    CHECK(bench.turn.calls == k_turn_calls);
    CHECK(peer.at_end());
}

TEST_CASE("a query asks to end leftovers once, where that is wanted") {
    Bench bench;
    bench.channel->end_stray_processes();
    const auto line_of = [&](const char* turn) {
        bench.query = bench.channel->query(turn, "x", "{}", bench.turn);
        return bench.guest.accept().received();
    };
    CHECK(line_of("t1") ==
          "{\"cmd\":\"query\",\"turn\":\"t1\",\"prompt\":\"x\",\"options\":{},\"endLeftovers\":true}\n");
    CHECK(line_of("t2") == "{\"cmd\":\"query\",\"turn\":\"t2\",\"prompt\":\"x\",\"options\":{}}\n");
}

TEST_CASE("the next query goes by the connection of one that ended with done") {
    Bench bench;
    FakePeer peer = bench.open_query();
    CHECK(peer.send(k_turn));
    bench.settle();
    REQUIRE(bench.turn.ended());
    CHECK_FALSE(peer.at_end());

    Recorder second;
    auto query = bench.channel->query("t2", "again", "", second);
    bench.query.reset();  // the old one's end is not the new one's
    CHECK_FALSE(bench.guest.has_connection());
    CHECK(peer.received().find("again") != std::string::npos);
    SECTION("and may be cut there, as any") {
        query.reset();
        CHECK(peer.at_end());
    }
    SECTION("and gets its own events alone") {
        CHECK(peer.send(k_turn));
        bench.settle();
        CHECK(second.calls == k_turn_calls);
        CHECK(bench.turn.calls == k_turn_calls);
        bench.channel.reset();
        CHECK(peer.at_end());
    }
    SECTION("and a third one at the same time gets one of its own") {
        Recorder third;
        const auto other = bench.channel->query("t3", "x", "", third);
        CHECK(bench.guest.has_connection());
    }
}

TEST_CASE("a connection on which a guest speaks or goes between two queries is not used again") {
    Bench bench;
    FakePeer peer = bench.open_query();
    CHECK(peer.send(k_turn));
    bench.settle();
    SECTION("late events") {
        CHECK(peer.send("{\"ev\":\"message\",\"data\":{\"late\":1}}\n"));
        bench.settle();
    }
    SECTION("late events, not noticed yet") {
        CHECK(peer.send("x"));
    }
    SECTION("closed") {
        peer.close();
        bench.settle();
    }
    SECTION("closed, not noticed yet") {
        peer.close();
    }
    Recorder second;
    const auto query = bench.channel->query("t2", "again", "", second);
    FakePeer fresh = bench.guest.accept();
    CHECK(fresh.send(k_turn));
    bench.settle();
    CHECK(second.calls == k_turn_calls);
}

TEST_CASE("a turn may arrive cut at any byte") {
    for (std::size_t cut = 0; cut <= k_turn.size(); ++cut) {
        Bench bench;
        FakePeer peer = bench.open_query();
        CHECK(peer.send(k_turn.substr(0, cut)));
        bench.settle();
        peer.send(k_turn.substr(cut));
        bench.settle();
        CHECK(bench.turn.calls == k_turn_calls);
    }
}

TEST_CASE("a turn that breaks off at any byte ends as closed") {
    for (std::size_t cut = 0; cut < k_turn.size(); ++cut) {
        Bench bench;
        FakePeer peer = bench.open_query();
        CHECK(peer.send(k_turn.substr(0, cut)));
        peer.close();
        bench.settle();
        const auto lines = static_cast<std::size_t>(
            std::count(k_turn.begin(), k_turn.begin() + static_cast<long>(cut), '\n'));
        REQUIRE(bench.turn.calls.size() == lines + 1);
        CHECK(bench.turn.calls.back() == end_call(QueryEnd::closed));
    }
}

TEST_CASE("refused lines are told and the turn goes on") {
    Bench bench;
    FakePeer peer = bench.open_query();
    CHECK(peer.send(
        "garbage\n\n{\"ev\":\"ready\",\"data\":{}}\n{\"ev\":\"message\",\"data\":{}}\n{\"ev\":\"done\"}\n"));
    bench.settle();
    REQUIRE(bench.turn.calls.size() == 6);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(bench.turn.calls[i].starts_with("bad "));
    CHECK(bench.turn.calls[3] == "message {}");
    CHECK(bench.turn.calls.back() == end_call(QueryEnd::done));
}

TEST_CASE("a line beyond its bound is a protocol error, found before it is complete") {
    Bench bench;
    FakePeer peer = bench.open_query();
    const std::string piece(32 * 1024, 'x');
    for (std::size_t sent = 0; sent <= base::k_max_event_line_bytes && !bench.turn.ended();
         sent += piece.size()) {
        CHECK(peer.send(piece));
        bench.settle();
    }
    CHECK(bench.turn.calls == std::vector<std::string>{end_call(QueryEnd::protocol_error)});
    CHECK(peer.at_end());
}

TEST_CASE("a line of exactly the bound passes") {
    Bench bench;
    FakePeer peer = bench.open_query();
    std::string line = "{\"ev\":\"message\",\"data\":{\"x\":\"\"}}";
    line.insert(line.size() - 3, base::k_max_event_line_bytes - line.size(), 'x');
    line += "\n{\"ev\":\"done\"}\n";
    for (std::size_t at = 0; at < line.size(); at += 32 * 1024) {
        CHECK(peer.send(std::string_view(line).substr(at, 32 * 1024)));
        bench.settle();
    }
    REQUIRE(bench.turn.calls.size() == 3);
    CHECK(bench.turn.calls[0].size() > base::k_max_event_line_bytes - 64);
}

TEST_CASE("destroying a query cancels it, also from inside its own calls") {
    for (std::size_t at = 0; at <= k_turn_calls.size(); ++at) {
        Bench bench;
        bench.turn.on_each = [&] {
            if (bench.turn.calls.size() == at)
                bench.query.reset();
        };
        FakePeer peer = bench.open_query();
        if (at == 0)
            bench.query.reset();
        peer.send(k_turn);
        bench.settle();
        CHECK(bench.turn.calls.size() == at);
        const bool before_done = at < k_turn_calls.size() - 1;
        CHECK(peer.at_end() == before_done);
        CHECK(bench.timers.armed() == 0);
    }
}

TEST_CASE("a query to nobody ends as connect_failed, from the loop") {
    Bench bench;
    bridge::UnixChannels channels(bench.loop.get_executor(), bench.timers);
    struct Gone final : sandbox::Process {
        std::string path = "/nonexistent/bridge.sock";
        const std::string& bridge_path() const override { return path; }
        pid_t pid() const override { return 0; }
        void terminate() override {}
        void kill() override {}
        std::string log_tail() const override { return {}; }
    } gone;
    for (const std::string& path : {gone.path, std::string(200, 'x'), std::string(108, 'x')}) {
        gone.path = path;
        Recorder turn;
        const auto query = channels.open("sandbox", gone)->query("t1", "x", "", turn);
        CHECK(turn.calls.empty());
        bench.settle();
        CHECK(turn.calls == std::vector<std::string>{end_call(QueryEnd::connect_failed)});
        Recorder dropped;
        channels.open("sandbox", gone)->query("t1", "x", "", dropped).reset();
        bench.settle();
        CHECK(dropped.calls.empty());
    }
}

TEST_CASE("a full backlog is waited for, and not for ever") {
    Bench bench(0);
    bench.query = bench.channel->query("t1", "first", "", bench.turn);  // fills the backlog
    Recorder second;
    const auto query = bench.channel->query("t2", "second", "", second);
    bench.settle();
    CHECK(second.calls.empty());
    FakePeer first_peer = bench.guest.accept();
    bench.timers.advance(base::Millis{10});
    FakePeer second_peer = bench.guest.accept();
    CHECK(second_peer.received().find("second") != std::string::npos);
    CHECK(second_peer.send(k_turn));
    bench.settle();
    CHECK(second.calls == k_turn_calls);

    Recorder reused;
    Recorder third;
    Recorder fourth;
    const auto on_kept_stream = bench.channel->query("t2", "x", "", reused);
    const auto filler = bench.channel->query("t3", "x", "", third);
    const auto refused = bench.channel->query("t4", "x", "", fourth);
    bench.timers.advance(base::Millis{5000});
    bench.settle();
    CHECK(fourth.calls == std::vector<std::string>{end_call(QueryEnd::connect_failed)});
}

TEST_CASE("a large command is written as the guest reads it") {
    Bench bench;
    const std::string prompt(base::k_max_body_bytes, '\x01');
    bench.query = bench.channel->query("t1", prompt, "", bench.turn);
    FakePeer peer = bench.guest.accept();
    std::string received;
    while (received.empty() || received.back() != '\n') {
        const std::string more = peer.received();
        received += more;
        bench.settle();
    }
    CHECK((received == bridge::encode_query("t1", prompt, "")));
    CHECK(peer.send(k_turn));
    bench.settle();
    CHECK(bench.turn.calls == k_turn_calls);
}

TEST_CASE("one handler hands out a bounded number of events, then others have their turn") {
    Bench bench;
    FakePeer peer = bench.open_query();
    std::string lines;
    for (int i = 0; i < 2000; ++i)
        lines += "{\"ev\":\"message\",\"data\":{}}\n";
    CHECK(peer.send(lines + "{\"ev\":\"done\"}\n"));
    bench.loop.restart();
    std::size_t before = 0;
    while (!bench.turn.ended()) {
        REQUIRE(bench.loop.poll_one() == 1);
        CHECK(bench.turn.calls.size() - before <= bridge::k_lines_per_handler + 1);
        before = bench.turn.calls.size();
    }
    CHECK(bench.turn.calls.size() == 2002);
}

TEST_CASE("output that is only counted, or only refused, is read no faster than its bound") {
    Bench bench;
    FakePeer peer = bench.open_query();
    std::string lines;
    SECTION("counted") {
        bench.turn.slow = true;
        for (int i = 0; i < 1000; ++i)
            lines += "{\"ev\":\"message\",\"data\":{}}\n";
    }
    SECTION("refused") {
        for (int i = 0; i < 1000; ++i)
            lines += "garbage that goes on and on\n";
    }
    CHECK(peer.send(lines));
    bench.settle();
    CHECK(bench.turn.calls.size() == 1000);
    CHECK(bench.timers.armed() == 1);
    CHECK(peer.send("{\"ev\":\"done\"}\n"));
    bench.settle();
    CHECK_FALSE(bench.turn.ended());
    const std::size_t cost_bytes = lines.size() + 1000 * base::k_paced_line_bytes;
    bench.timers.advance(base::Millis{1 + cost_bytes * 1000 / base::k_truncated_read_bytes_per_s});
    bench.settle();
    CHECK(bench.turn.ended());
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("descriptors that a guest sends do not arrive") {
    Bench bench;
    FakePeer peer = bench.open_query();
    const std::size_t before = open_descriptors();
    std::string text = k_turn;
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int given = peer.fd();
    std::memcpy(CMSG_DATA(header), &given, sizeof given);
    REQUIRE(sendmsg(peer.fd(), &message, MSG_DONTWAIT) > 0);
    bench.settle();
    CHECK(bench.turn.calls == k_turn_calls);
    CHECK(open_descriptors() == before);
}

TEST_CASE("start tells the guest the agent and waits for its reply") {
    Bench bench;
    Reply ready;
    std::vector<std::string> exits;
    sandbox::AgentSpec agent;
    agent.kind = sandbox::AgentSpec::Kind::command;
    agent.argv = {"/agent/run", "a \"b\""};
    agent.start_timeout = std::chrono::seconds{7};
    bench.channel->start(agent, bench.into(ready),
                         [&](std::string detail) { exits.push_back(std::move(detail)); });
    FakePeer peer = bench.guest.accept();
    CHECK(peer.received() == R"({"cmd":"start","agent":{"kind":"command","argv":["/agent/run","a \"b\""]}})"
                             "\n");
    bench.settle();
    CHECK_FALSE(ready.has_value());

    SECTION("ready, then the agent ends, then the guest") {
        CHECK(peer.send("{\"ok\":true}\n"));
        bench.settle();
        REQUIRE(ready.has_value());
        CHECK(ready->has_value());
        CHECK(bench.timers.armed() == 0);
        CHECK(peer.send("{\"ev\":\"agent_exit\",\"detail\":\"exited\\u0007 3\"}\n"));
        bench.timers.advance(base::Millis{100});
        bench.settle();
        CHECK(exits == std::vector<std::string>{"exited\x07 3"});
        CHECK_FALSE(peer.at_end());
        peer.close();
        bench.settle();
        CHECK(exits.size() == 1);
    }
    SECTION("ready, then the control stream breaks") {
        CHECK(peer.send("{\"ok\":true}\n"));
        bench.settle();
        peer.close();
        bench.settle();
        CHECK(exits == std::vector<std::string>{"lost its control stream"});
    }
    SECTION("ready, then garbage") {
        CHECK(peer.send("{\"ok\":true}\n{\"ok\":true}\n{\"ev\":\"agent_exit\",\"detail\":\"x\"}\n"));
        bench.settle();
        CHECK(exits == std::vector<std::string>{"broke the protocol of its control stream"});
        CHECK(peer.at_end());
    }
    SECTION("refused") {
        CHECK(peer.send("{\"ok\":false,\"error\":\"no such program\"}\n"));
        bench.settle();
        REQUIRE(ready.has_value());
        CHECK(ready->error().code() == Errc::agent_failed);
        CHECK(ready->error().detail() == "no such program");
        CHECK(peer.at_end());
    }
    SECTION("never ready") {
        bench.timers.advance(agent.start_timeout - base::Millis{1});
        CHECK_FALSE(ready.has_value());
        bench.timers.advance(base::Millis{1});
        REQUIRE(ready.has_value());
        CHECK(ready->error().code() == Errc::agent_failed);
        CHECK(peer.at_end());
    }
    SECTION("the guest dies") {
        peer.close();
        bench.settle();
        REQUIRE(ready.has_value());
        CHECK(ready->error().code() == Errc::bridge_failed);
    }
    SECTION("not a reply") {
        for (const std::string_view line : {"garbage\n"})
            CHECK(peer.send(line));
        bench.settle();
        REQUIRE(ready.has_value());
        CHECK(ready->error().code() == Errc::bridge_failed);
    }
    SECTION("a reply without an end") {
        CHECK(peer.send(std::string(base::k_max_reply_line_bytes + 1, '[')));
        bench.settle();
        REQUIRE(ready.has_value());
        CHECK(ready->error().code() == Errc::bridge_failed);
    }
    SECTION("the channel is destroyed first") {
        bench.channel.reset();
        bench.settle();
        bench.timers.advance(base::Millis{60'000});
        CHECK_FALSE(ready.has_value());
        CHECK(peer.at_end());
    }
    if (ready.has_value() && !ready->has_value())
        CHECK(exits.empty());
}

TEST_CASE("a channel may be destroyed in any of its answers") {
    for (const std::string_view reply :
         {"{\"ok\":true}\n", "{\"ok\":false,\"error\":\"x\"}\n", "garbage\n", ""}) {
        Bench bench;
        int calls = 0;
        const auto destroy = [&](const base::Result<void>&) {
            ++calls;
            bench.channel.reset();
        };
        SECTION("start " + std::string(reply)) {
            bench.channel->start({}, destroy, [](const std::string&) {});
        }
        SECTION("interrupt " + std::string(reply)) {
            bench.channel->interrupt("t1", destroy);
        }
        SECTION("shutdown " + std::string(reply)) {
            bench.channel->shutdown(destroy);
        }
        if (!bench.guest.has_connection())
            continue;
        FakePeer peer = bench.guest.accept();
        peer.send(reply);
        if (reply.empty())
            peer.close();
        bench.settle();
        CHECK(calls == 1);
        CHECK(bench.timers.armed() == 0);
    }
}

TEST_CASE("interrupt and shutdown report the guest's answer") {
    Bench bench;
    Reply reply;
    bench.channel->interrupt("t1", bench.into(reply));
    FakePeer peer = bench.guest.accept();
    CHECK(peer.received() == "{\"cmd\":\"interrupt\",\"turn\":\"t1\"}\n");

    SECTION("done") {
        CHECK(peer.send("{\"ok\":true}\n"));
        bench.settle();
        REQUIRE(reply.has_value());
        CHECK(reply->has_value());
    }
    SECTION("no such turn") {
        CHECK(peer.send("{\"ok\":false,\"error\":\"no such turn\"}\n"));
        bench.settle();
        REQUIRE(reply.has_value());
        CHECK(reply->error().code() == Errc::no_turn);
    }
    SECTION("no answer in time") {
        bench.timers.advance(base::k_control_reply_deadline);
        REQUIRE(reply.has_value());
        CHECK(reply->error().code() == Errc::deadline_exceeded);
    }
    SECTION("a closed stream") {
        peer.close();
        bench.settle();
        REQUIRE(reply.has_value());
        CHECK(reply->error().code() == Errc::bridge_failed);
    }
    reply.reset();
    bench.channel->shutdown(bench.into(reply));
    FakePeer second = bench.guest.accept();
    CHECK(second.received() == "{\"cmd\":\"shutdown\"}\n");
    CHECK(second.send("{\"ok\":true}\n"));
    bench.settle();
    REQUIRE(reply.has_value());
    CHECK(reply->has_value());
}

TEST_CASE("channel and guest understand each other") {
    GuestProcess process;
    BridgeOnly real;
    real.path = process.path();
    boost::asio::io_context loop(1);
    base::AsioTimers timers(loop.get_executor());
    bridge::UnixChannels channels(loop.get_executor(), timers);
    const auto channel = channels.open("sandbox", real);
    const auto run_until = [&](const auto& condition) {
        while (!condition())
            REQUIRE(loop.run_one_for(k_client_deadline) == 1);
    };

    Reply ready;
    std::string exit;
    sandbox::AgentSpec shell;
    shell.kind = sandbox::AgentSpec::Kind::shell;
    channel->start(
        shell, [&](base::Result<void> result) { ready.emplace(std::move(result)); },
        [&](std::string detail) { exit = std::move(detail); });
    run_until([&] { return ready.has_value(); });
    REQUIRE(ready->has_value());

    Recorder turn;
    auto query = channel->query("t1", "echo hi; exit 3", "{}", turn);
    run_until([&] { return turn.ended(); });
    CHECK(turn.calls == std::vector<std::string>{R"(text_delta {"delta":"hi\n","stream":"stdout"})",
                                                 R"(turn_complete {"result":"error","exitCode":3})",
                                                 "done {}", end_call(QueryEnd::done)});

    Recorder interrupted;
    Reply reply;
    interrupted.on_each = [&] {
        if (interrupted.calls.size() == 1)
            channel->interrupt("t2", [&](base::Result<void> result) { reply.emplace(std::move(result)); });
    };
    query = channel->query("t2", "echo started; exec sleep 1000", "{}", interrupted);
    run_until([&] { return interrupted.ended() && reply.has_value(); });
    CHECK(reply->has_value());
    CHECK(interrupted.calls[1] ==
          R"(turn_complete {"result":"interrupted","exitCode":130,"signal":"SIGINT"})");

    Reply stopped;
    channel->shutdown([&](base::Result<void> result) { stopped.emplace(std::move(result)); });
    run_until([&] { return stopped.has_value() && !exit.empty(); });
    CHECK(stopped->has_value());
    CHECK(exit == "lost its control stream");
    CHECK(process.wait() == 0);
}

}  // namespace atl::test::unix_channel_test
