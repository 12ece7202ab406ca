// Coding agents that misbehave behind their adapters: a clear error each time, nothing that is left running,
// and the key nowhere inside.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/api_client.hpp"
#include "tests/support/deadline.hpp"

namespace agent_faults_test {

using namespace atl::test;

namespace {

/// An ACP agent whose first argument says how it begins, and a message what it does in a turn.
constexpr const char* k_acp_fault = R"python(
import glob, json, os, sys
how = sys.argv[1]
def send(**m): print(json.dumps(dict({"jsonrpc": "2.0"}, **m)), flush=True)
def complain(text): print(text, file=sys.stderr, flush=True)
def say(text): send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
def holds(path, secret):
    try: return os.path.isfile(path) and os.path.getsize(path) < 1 << 22 and secret in open(path, "rb").read()
    except OSError: return False
def places(secret):
    paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
    for top in ("/workspace", "/agent", "/atoll", "/tmp", "/run", "/etc", "/home", "/root", "/var"):
        for folder, _, names in os.walk(top): paths += [os.path.join(folder, name) for name in names]
    return len([path for path in paths if holds(path, secret)])
if how == "syntax":
    complain("file:///agent/index.js:3\nSyntaxError: Unexpected token 'with'\n\nNode.js v18.19.0"); sys.exit(1)
if how == "noisy":
    while True: sys.stdout.write("Loading\n" * 1000)
for line in sys.stdin:
    m = json.loads(line); kind, i = m.get("method"), m.get("id")
    if kind == "initialize": send(id=i, result={} if how == "old" else {"protocolVersion": 1})
    elif kind == "session/new": send(id=i, result={"sessionId": "s1"})
    elif kind == "session/prompt":
        text = m["params"]["prompt"][0]["text"]
        if text in ("die", "ask"):
            send(id="p", method="session/request_permission", params={"sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "Write", "rawInput": {"a": 1}},
                 "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
            if text == "die": complain("out of luck"); os._exit(3)
            continue
        if text == "backwards":
            print('{"result":{"stopReason":"end_turn","_meta":"%s"},"id":%d}' % ("x" * (1 << 21), i), flush=True); continue
        if text == "print": sys.stdout.write("Loading\n" * 100000)
        if text == "end": send(id=i, error={"code": -32603, "message": "the session is over"}); sys.exit(0)
        if text.startswith("search"): say("%d %d" % tuple(places(word[::-1].encode()) for word in text.split()[1:]))
        send(id=i, result={"stopReason": "end_turn"})
)python";

/// The same for the lines of claude.
constexpr const char* k_claude_fault = R"python(
import json, os, sys
how = sys.argv[1]
def send(m): print(json.dumps(m), flush=True)
def complain(text): print(text, file=sys.stderr, flush=True)
if how == "usage": complain("error: unknown option '--permission-prompt-tool'"); sys.exit(1)
for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "control_request":
        response = {"subtype": "error", "error": "unknown request"} if how == "old" else {"subtype": "success", "response": {}}
        send({"type": "control_response", "response": dict(response, request_id=m["request_id"])})
    elif m["type"] == "user":
        text = m["message"]["content"]
        if text in ("die", "withdraw"):
            send({"type": "control_request", "request_id": "p1", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t1"}})
            if text == "die": complain("out of luck"); os._exit(3)
            send({"type": "control_cancel_request", "request_id": "p1"})
        if text == "backwards":
            print('{"result":"%s","is_error":false,"subtype":"success","type":"result"}' % ("x" * (1 << 21)), flush=True); continue
        if text == "print": sys.stdout.write("Loading\n" * 100000)
        if text == "end": send({"type": "result", "subtype": "error_during_execution", "is_error": True, "result": "the session is over"}); sys.exit(0)
        send({"type": "result", "subtype": "success", "is_error": False})
)python";

const std::string k_key = "sk-of-the-server-0123456789";
const std::string k_decoy = "decoy-of-the-recipe-0123456789";

/// In the command line of every agent here.
std::string marker() {
    return "atoll-agent-faults-" + std::to_string(::getpid());
}

/// True if a process of an agent here runs on this host.
bool is_running() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
        std::ifstream file(entry.path() / "cmdline");
        const std::string line{std::istreambuf_iterator<char>(file), {}};
        if (line.find(marker()) != std::string::npos)
            return true;
    }
    return false;
}

ServerOptions options_of(const TempDir& folder) {
    Json agents = Json::array();
    const auto add = [&agents](const std::string& adapter, const std::string& how, const char* script) {
        agents.push_back({{"name", adapter + "-" + how},
                          {"adapter", adapter},
                          {"argv", {"python3", "-c", script, how, marker()}}});
    };
    for (const char* how : {"well", "old", "syntax", "noisy"})
        add("acp", how, k_acp_fault);
    for (const char* how : {"well", "old", "usage"})
        add("stream-json", how, k_claude_fault);
    add("acp", "keyed", k_acp_fault);
    agents.back()["env"] = {{"DECOY", k_decoy}};
    agents.back()["routes"] = Json::array({{{"name", "model"},
                                            {"upstream", "https://api.example.com"},
                                            {"headers", {{"x-api-key", {{"env", "ANTHROPIC_API_KEY"}}}}}}});
    add("acp", "keyless", k_acp_fault);
    agents.back()["routes"] = agents[agents.size() - 2]["routes"];
    agents.back()["routes"][0]["headers"]["x-api-key"]["env"] = "ATOLL_TEST_UNSET_KEY";
    std::ofstream(folder.path() / "agents.json") << Json{{"agents", agents}}.dump();
    ServerOptions options;
    options.data_dir = folder.path() / "data";
    std::filesystem::create_directories(options.data_dir);
    // No flag opens the network `egress`: the route does.
    options.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
    options.environment = {{"ANTHROPIC_API_KEY", k_key}};
    return options;
}

struct Lab {
    std::string begin(const std::string& agent) { return api.create({{"agent", agent}})["id"]; }

