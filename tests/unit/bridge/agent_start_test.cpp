// Agents that are started on demand, as the host sees them.
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>

#include "bridge/unix_channel.hpp"
#include "core/base/asio_timers.hpp"
#include "fake_guest.hpp"
#include "guest_process.hpp"

namespace atl::test::agent_start_test {
namespace {

using base::Errc;
using Reply = std::optional<base::Result<void>>;

constexpr std::string_view k_ok = "{\"ok\":true}\n";
constexpr std::string_view k_exit = "{\"ev\":\"agent_exit\",\"detail\":\"exited\"}\n";
const std::vector<std::string> k_one_exit = {"exited"};

sandbox::AgentSpec echo_agent() {
    sandbox::AgentSpec spec;
    spec.kind = sandbox::AgentSpec::Kind::echo;
    return spec;
}

/// A generation with a ready guest and no agent.
struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Channel> channel = channels.open("sandbox", guest);
    std::vector<std::string> exits;
    std::optional<FakePeer> control;
    Reply reply;

    explicit Bench(sandbox::AgentSpec first = {}) {
        Reply ready;
        channel->start(
            first, [&](base::Result<void> result) { ready.emplace(std::move(result)); },
            [this](std::string detail) { exits.push_back(std::move(detail)); });
        control.emplace(guest.accept());
        CHECK(control->send(k_ok));
        settle();
        REQUIRE(ready.has_value());
        REQUIRE(ready->has_value());
    }
    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    void begin() {
        channel->start_agent(echo_agent(),
                             [this](base::Result<void> result) { reply.emplace(std::move(result)); });
    }
    FakePeer ask() {
        reply.reset();
        begin();
        FakePeer peer = guest.accept();
        CHECK(peer.received() == "{\"cmd\":\"agent\",\"agent\":{\"kind\":\"echo\",\"argv\":[]}}\n");
        return peer;
    }
    void refuse() {
        reply.reset();
        begin();
        CHECK_FALSE(reply.has_value());
        settle();
        REQUIRE(reply.has_value());
        CHECK_FALSE(guest.has_connection());
    }
};

}  // namespace

TEST_CASE("what a program is told first goes with the command that starts it, as it is") {
    sandbox::AgentSpec program;
    program.kind = sandbox::AgentSpec::Kind::command;
    program.argv = {"/agent/run"};
    program.resume = R"({"cmd":"resume","turns":[]})";
    CHECK(
        bridge::encode_agent_command(bridge::cmd::agent, program) ==
        R"({"cmd":"agent","agent":{"kind":"command","argv":["/agent/run"],"resume":{"cmd":"resume","turns":[]}}})"
        "\n");
}

TEST_CASE("an agent is started where none runs, and its end is told once") {
    Bench bench;
    for (int i = 0; i < 2; ++i) {
        FakePeer peer = bench.ask();
        CHECK(peer.send(k_ok));
        bench.settle();
        REQUIRE(bench.reply.has_value());
        CHECK(bench.reply->has_value());
        bench.refuse();
        CHECK(bench.reply->error().detail() == "an agent runs already");
        CHECK(bench.control->send(k_exit));
        bench.settle();
        CHECK(bench.exits == k_one_exit);
        bench.exits.clear();
    }
    CHECK(bench.control->send(k_exit));
    bench.settle();
    CHECK(bench.exits.empty());
    CHECK(bench.control->at_end());
    bench.refuse();
    CHECK(bench.reply->error().code() == Errc::bridge_failed);
}

TEST_CASE("after the agent of the start has ended another is started") {
    Bench bench(echo_agent());
    bench.refuse();
    CHECK(bench.reply->error().code() == Errc::agent_failed);
    CHECK(bench.control->send(k_exit));
    bench.settle();
    CHECK(bench.exits == k_one_exit);
    FakePeer peer = bench.ask();
    CHECK(peer.send(k_ok));
    bench.settle();
    REQUIRE(bench.reply.has_value());
    CHECK(bench.reply->has_value());
    bench.control->close();
    bench.settle();
    CHECK(bench.exits == std::vector<std::string>{"exited", "lost its control stream"});
}

