#include "bridge/agents/process_agent.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>

#include "bridge/agents/line_splitter.hpp"
#include "bridge/event_line.hpp"
#include "bridge/protocol.hpp"
#include "core/base/limits.hpp"
#include "guest_process.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test::process_agent_test {
namespace {

const std::string k_ready = "echo '{\"ev\":\"ready\"}'\n";

/// An agent that runs `on_query` for each query with the command's line in $line.
std::string agent(const std::string& on_query, const std::string& on_other = ":") {
    return k_ready + "while IFS= read -r line; do case $line in '{\"cmd\":\"query\"'*) " + on_query +
           ";; '{\"cmd\":\"shutdown\"'*) exit 0;; *) " + on_other + ";; esac; done";
}

nlohmann::json refusal(const GuestProcess& guest, const nlohmann::json& argv) {
    const nlohmann::json command = {{"cmd", "start"}, {"agent", {{"kind", "command"}, {"argv", argv}}}};
    Client control = guest.send(command.dump());
    return nlohmann::json::parse(control.line().value());
}

}  // namespace

TEST_CASE("an agent's lines are relayed as it wrote them") {
    const GuestProcess guest;
    const Client control = guest.start_command(agent(
        R"(echo '{ "ev" : "message" , "data":{"b":1.0,"a":"\u00e9"} }'; echo garbage; echo; echo '{"data":{},"ev":"done"}')"));
    for (int i = 0; i < 3; ++i)
        CHECK(guest.query("hi").rest() ==
              std::vector<std::string>{R"({ "ev" : "message" , "data":{"b":1.0,"a":"\u00e9"} })", "garbage",
                                       "", R"({"data":{},"ev":"done"})"});
}

TEST_CASE("an agent gets the host's command as it is") {
    const GuestProcess guest;
    const Client control =
        guest.start_command(agent(R"(printf '{"ev":"message","data":%s}\n{"ev":"done"}\n' "$line")"));
    // The agent does not get the member `endLeftovers`, which is for the guest itself.
    for (const auto leftovers : {bridge::LeftoverRule::keep, bridge::LeftoverRule::end}) {
        Client client = guest.connect();
        client.send(bridge::encode_query("t7", "a \"b\"", R"({"model":"m","n":1.0})", leftovers));
        const auto lines = client.rest();
        REQUIRE(lines.size() == 2);
        CHECK(
            lines[0] ==
            R"({"ev":"message","data":{"cmd":"query","turn":"t7","prompt":"a \"b\"","options":{"model":"m","n":1.0}}})");
    }
}

