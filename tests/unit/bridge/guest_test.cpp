#include "bridge/guest/guest.hpp"

#include <signal.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <iterator>

#include "bridge/protocol.hpp"
#include "core/base/limits.hpp"
#include "guest_process.hpp"
#include "tests/support/paths.hpp"

namespace atl::test::bridge_guest_test {
namespace {

constexpr std::string_view k_echo = R"({"kind":"echo"})";
constexpr std::string_view k_shell = R"({"kind":"shell"})";

std::string children_of(pid_t pid) {
    const std::string task = std::to_string(pid);
    std::ifstream file("/proc/" + task + "/task/" + task + "/children");
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the echo agent says what it is told and ends the turn") {
    const GuestProcess guest;
    const Client control = guest.start(k_echo);
    const auto lines = guest.query("hello \"you\"\n\xE2\x82\xAC").rest();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "{\"ev\":\"text_delta\",\"data\":{\"delta\":\"hello \\\"you\\\"\\n\xE2\x82\xAC\"}}");
    CHECK(lines[1] == "{\"ev\":\"done\",\"data\":{}}");
    CHECK(guest.run("").names() == "done");
}

TEST_CASE("a message of the largest size comes back whole, also when every character is escaped") {
    const GuestProcess guest;
    const Client control = guest.start(k_echo);
    const std::string prompt(base::k_max_body_bytes, '\x01');
    const auto lines = guest.query(prompt).rest();
    for (const std::string& line : lines)
        CHECK(line.size() <= base::k_max_event_line_bytes);
    CHECK(Transcript::of(lines).text == prompt);
}

TEST_CASE("a command may arrive byte by byte") {
    const GuestProcess guest;
    const Client control = guest.start(k_echo);
    Client client = guest.connect();
    for (const char c : bridge::encode_query("t1", "slow", ""))
        client.send(std::string_view(&c, 1));
    CHECK(Transcript::of(client.rest()).text == "slow");
}

TEST_CASE("what is not a command is refused, and the guest serves on") {
    const GuestProcess guest;
    for (const std::string_view line :
         {"", "garbage", "{}", "[]", "{\"cmd\":1}", "{\"cmd\":\"query\"", "{\"cmd\":\"\"}"})
        CHECK(guest.ask(line) == nlohmann::json{{"ok", false}, {"error", "not a command"}});
    CHECK(guest.ask(R"({"cmd":"fly"})") == nlohmann::json{{"ok", false}, {"error", "unknown command"}});
    CHECK(guest.ask(R"({"cmd":"start"})").at("error") == "start without an agent");
    CHECK(guest.ask(R"({"cmd":"start","agent":{"kind":"x"}})").at("error") == "unknown kind of agent");
    CHECK(guest.ask(R"({"cmd":"start","agent":{"kind":"command","argv":[1]}})").at("error") ==
          "start without an agent");
    CHECK(guest.ask("{\"cmd\":\"start\",\"agent\":" + std::string(100'000, '[')).at("error") ==
          "not a command");
    const Client control = guest.start(k_echo);
    CHECK(guest.run("still here").text == "still here");
}

TEST_CASE("a command line beyond its bound is refused without being kept") {
    const GuestProcess guest;
    Client client = guest.connect();
    try {
        client.send(std::string(bridge::k_max_command_line_bytes + 64 * 1024, 'x'));
    } catch (const std::runtime_error&) {
        // The guest closed the stream before it was all sent.
    }
    const auto lines = client.rest();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] == R"({"ok":false,"error":"the command is too long"})");
}

TEST_CASE("a host that leaves before its command ends harms nobody") {
    const GuestProcess guest;
    const Client control = guest.start(k_echo);
    for (int i = 0; i < 100; ++i) {
        Client client = guest.connect();
        if (i % 2 == 0)
            client.send("{\"cmd\":\"qu");
    }
    CHECK(guest.run("fine").text == "fine");
}

TEST_CASE("more connections than the bound are closed at once") {
    const GuestProcess guest;
    std::vector<Client> idle;
    for (std::size_t i = 0; i < base::k_max_guest_connections; ++i) {
        idle.push_back(guest.connect());
        idle.back().send("{");
    }
    CHECK_FALSE(guest.connect().line().has_value());
    idle.pop_back();
    REQUIRE(eventually([&] {
        Client client = guest.connect();
        try {
            client.send("x\n");
            return client.line().has_value();
        } catch (const std::runtime_error&) {
            return false;
        }
    }));
}

TEST_CASE("a generation is started once") {
    const GuestProcess guest;
    const Client control = guest.start(k_echo);
    CHECK(guest.ask(R"({"cmd":"start","agent":{"kind":"echo"}})").at("error") == "already started");
}

TEST_CASE("without an agent a turn is an error and done") {
    const GuestProcess guest;
    const Transcript before = guest.run("x");
    CHECK(before.names() == "error done");
    CHECK(before.data("error").at("code") == "no_agent");
    const Client control = guest.start(R"({"kind":"none"})");
    CHECK(guest.run("x").names() == "error done");
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"t1"})").at("ok") == false);
}

