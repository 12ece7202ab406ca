#include "bridge/adapters/driver.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "guest_process.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test::driver_test {
namespace {

/// An ACP agent that misbehaves as its first argument says. It holds the FIFO that the second one names.
constexpr const char* k_agent = R"python(
import json, os, signal, subprocess, sys
how = sys.argv[1]; held = os.open(sys.argv[2], os.O_WRONLY)
def send(**m): print(json.dumps(dict({"jsonrpc": "2.0"}, **m)), flush=True)
def complain(text): print(text, file=sys.stderr, flush=True)
if how == "bears":
    for argv in (["sleep", "1000"], ["setsid", "sleep", "1000"], ["setsid", "sh", "-c", "setsid sleep 1000 & exit"]):
        subprocess.Popen(argv, pass_fds=[held])
if how == "noisy":
    while True: sys.stdout.write("noise\n" * 1000)
if how == "usage": complain("error: unknown option '--permission-prompt-tool'"); sys.exit(2)
if how in ("prints", "dies"): print("Loading", flush=True)
session = None
for line in sys.stdin:
    m = json.loads(line); kind, i = m.get("method"), m.get("id")
    if kind == "initialize":
        if how == "hangs": complain("waiting for a licence"); continue
        send(id=i, result={"protocolVersion": 0 if how in ("old", "bears") else 1, "agentCapabilities": {"loadSession": True} if how == "deaf" else {"sessionCapabilities": {"resume": {}}}})
    elif kind == "session/load": send(id=i, result={})
    elif kind == "session/resume" and how == "stalls": complain("resuming")
    elif kind == "session/resume" and how == "forgets": session = "s0"; send(id=i, result={})
    elif kind == "session/resume": complain("no such session"); sys.exit(1)
    elif kind == "session/new": send(id=i, result={"sessionId": "s1"})
    elif kind == "session/prompt":
        if how == "forgets":
            if session == "s0": send(id=i, error={"code": -32603, "message": "Session not found"}); continue
            send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": "agent_message_chunk", "content": m["params"]["prompt"][0]}})
        if how == "dies":
            send(id="p", method="session/request_permission", params={"sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "Write", "rawInput": {"a": 1}},
                 "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
            complain("out of luck"); os._exit(3)
        if how == "serves":
            subprocess.Popen(["sleep", "1000"], pass_fds=[held])
            subprocess.Popen(["sh", "-c", "read x <\"$0\"", os.path.join(os.path.dirname(sys.argv[2]), "served")], start_new_session=True)
            os._exit(3)
        if how == "backwards": print('{"result":{"stopReason":"end_turn","_meta":"%s"},"id":%d}' % ("x" * (1 << 21), i), flush=True); continue
        if how == "shouts": complain("x" * (1 << 20))
        if how == "kills": os.kill(os.getppid(), signal.SIGKILL); continue
        if how == "floods": sys.stdout.write("noise\n" * 200000)
        if how == "ends": send(id=i, error={"code": -32603, "message": "the session is over"}); sys.exit(0)
        send(id=i, result={"stopReason": "end_turn"})
)python";

/// A guest whose agent is the program atoll-agent with the agent above.
class AgentLab {
  public:
    explicit AgentLab(const std::string& how) : fifo_((folder_.path() / "held").string()) {
        REQUIRE(::mkfifo(fifo_.c_str(), 0600) == 0);
        // Without a reader the agent would wait in its open(2).
        held_.reset(::open(fifo_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        REQUIRE(::mkfifo((folder_.path() / "unread").c_str(), 0600) == 0);
        const std::string log = how == "shouts" ? "<>\"$2/unread\"" : ">>\"$2/log\"";
        const nlohmann::json recipe = {
            {"adapter", "acp"}, {"name", "fake"}, {"argv", {"python3", "-c", k_agent, how, fifo_}}};
        const nlohmann::json argv = {"/bin/sh",
                                     "-c",
                                     "exec env ASH_WORKSPACE_DIR=\"$2\" ASH_DEBUG_TIMING=" +
                                         std::string(how == "dies" ? "1" : "0") + " \"$0\" \"$1\" 2" + log,
                                     build_path("bin/atoll-agent"),
                                     recipe.dump(),
                                     folder_.path().string()};
        start_ = R"({"cmd":"start","agent":{"kind":"command","argv":)" + argv.dump() + "}}";
    }

    Client begin() const { return process.send(start_); }
    const std::string& start() const { return start_; }
    std::string folder() const { return folder_.path().string(); }
    std::filesystem::path session() const { return folder_.path() / ".atoll/agents/fake/atoll-session"; }
    std::string log() const {
        std::ostringstream text;
        text << std::ifstream(folder_.path() / "log").rdbuf();
        return text.str();
    }
    bool has_logged(const std::string& words) const { return log().find(words) != std::string::npos; }
    /// Waits until no process of the agent is left: then nobody holds the FIFO any more.
    bool is_gone() const {
        pollfd held{held_.get(), POLLIN, 0};
        return ::poll(&held, 1, k_client_deadline_ms) == 1 && (held.revents & POLLHUP) != 0;
    }

  private:
    TempDir folder_;
    std::string fifo_;
    base::UniqueFd held_;
    std::string start_;

  public:
    GuestProcess process{GuestProcess::Space::own, guest::Peers::outside, folder_.path().string()};
};

constexpr const char* k_started = R"({"ok":true})";

}  // namespace

TEST_CASE("an agent of another version of its protocol does not start, and its log says what to do") {
    const AgentLab lab("old");
    Client control = lab.begin();
    CHECK(nlohmann::json::parse(control.line().value()).at("error") ==
          "the agent exited with status 1 before it was ready");
    CHECK(
        lab.has_logged("atoll-agent: the agent fake tells no version of ACP; this server speaks version 1"));
    CHECK(lab.is_gone());
}

TEST_CASE("the programs and daemons that an agent has started are gone when it is given up") {
    const AgentLab lab("bears");
    Client control = lab.begin();
    CHECK(nlohmann::json::parse(control.line().value()).contains("error"));
    CHECK(lab.is_gone());
}

TEST_CASE("an agent that ends in a turn takes its helpers along, and leaves the server that it started") {
    const AgentLab lab("serves");
    const std::string served = lab.folder() + "/served";
    REQUIRE(::mkfifo(served.c_str(), 0600) == 0);
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(lab.process.run("go").data("error").at("code") == "agent_failed");
    CHECK(lab.is_gone());
    // A FIFO can be opened so only while somebody reads, or waits to.
    CHECK(eventually([&] {
        return static_cast<bool>(base::UniqueFd(::open(served.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)));
    }));
}

TEST_CASE("an agent that does not know its flags, or floods its output, fails its start at once") {
    const AgentLab usage("usage");
    Client control = usage.begin();
    CHECK(nlohmann::json::parse(control.line().value()).at("error") ==
          "the agent exited with status 2 before it was ready");
    CHECK(usage.has_logged("unknown option '--permission-prompt-tool'\natoll-agent: the agent fake exited"));
    CHECK(usage.is_gone());
    const AgentLab noisy("noisy");
    Client other = noisy.begin();
    CHECK(nlohmann::json::parse(other.line().value()).contains("error"));
    CHECK(noisy.has_logged("atoll-agent: the agent fake floods its stdout"));
    CHECK(noisy.is_gone());
}

TEST_CASE("a reply beyond the bound ends its turn, wherever its id stands") {
    const AgentLab lab("backwards");
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(lab.process.run("go").names() == "error turn_complete done");
}

TEST_CASE("an agent that hangs while it begins is gone when the guest is told to end") {
    AgentLab lab("hangs");
    const Client control = lab.begin();
    REQUIRE(eventually([&] { return lab.has_logged("waiting for a licence"); }));
    CHECK(lab.process.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(lab.process.wait() == 0);
    CHECK(lab.is_gone());
}

TEST_CASE(
    "what an agent writes into its protocol's stream is told in the log, ten lines a turn at the most") {
    const AgentLab printing("prints");
    Client control = printing.begin();
    REQUIRE(control.line() == k_started);
    CHECK(printing.process.run("go").names() == "turn_complete done");
    CHECK(printing.has_logged("a line that is no JSON object: Loading\n"));

    const AgentLab flooding("floods");
    Client other = flooding.begin();
    REQUIRE(other.line() == k_started);
    CHECK(flooding.process.run("go").names() == "turn_complete done");
    std::size_t complaints = 0;
    const std::string log = flooding.log();
    for (std::size_t at = log.find("noise"); at != std::string::npos; at = log.find("noise", at + 1))
        ++complaints;
    CHECK(complaints == 10);
}

TEST_CASE("an agent that dies with a permission open ends its turn with what it said last") {
    const AgentLab lab("dies");
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    const Transcript turn = lab.process.run("go");
    CHECK(turn.names() == "tool_use permission_request error");
    CHECK(turn.data("error") ==
          nlohmann::json{{"code", "agent_failed"},
                         {"message", "the agent fake exited with status 3; its log ends: out of luck"}});
    CHECK(lab.has_logged("a line that is no JSON object: Loading\n"));
    CHECK(lab.has_logged("atoll-agent: timing agent=fake turn=t1 what=tool_use ms="));
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 3"})");
    CHECK(lab.is_gone());
}

TEST_CASE("an agent that ends its session and itself tells why, and ends its turn") {
    const AgentLab lab("ends");
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    const Transcript turn = lab.process.run("go");
    CHECK(turn.names() == "error done");
    CHECK(turn.data("error") == nlohmann::json{{"code", "agent_error"}, {"message", "the session is over"}});
    CHECK(control.line() == R"({"ev":"agent_exit","detail":"exited with status 0"})");
    CHECK(lab.is_gone());
}

TEST_CASE("an agent whose log nobody reads goes on with its turn") {
    const AgentLab lab("shouts");
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(lab.process.run("go").names() == "turn_complete done");
}

TEST_CASE("an agent does not outlive its adapter") {
    const AgentLab lab("kills");
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(lab.process.run("go").data("error") ==
          nlohmann::json{{"code", "agent_crashed"}, {"message", "the agent was killed by SIGKILL"}});
    CHECK(lab.is_gone());
}

TEST_CASE("an old session over which an agent hangs is not tried again") {
    AgentLab lab("stalls");
    std::filesystem::create_directories(lab.session().parent_path());
    std::ofstream(lab.session()) << "s0";
    {
        const Client control = lab.begin();
        REQUIRE(eventually([&] { return lab.has_logged("resuming"); }));
        CHECK(lab.process.ask(R"({"cmd":"shutdown"})").at("ok") == true);
        CHECK(lab.process.wait() == 0);
    }
    const GuestProcess next{GuestProcess::Space::own, guest::Peers::outside, lab.folder()};
    Client control = next.send(lab.start());
    REQUIRE(control.line() == k_started);
    CHECK(next.run("go").names() == "turn_complete done");
}

TEST_CASE("an agent that loads its session and answers no unknown request becomes ready all the same") {
    const AgentLab lab("deaf");
    std::filesystem::create_directories(lab.session().parent_path());
    std::ofstream(lab.session()) << "s0";
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(lab.process.run("go").names() == "turn_complete done");
}

TEST_CASE("an agent that ends over its old session is started again with a new one") {
    const AgentLab lab("well");
    std::filesystem::create_directories(lab.session().parent_path());
    std::ofstream(lab.session()) << "s0";
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    CHECK(
        lab.has_logged("no such session\natoll-agent: the agent did not take up its session and exited with "
                       "status 1; it is started again without\n"));
    CHECK(lab.process.run("go").names() == "turn_complete done");
    std::string kept;
    std::ifstream(lab.session()) >> kept;
    CHECK(kept == "s1");
}

TEST_CASE("an agent that lacks its old session at the first prompt does that turn in a new one") {
    const AgentLab lab("forgets");
    std::filesystem::create_directories(lab.session().parent_path());
    std::ofstream(lab.session()) << "s0";
    Client control = lab.begin();
    REQUIRE(control.line() == k_started);
    const Transcript turn = lab.process.run("go");
    CHECK(turn.names() == "text_delta turn_complete done");
    CHECK(turn.text == "go");
    CHECK(lab.has_logged("a new one begins: Session not found\n"));
    std::string kept;
    std::ifstream(lab.session()) >> kept;
    CHECK(kept == "s1");
    CHECK(lab.process.run("more", "t2").text == "more");
}

}  // namespace atl::test::driver_test