TEST_CASE("an agent gets the line of its resume as it came, once it is ready and before the first query") {
    const GuestProcess guest;
    const std::string past(200'000, 'p');
    const std::string resume = R"({"cmd":"resume", "turns":[{"text":")" + past + R"(\u00e9","n":1.0}]})";
    // It answers each query with the lines that it has read.
    const std::string script =
        "IFS= read -rt 0 && exit 5\n" +
        agent(R"(printf '{"ev":"message","data":{"before":[%s]}}\n{"ev":"done"}\n' "$lines")",
              "lines=$lines$line");
    const nlohmann::json argv = {"/bin/bash", "-c", script};
    const std::string choice = R"({"kind":"command","argv":)" + argv.dump() + R"(,"resume":)" + resume + "}";
    const auto heard = [&] {
        const auto lines = guest.query("hi").rest();
        REQUIRE(lines.size() == 2);
        CHECK(lines[0] == R"({"ev":"message","data":{"before":[)" + resume + "]}}");
    };
    SECTION("with the generation") {
        const Client control = guest.start(choice);
        heard();
        heard();
    }
    SECTION("later") {
        const Client control = guest.start(R"({"kind":"none"})");
        CHECK(guest.ask(R"({"cmd":"agent","agent":)" + choice + "}").at("ok") == true);
        heard();
    }
}

TEST_CASE("an agent that dies before it is ready is not said to have closed its input, whatever it is told") {
    const GuestProcess guest;
    const nlohmann::json command = {{"cmd", "start"},
                                    {"agent",
                                     {{"kind", "command"},
                                      {"argv", {"/bin/sh", "-c", "exit 3"}},
                                      {"resume", {{"text", std::string(200'000, 'p')}}}}}};
    Client control = guest.send(command.dump());
    CHECK(nlohmann::json::parse(control.line().value()).at("error") ==
          "the agent exited with status 3 before it was ready");
}

TEST_CASE("a turn that waits for room is dropped with its connection, and the next one runs") {
    const GuestProcess guest;
    const Client control = guest.start_command(agent(R"(echo '{"ev":"done"}')"));
    for (int i = 0; i < 20; ++i) {
        Client gone = guest.connect();
        gone.send(bridge::encode_query("t" + std::to_string(i), "x", "", bridge::LeftoverRule::end));
    }
    // A turn that had begun before its connection was closed keeps the agent busy until its `done`.
    std::vector<std::string> lines(2);
    for (int tries = 0; lines.size() == 2 && tries < 1000; ++tries) {
        Client client = guest.connect();
        client.send(bridge::encode_query("last", "x", "", bridge::LeftoverRule::end));
        lines = client.rest();
    }
    CHECK(lines == std::vector<std::string>{R"({"ev":"done"})"});
}

TEST_CASE("an agent that cannot be started is refused with the reason") {
    const GuestProcess missing;
    CHECK(refusal(missing, {"/nonexistent/agent"}).at("error") ==
          "cannot run /nonexistent/agent in /tmp: No such file or directory");
    const GuestProcess empty;
    CHECK(refusal(empty, nlohmann::json::array()).at("error") == "the agent has no command");
    const GuestProcess early;
    CHECK(refusal(early, {"/bin/sh", "-c", "echo hello; exit 3"}).at("error") ==
          "the agent exited with status 3 before it was ready");
    const GuestProcess by_path;
    CHECK(refusal(by_path, {"sh", "-c", "kill -9 $$"}).at("error") ==
          "the agent was killed by SIGKILL before it was ready");
}

TEST_CASE("what an agent says before it is ready is no event") {
    const GuestProcess guest;
    const Client control = guest.start_command(
        "echo starting; echo '{\"ev\":\"done\"}'; echo '{\"ev\":1}'\n" + agent("echo '{\"ev\":\"done\"}'"));
    CHECK(guest.run("x").names() == "done");
}

TEST_CASE("an agent that dies in a turn ends it with an error, without done, and is reported once") {
    const GuestProcess guest;
    Client control =
        guest.start_command(agent("echo '{\"ev\":\"text_delta\",\"data\":{\"delta\":\"x\"}}'; exit 3"));
    const Transcript turn = guest.run("x");
    CHECK(turn.names() == "text_delta error");
    CHECK(turn.data("error") ==
          nlohmann::json{{"code", "agent_crashed"}, {"message", "the agent exited with status 3"}});
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 3"})");
    const Transcript later = guest.run("x");
    CHECK(later.names() == "error");
    CHECK(later.data("error").at("code") == "agent_crashed");
}

TEST_CASE("an agent whose last event is an error has told why it ends, and its turn has no other one") {
    const GuestProcess guest;
    Client control = guest.start_command(
        agent(R"(echo '{"ev":"error","data":{"code":"agent_failed","message":"m"}}'; exit 3)"));
    const Transcript turn = guest.run("x");
    REQUIRE(turn.events.size() == 1);
    CHECK(turn.data("error").at("code") == "agent_failed");
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 3"})");
}

TEST_CASE("an agent that dies between turns is reported") {
    const GuestProcess guest;
    Client control = guest.start_command(agent("echo '{\"ev\":\"done\"}'; kill -9 $$"));
    CHECK(guest.run("x").names() == "done");
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"was killed by SIGKILL"})");
}

TEST_CASE("children that hold a dead agent's pipes hold up nothing") {
    GuestProcess guest;
    Client control = guest.start_command(agent("sleep 1000 & (yes | tr -d '\\n') & exit 4"));
    CHECK(guest.run("x").names() == "error");
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 4"})");
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(guest.wait() == 0);
}

TEST_CASE("an agent's process group ends with it, and what it put into a session of its own stays") {
    const TempDir folder;
    const std::string held = (folder.path() / "held").string();
    const std::string served = (folder.path() / "served").string();
    for (const std::string& fifo : {held, served})
        REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const base::UniqueFd end(::open(held.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const GuestProcess guest;
    Client control = guest.start_command(agent("exec 5>'" + held +
                                               "'; sleep 1000 & exec 6< <(setsid sh -c \"echo up; exec 3<'" +
                                               served + "'\" 5>&-); read -r up <&6; exit 4"));
    CHECK(guest.run("x").names() == "error");
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 4"})");
    pollfd watched{end.get(), POLLIN, 0};
    CHECK(::poll(&watched, 1, k_client_deadline_ms) == 1);
    CHECK((watched.revents & POLLHUP) != 0);
    // A FIFO can be opened so only while somebody reads, or waits to.
    CHECK(eventually([&] {
        return static_cast<bool>(base::UniqueFd(::open(served.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)));
    }));
}

TEST_CASE("a start that is given up ends all that descends from the agent, in whatever session") {
    const TempDir folder;
    const std::string held = (folder.path() / "held").string();
    REQUIRE(::mkfifo(held.c_str(), 0600) == 0);
    const base::UniqueFd end(::open(held.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const GuestProcess guest;
    const Client control = guest.start(R"({"kind":"none"})");
    const nlohmann::json argv = {"/bin/bash", "-c",
                                 "setsid sh -c \"exec 5>'" + held + "'; exec sleep 1000\"; :"};
    const nlohmann::json command = {{"cmd", "agent"}, {"agent", {{"kind", "command"}, {"argv", argv}}}};
    Client starter = guest.send(command.dump());
    // Without a writer, the FIFO has ended already.
    REQUIRE(eventually([&] {
        char byte = 0;
        return ::read(end.get(), &byte, 1) < 0 && errno == EAGAIN;
    }));
    starter.close();
    pollfd watched{end.get(), POLLIN, 0};
    CHECK(::poll(&watched, 1, k_client_deadline_ms) == 1);
    CHECK((watched.revents & POLLHUP) != 0);
}

TEST_CASE("a line of 100 MB is replaced by an error, and the turn goes on") {
    const GuestProcess guest;
    const Client control = guest.start_command(
        agent("head -c 104857600 /dev/zero | tr '\\0' '['; echo; echo '{\"ev\":\"done\"}'"));
    const Transcript turn = guest.run("x");
    CHECK(turn.names() == "error done");
    CHECK(turn.data("error").at("code") == "line_too_long");
}

TEST_CASE("JSON nested 100,000 deep passes the guest unharmed") {
    const GuestProcess guest;
    const Client control = guest.start_command(agent(
        "printf '{\"data\":'; head -c 100000 /dev/zero | tr '\\0' '['; echo; echo '{\"ev\":\"done\"}'"));
    const auto lines = guest.query("x").rest();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].size() == 100'008);
}

TEST_CASE("what an agent says after done belongs to no turn") {
    const GuestProcess guest;
    const Client control = guest.start_command(agent(
        R"(env printf '{"ev":"done"}\n{"ev":"text_delta","data":{"delta":"stray"}}\n{"ev":"done"}\n')"));
    for (int i = 0; i < 3; ++i)
        CHECK(guest.run("x").names() == "done");
}

TEST_CASE("whatever an agent writes as its done, host and guest see one end of the turn") {
    const std::string filler(base::k_max_event_line_bytes, 'x');
    const std::vector<std::string> odd = {
        R"({"ev":"done","data":[]})",
        R"({"ev":"done","data":"over"})",
        R"({"ev":"done","data":null})",
        R"({"ev":"done"})",
        R"({"data":7,"ev":"done"})",
        R"({"ev":"done","data":{},"data":{}})",
        R"({"ev":"done","ev":"text_delta","data":{}})",
        R"({"ev":"done","data":{})",
        R"({"ev":"done","data":{}} and more)",
        "  {\t\"ev\" :\t\"done\" , \"data\":{} } ",
        R"({"\u0065v":"d\u006fne","data":[]})",
        "{\"ev\":\"done\",\"data\":{\"a\":\"\xff\"}}",
        R"({"ev":"done","data":{"n":1e400}})",
        "{\"ev\":\"done\",\"data\":" + std::string(200, '[') + std::string(200, ']') + "}",
        "{\"ev\":\"done\",\"data\":{\"a\":\"" + filler + "\"}}",
        "{\"data\":{\"a\":\"" + filler + "\"},\"ev\":\"done\"}",
    };
    const TempDir folder;
    const std::string file = (folder.path() / "odd").string();
    {
        std::ofstream out(file);
        for (const auto& line : odd)
            out << line << '\n';
    }
    const GuestProcess guest;
    const Client control =
        guest.start_command("exec 4<" + file + "\n" +
                            agent("IFS= read -r odd <&4; printf '%s\\n' \"$odd\"",
                                  "echo '{\"ev\":\"text_delta\",\"data\":{\"delta\":\"stray\"}}'"));
    for (const auto& line : odd) {
        INFO(line.substr(0, 80));
        std::size_t ends = 0;
        std::string last;
        for (const auto& told : guest.query("x").rest()) {
            const auto event = bridge::parse_event_line(told);
            last = event ? event->name : "";
            ends += last == bridge::ev::done ? 1 : 0;
        }
        CHECK(ends == 1);
        CHECK(last == bridge::ev::done);
    }
}

TEST_CASE("closing the stream interrupts the agent, and what it still says is not the next turn's") {
    const GuestProcess guest;
    const Client control = guest.start_command(
        agent(R"(printf '{"ev":"message","data":%s}\n' "$line")",
              R"(printf '{"ev":"message","data":{"late":%s}}\n{"ev":"done"}\n' "$line")"));
    Client first = guest.query("x", "t1");
    CHECK(first.line().has_value());
    first.close();
    Client second = guest.query("x", "t2");
    CHECK(nlohmann::json::parse(second.line().value()).at("data").at("turn") == "t2");
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"t1"})").at("ok") == false);
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"t2"})").at("ok") == true);
    const auto lines = second.rest();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == R"({"ev":"message","data":{"late":{"cmd":"interrupt","turn":"t2"}}})");
}