TEST_CASE("an agent that cannot start is refused with its reason, and may be tried again") {
    Bench bench;
    FakePeer peer = bench.ask();
    CHECK(peer.send("{\"ok\":false,\"error\":\"no such program\"}\n"));
    bench.settle();
    REQUIRE(bench.reply.has_value());
    CHECK(bench.reply->error().code() == Errc::agent_failed);
    CHECK(bench.reply->error().detail() == "no such program");
    FakePeer second = bench.ask();
    bench.timers.advance(base::k_start_deadline);
    REQUIRE(bench.reply.has_value());
    CHECK(bench.reply->error().code() == Errc::deadline_exceeded);
    CHECK(second.at_end());
    // The agent may run all the same, so the guest may report its end.
    CHECK(bench.control->send(k_exit));
    bench.settle();
    CHECK_FALSE(bench.control->at_end());
    CHECK(bench.exits.empty());
}

TEST_CASE("the end of an agent that is told before its start is answered comes after the answer") {
    Bench bench;
    FakePeer peer = bench.ask();
    bench.begin();
    bench.settle();
    CHECK(bench.reply->error().detail() == "an agent is being started already");
    bench.reply.reset();
    CHECK(bench.control->send(k_exit));
    bench.settle();
    CHECK(bench.exits.empty());
    SECTION("a good one") {
        CHECK(peer.send(k_ok));
        bench.settle();
        REQUIRE(bench.reply.has_value());
        CHECK(bench.reply->has_value());
        CHECK(bench.exits.empty());
        SECTION("and is told") {
            bench.timers.advance(base::Millis{0});
            CHECK(bench.exits == k_one_exit);
            CHECK_FALSE(bench.control->at_end());
        }
        SECTION("and not to a channel that is gone") {
            bench.channel.reset();
            bench.timers.advance(base::Millis{0});
            CHECK(bench.exits.empty());
        }
    }
    SECTION("a bad one") {
        CHECK(peer.send("{\"ok\":false,\"error\":\"x\"}\n"));
        bench.settle();
        bench.timers.advance(base::Millis{0});
        CHECK(bench.exits.empty());
    }
    SECTION("twice") {
        CHECK(bench.control->send(k_exit));
        bench.settle();
        CHECK(bench.control->at_end());
    }
    bench.channel.reset();
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("an agent's start before the generation's, and its answer after the channel's end") {
    boost::asio::io_context loop(1);
    HandTimers timers(loop);
    bridge::UnixChannels channels(loop.get_executor(), timers);
    FakeGuest guest;
    auto channel = channels.open("sandbox", guest);
    Reply reply;
    const auto done = [&reply](base::Result<void> result) { reply.emplace(std::move(result)); };
    channel->start_agent(echo_agent(), done);
    loop.poll();
    REQUIRE(reply.has_value());
    CHECK(reply->error().code() == Errc::bridge_failed);
    reply.reset();
    channel->start_agent(echo_agent(), done);
    channel.reset();
    loop.restart();
    loop.poll();
    CHECK_FALSE(reply.has_value());
}

TEST_CASE("channel and guest start an agent on demand") {
    const GuestProcess process;
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
    Reply reply;
    const auto done = [&reply](base::Result<void> result) { reply.emplace(std::move(result)); };
    std::string exit;
    channel->start({}, done, [&exit](std::string detail) { exit = std::move(detail); });
    run_until([&] { return reply.has_value(); });
    REQUIRE(reply->has_value());

    sandbox::AgentSpec agent;
    agent.kind = sandbox::AgentSpec::Kind::command;
    agent.argv = {"/bin/false"};
    reply.reset();
    channel->start_agent(agent, done);
    run_until([&] { return reply.has_value(); });
    CHECK(reply->error().code() == Errc::agent_failed);
    CHECK(reply->error().detail() == "the agent exited with status 1 before it was ready");

    agent.argv = {"/bin/bash", "-c",
                  "echo '{\"ev\":\"ready\"}'; read a; echo '{\"ev\":\"done\"}'; read b; exit 3"};
    for (int i = 0; i < 2; ++i) {
        reply.reset();
        exit.clear();
        channel->start_agent(agent, done);
        run_until([&] { return reply.has_value(); });
        REQUIRE(reply->has_value());
        Recorder turn;
        auto query = channel->query("t1", "x", "{}", turn);
        run_until([&] { return turn.ended(); });
        CHECK(turn.calls == std::vector<std::string>{"done {}", end_call(sandbox::QueryEnd::done)});
        Recorder last;
        query = channel->query("t2", "x", "{}", last);
        run_until([&] { return last.ended() && !exit.empty(); });
        CHECK(exit == "exited with status 3");
    }
}

}  // namespace atl::test::agent_start_test