    TempDir folder;
    ServerProcess server{options_of(folder)};
    ApiClient api{server};
};

/// The events up to the first one of type `until`, of a message that somebody follows before it is sent.
std::vector<Json> follow(ApiClient& api, const std::string& id, const std::string& content,
                         const std::string& until) {
    HttpClient client = api.connect();
    const std::string target = "/v1/conversations/" + id;
    client.open_stream("GET", target + "/events?after=0", "", {{"Accept", "text/event-stream"}});
    api.call(202, "POST", target + "/messages", Json{{"content", content}}.dump());
    return read_until(client, until);
}

/// The data of the first event of this type; null: there is none.
Json data_of(const std::vector<Json>& events, const std::string& type) {
    const auto found =
        std::find_if(events.begin(), events.end(), [&](const Json& event) { return event["type"] == type; });
    return found == events.end() ? Json() : (*found)["data"];
}

}  // namespace

TEST_CASE("An agent that is too old or writes noise fails its create at once, with what it said last") {
    Lab lab;
    const std::vector<std::pair<std::string, std::string>> faults = {
        {"acp-old", "tells no version of ACP; this server speaks version 1: install another release"},
        {"acp-syntax", "SyntaxError: Unexpected token 'with'"},
        {"acp-noisy", "floods its stdout with lines that are no JSON objects"},
        {"stream-json-old", "refused to initialize: unknown request"},
        {"stream-json-usage", "unknown option '--permission-prompt-tool'"},
    };
    for (const auto& [agent, words] : faults) {
        INFO(agent);
        const HttpResponse answer =
            lab.api.connect().request("POST", "/v1/conversations", Json{{"agent", agent}}.dump());
        CHECK(answer.status == 502);
        const Json problem = Json::parse(answer.body);
        CHECK(problem["code"] == "agent_failed");
        INFO(problem["detail"]);
        CHECK(problem["detail"].get<std::string>().find(words) != std::string::npos);
    }
    CHECK(lab.api.call(200, "GET", "/v1/sandboxes")["sandboxes"].empty());
    CHECK(eventually([] { return !is_running(); }));
}

TEST_CASE("An agent that dies while it asks ends its turn with what it said last, and nothing runs on") {
    Lab lab;
    for (const std::string agent : {"acp-well", "stream-json-well"}) {
        INFO(agent);
        const std::string id = lab.begin(agent);
        REQUIRE(is_running());
        const Turn turn = summarise(follow(lab.api, id, "die", "done"));
        CHECK(turn.errors == std::vector<std::string>{"agent_failed"});
        const Json error = data_of(turn.events, "error");
        CHECK(error["message"] == "the agent " + agent + " exited with status 3; its log ends: out of luck");
        const Json resolved = data_of(turn.events, "permission_resolved");
        CHECK(resolved["id"] == data_of(turn.events, "permission_request")["id"]);
        CHECK(resolved["outcome"] == "cancelled");
        CHECK(resolved["reason"] == "turn_ended");
        CHECK(turn.events.back()["type"] == "done");
        CHECK(lab.api.await_status(id, "paused")["statusReason"] == "crash");
        CHECK(eventually([] { return !is_running(); }));
        lab.api.remove(id);
    }
}

TEST_CASE("Noise, long lines and an agent that ends its session end no turn but their own") {
    Lab lab;
    for (const std::string agent : {"acp-well", "stream-json-well"}) {
        INFO(agent);
        const std::string id = lab.begin(agent);
        const Turn noisy = lab.api.message(id, "print");
        CHECK(noisy.errors.empty());
        CHECK_FALSE(data_of(noisy.events, "turn_complete").is_null());
        const Turn backwards = lab.api.message(id, "backwards");
        CHECK(backwards.errors == std::vector<std::string>{"line_too_long"});
        CHECK_FALSE(data_of(backwards.events, "turn_complete").is_null());
        const Turn over = lab.api.message(id, "end");
        REQUIRE(over.errors.size() == 1);
        CHECK(data_of(over.events, "error")["message"] == "the session is over");
        CHECK(lab.api.await_status(id, "paused")["statusReason"] == "crash");
        CHECK(lab.api.message(id, "hello").errors.empty());
        lab.api.remove(id);
    }
}

TEST_CASE("A permission that claude takes back is resolved") {
    Lab lab;
    const auto events = follow(lab.api, lab.begin("stream-json-well"), "withdraw", "done");
    CHECK(types(events).ends_with(
        "turn_start tool_use permission_request permission_resolved message turn_complete done"));
    const Json resolved = data_of(events, "permission_resolved");
    CHECK(resolved["outcome"] == "cancelled");
    CHECK(resolved["reason"] == "withdrawn");
}

TEST_CASE("A server that was killed leaves no permission open") {
    TempDir folder;
    std::string id;
    {
        ServerProcess server(options_of(folder));
        ApiClient api(server);
        id = api.create({{"agent", "acp-well"}})["id"];
        follow(api, id, "ask", "permission_request");
        server.kill_hard();
    }
    ServerProcess server(options_of(folder));
    ApiClient api(server);
    const auto events = api.events(id);
    const Json resolved = data_of(events, "permission_resolved");
    CHECK(resolved["id"] == data_of(events, "permission_request")["id"]);
    CHECK(resolved["outcome"] == "cancelled");
    CHECK(types(events).find("permission_request permission_resolved error done") != std::string::npos);
}

TEST_CASE("The key of a route is nowhere where its agent can look") {
    Lab lab;
    const auto backwards = [](const std::string& text) { return std::string(text.rbegin(), text.rend()); };
    const Turn turn =
        lab.api.message(lab.begin("acp-keyed"), "search " + backwards(k_decoy) + " " + backwards(k_key));
    INFO(turn.output);
    CHECK(turn.output.ends_with(" 0"));
    // A value that the recipe sets is found by the same search.
    CHECK_FALSE(turn.output.starts_with("0 "));
    CHECK(turn.errors.empty());
}

TEST_CASE("A recipe's routes are the network of its agent without a flag, and of nobody else") {
    Lab lab;
    const Json made = lab.api.create({{"agent", "acp-keyed"}});
    CHECK(made["network"] == Json::parse(R"({"mode":"egress","allow":[],"routes":[],"ask":false})"));
    CHECK(lab.api.create({{"agent", "acp-well"}})["network"] == "none");
    const Json other{{"agent", "acp-keyed"}, {"network", {{"mode", "egress"}, {"allow", {"b.example"}}}}};
    const Json refused = lab.api.call(403, "POST", "/v1/conversations", other.dump());
    CHECK(refused["code"] == "network_not_allowed");
    CHECK(refused["detail"].get<std::string>().find("--egress-allow") != std::string::npos);
}

TEST_CASE(
    "A create of an agent whose key is not set names the variable, and works with a network of its own") {
    Lab lab;
    const Json refused = lab.api.call(422, "POST", "/v1/conversations", R"({"agent":"acp-keyless"})");
    CHECK(refused["detail"].get<std::string>().find("ATOLL_TEST_UNSET_KEY is not set") != std::string::npos);
    CHECK(lab.api.create({{"agent", "acp-keyless"}, {"network", "none"}})["network"] == "none");
}

}  // namespace agent_faults_test