TEST_CASE("a second turn at the same time is refused") {
    const GuestProcess guest;
    const Client control = guest.start_command(agent(R"(printf '{"ev":"message","data":%s}\n' "$line")"));
    Client first = guest.query("x", "t1");
    CHECK(first.line().has_value());
    const Transcript second = guest.run("x", "t2");
    CHECK(second.names() == "error done");
    CHECK(second.data("error").at("code") == "turn_in_progress");
}

TEST_CASE("an agent that obeys ends at once, one that does not is killed") {
    GuestProcess obedient;
    const Client control = obedient.start_command(agent(":"));
    CHECK(obedient.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(obedient.wait() == 0);

    GuestProcess stubborn;
    Client other =
        stubborn.start_command("trap '' TERM HUP INT\n" + k_ready + "while :; do sleep 1000; done");
    const auto before = std::chrono::steady_clock::now();
    CHECK(stubborn.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(stubborn.wait() == 0);
    CHECK(std::chrono::steady_clock::now() - before >= guest::k_stop_grace + guest::k_kill_grace);
    CHECK(other.line() == R"({"ev":"agent_exit","detail":"was killed by SIGKILL"})");
}

TEST_CASE("an agent that does not read its commands is given up when their queue is full") {
    const GuestProcess guest;
    Client control = guest.start_command(k_ready + "exec sleep 1000");
    const std::string prompt(base::k_max_body_bytes, 'x');
    for (std::size_t sent = 0; sent <= guest::k_max_agent_input_bytes; sent += prompt.size())
        guest.query(prompt).close();
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"did not read its input"})");
}