TEST_CASE("an agent is started on demand in a generation without one") {
    const GuestProcess guest;
    const auto agent = [&guest](std::string_view spec) {
        return guest.ask("{\"cmd\":\"agent\",\"agent\":" + std::string(spec) + "}");
    };
    CHECK(agent(k_echo).at("error") == "not started");
    Client control = guest.start(R"({"kind":"none"})");
    CHECK(guest.ask(R"({"cmd":"agent"})").at("error") == "no agent is named");
    CHECK(agent(R"({"kind":"none"})").at("error") == "unknown kind of agent");
    CHECK(agent(R"({"kind":"command","argv":["/nonexistent/agent"]})").at("error") ==
          "cannot run /nonexistent/agent in /tmp: No such file or directory");
    CHECK(agent(R"({"kind":"command","argv":["/bin/false"]})").at("error") ==
          "the agent exited with status 1 before it was ready");
    CHECK(guest.run("x").names() == "error");
    CHECK(agent(R"({"kind":"echo"})").at("ok") == true);
    CHECK(guest.run("there").text == "there");
    CHECK(agent(k_shell).at("error") == "an agent runs already");
    CHECK(guest.run("still").text == "still");
}

TEST_CASE("an agent whose process ended is started again, and each end is told") {
    const GuestProcess guest;
    const std::string script = R"(echo '{\"ev\":\"ready\"}'; read line; exit 3)";
    const std::string spec = "{\"kind\":\"command\",\"argv\":[\"/bin/bash\",\"-c\",\"" + script + "\"]}";
    Client control = guest.start(spec);
    for (int i = 0; i < 3; ++i) {
        CHECK(guest.run("x").names() == "error");
        CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 3"})");
        CHECK(guest.run("x").data("error").at("code") == "agent_crashed");
        CHECK(guest.ask("{\"cmd\":\"agent\",\"agent\":" + spec + "}").at("ok") == true);
    }
    CHECK(guest.ask("{\"cmd\":\"agent\",\"agent\":" + spec + "}").at("error") == "an agent runs already");
}

TEST_CASE("an agent that does not get ready is refused a second start, and ends with its connection") {
    const GuestProcess guest;
    const Client control = guest.start(R"({"kind":"none"})");
    constexpr std::string_view k_mute =
        R"({"cmd":"agent","agent":{"kind":"command","argv":["/bin/sleep","1000"]}})";
    Client starting = guest.send(k_mute);
    REQUIRE(eventually([&] { return !children_of(guest.pid()).empty(); }));
    CHECK(guest.ask(k_mute).at("error") == "an agent is being started already");
    CHECK(guest.run("x").data("error").at("code") == "not_ready");
    starting.close();
    CHECK(eventually([&] { return children_of(guest.pid()).empty(); }));
    CHECK(guest.run("x").data("error").at("code") == "no_agent");
    CHECK(guest.ask(R"({"cmd":"agent","agent":{"kind":"echo"}})").at("ok") == true);
    CHECK(guest.run("now").text == "now");
}

TEST_CASE("a guest that is told to end while an agent starts ends, also if nobody waits for that agent") {
    GuestProcess guest;
    const Client control = guest.start(R"({"kind":"none"})");
    Client starting =
        guest.send(R"({"cmd":"agent","agent":{"kind":"command","argv":["/bin/sleep","1000"]}})");
    REQUIRE(eventually([&] { return !children_of(guest.pid()).empty(); }));
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    starting.close();
    CHECK(guest.wait() == 0);
}

TEST_CASE("a peer inside the guest's pid namespace gets no answer") {
    const GuestProcess control_guest(GuestProcess::Space::shared, guest::Peers::any);
    CHECK(control_guest.ask("{}").at("error") == "not a command");  // the control: any peer would get one
    const GuestProcess guest(GuestProcess::Space::shared, guest::Peers::outside);
    Client client = guest.connect();
    CHECK_FALSE(client.line().has_value());
}

TEST_CASE("a SIGTERM from inside is ignored, one from outside ends the guest") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    GuestProcess guest;
    const Client control = guest.start(k_shell);
    CHECK(guest.run("kill -TERM 1 && echo sent").text == "sent\n");
    CHECK(guest.run("echo alive").text == "alive\n");
    guest.signal(SIGTERM);
    CHECK(guest.wait() == 0);
}

TEST_CASE("shutdown answers, then the guest exits") {
    GuestProcess guest;
    const Client control = guest.start(k_shell);
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(guest.wait() == 0);
}

TEST_CASE("a guest whose control stream breaks ends") {
    GuestProcess guest;
    Client control = guest.start(k_echo);
    control.close();
    CHECK(guest.wait() == 0);
}

TEST_CASE("orphans are reaped") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const Transcript turn = guest.run("for i in 1 2 3 4 5 6 7 8; do (exec setsid bash -c ':' &); done");
    CHECK(turn.names() == "turn_complete done");
    CHECK(eventually([&] { return children_of(guest.pid()).empty(); }));
}

TEST_CASE("the program serves as the class does, and stays small") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    GuestProcess guest = GuestProcess::program(test::build_path("bin/atoll-guest"));
    const Client control = guest.start(k_shell);
    CHECK(guest.run("pwd; exit 3").text == "/tmp\n");
    CHECK(guest.run(": " + std::string(base::k_max_body_bytes, 'x') + "\necho big").text == "big\n");
    CHECK(guest.run("head -c 3000000 /dev/zero | tr '\\0' x").text.size() == 3'000'000);

    std::ifstream rollup("/proc/" + std::to_string(guest.pid()) + "/smaps_rollup");
    std::string word;
    long anonymous_kb = -1;
    while (rollup >> word)
        if (word == "Anonymous:")
            rollup >> anonymous_kb;
    if (anonymous_kb >= 0 && checks_bounds())
        CHECK(anonymous_kb <= 200);
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(guest.wait() == 0);
}

}  // namespace atl::test::bridge_guest_test