TEST_CASE("an agent that closes its output or input is given up") {
    const GuestProcess mute;
    Client control = mute.start_command(k_ready + "exec >&-; exec sleep 1000");
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"closed its output"})");
    const GuestProcess deaf;
    Client other = deaf.start_command("exec <&-\n" + k_ready + "exec sleep 1000");
    CHECK(deaf.run("x").data("error").at("message") == "the agent closed its input");
    CHECK(other.line() == R"({"ev":"agent_exit","detail":"closed its input"})");
}

TEST_CASE("a host that does not read stops the agent, not the guest, and loses nothing") {
    const GuestProcess guest;
    const Client control =
        guest.start_command(agent("yes '{\"ev\":\"text_delta\",\"data\":{\"delta\":\"0123456789\"}}' | head "
                                  "-200000; echo '{\"ev\":\"done\"}'"));
    Client slow = guest.query("x");
    CHECK(guest.ask("{}").at("error") == "not a command");
    CHECK(slow.rest().size() == 200'001);
}

TEST_CASE("a stream cut anywhere gives the same lines") {
    struct Recorder final : guest::LineSplitter::Sink {
        std::vector<std::string> lines;
        void on_line(std::string_view line) override { lines.emplace_back(line); }
        void on_long_line(std::string_view) override { lines.emplace_back("LONG"); }
    };
    const std::string bytes = "one\n\ntwo\r\n" + std::string(base::k_max_event_line_bytes, 'x') + "\n" +
                              std::string(base::k_max_event_line_bytes + 1, 'y') + "\nlast\nopen";
    const std::vector<std::string> expected = {
        "one", "", "two\r", std::string(base::k_max_event_line_bytes, 'x'), "LONG", "last"};
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{4096}, bytes.size()}) {
        Recorder recorder;
        guest::LineSplitter splitter(recorder);
        for (std::size_t at = 0; at < bytes.size(); at += piece)
            splitter.feed(std::string_view(bytes).substr(at, piece));
        CHECK((recorder.lines == expected));  // not worth printing
    }
}

}  // namespace atl::test::process_agent_test
