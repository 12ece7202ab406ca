// Agents that speak ACP or Claude's stream-json, through the adapter inside the sandbox: turns, permissions,
// interrupts, and a session that goes on.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/api_client.hpp"
#include "tests/support/deadline.hpp"

namespace adapters_test {

using namespace atl::test;

namespace {

/// Remembers its messages in ACP_STATE; `write` asks for a permission, `hang` waits for a cancel, `die` ends
/// it.
constexpr const char* k_acp = R"python(
import json, os, sys
def send(**m): print(json.dumps(dict({"jsonrpc": "2.0"}, **m)), flush=True)
def update(**u): send(method="session/update", params={"sessionId": "s1", "update": u})
def say(text): update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
state = os.path.join(os.environ["ACP_STATE"], "said.json")
said, prompt, asked = [], None, {}
def end(reason): send(id=prompt, result={"stopReason": reason})
for line in sys.stdin:
    m = json.loads(line); kind, i, p = m.get("method"), m.get("id"), m.get("params") or {}
    if kind == "initialize": send(id=i, result={"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}})
    elif kind == "session/new": json.dump([], open(state, "w")); send(id=i, result={"sessionId": "s1"})
    elif kind == "session/resume": said = json.load(open(state)); send(id=i, result={})
    elif kind == "session/cancel": end("cancelled")
    elif kind == "session/prompt":
        prompt, text = i, p["prompt"][0]["text"]
        said.append(text); json.dump(said, open(state, "w"))
        if text == "hang": say("hanging")
        elif text == "die": os._exit(3)
        elif text == "write":
            update(sessionUpdate="tool_call", toolCallId="c1", title="Write", kind="edit", status="pending", rawInput={})
            send(id="ask", method="session/request_permission", params={"sessionId": "s1",
                 "toolCall": {"toolCallId": "c1", "rawInput": {"path": "a.txt"}},
                 "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]})
        else: say("said " + ",".join(said)); end("end_turn")
    elif kind is None and i == "ask":
        ok = m["result"]["outcome"].get("optionId") == "y"
        if ok: open("/workspace/a.txt", "w").write("written")
        update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed" if ok else "failed", rawOutput={"ok": ok})
        end("end_turn")
)python";

constexpr const char* k_claude = R"python(
import json, sys
def send(m): print(json.dumps(m), flush=True)
def result(**more): send(dict({"type": "result", "subtype": "success", "is_error": False}, **more))
for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "control_request":
        send({"type": "control_response", "response": {"subtype": "success", "request_id": m["request_id"], "response": {}}})
        if m["request"]["subtype"] == "interrupt": result(subtype="error_during_execution", is_error=True)
    elif m["type"] == "user":
        send({"type": "system", "subtype": "init", "session_id": "1111-2222"})
        if m["message"]["content"] == "hang": continue
        send({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m1"}}})
        for text in ("Hel", "lo"):
            send({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}})
        send({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "Hello"}]}})
        result()
)python";

ServerOptions options_in(const TempDir& folder) {
    const auto agent = [](const std::string& name, const std::string& adapter, const char* script) {
        return Json{{"name", name},
                    {"adapter", adapter},
                    {"argv", {"python3", "-c", script}},
                    {"env", {{"ACP_STATE", "/workspace/.atoll/agents/" + name}}}};
    };
    Json allows = agent("allows", "acp", k_acp);
    allows["permissions"] = "allow";
    const Json absent = {{"name", "absent"},
                         {"adapter", "acp"},
                         {"argv", {"/agent/bin/agent"}},
                         {"dir", "/no/such/folder"},
                         {"setup", "scripts/setup --agents absent"}};
    const Json agents = {{"agents",
                          {agent("acp", "acp", k_acp), allows, agent("claude", "stream-json", k_claude),
                           agent("garbage", "acp", "print('no JSON')"), absent}}};
    std::ofstream(folder.path() / "agents.json") << agents.dump();
    ServerOptions options;
    options.data_dir = folder.path() / "data";
    std::filesystem::create_directories(options.data_dir);
    options.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
    return options;
}

struct Lab {
    std::string begin(const std::string& agent) { return api.create({{"agent", agent}})["id"]; }
    Json first(const Turn& turn, const std::string& type) const {
        for (const Json& event : turn.events)
            if (event["type"] == type)
                return event["data"];
        FAIL("no " + type + " in " + types(turn.events));
        return {};
    }

    TempDir folder;
    ServerProcess server{options_in(folder)};
    ApiClient api{server};
};

}  // namespace

TEST_CASE(
    "An ACP agent answers, and its session goes on after a pause, an end of its own and another server") {
    Lab lab;
    const std::string id = lab.begin("acp");
    CHECK(lab.api.message(id, "one").output == "said one");
    lab.api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    CHECK(lab.api.message(id, "two").output == "said one,two");
    const Turn died = lab.api.message(id, "die");
    CHECK(died.errors == std::vector<std::string>{"agent_failed"});
    CHECK(died.events.back()["type"] == "done");
    lab.api.await_status(id, "paused");
    CHECK(lab.api.message(id, "three").output == "said one,two,die,three");
}

TEST_CASE("A permission that nobody can answer is refused at once, and one that the recipe allows is given") {
    Lab lab;
    const std::string id = lab.begin("allows");
    const Turn allowed = lab.api.message(id, "write");
    CHECK(types(allowed.events) ==
          "turn_start tool_use permission_request permission_resolved tool_result turn_complete done");
    CHECK(lab.first(allowed, "tool_use")["input"] == Json{{"path", "a.txt"}});
    CHECK(lab.first(allowed, "permission_resolved")["reason"] == "policy");
    CHECK(lab.first(allowed, "tool_result")["isError"] == false);

    const std::string other = lab.begin("acp");
    lab.api.call(202, "POST", "/v1/conversations/" + other + "/messages", R"({"content":"write"})");
    const std::string events = "/v1/conversations/" + other + "/events?after=0&limit=1000";
    Json resolved;
    CHECK(eventually([&] {
        const Json page = Json::parse(lab.api.connect().request("GET", events).body);
        for (const Json& event : page["events"])
            if (event["type"] == "permission_resolved")
                resolved = event["data"];
        return !resolved.is_null();
    }));
    CHECK(resolved["outcome"] == "denied");
    CHECK(resolved["reason"] == "unattended");
}

TEST_CASE("The pieces of claude's text come once, and an interrupt of it is no error") {
    Lab lab;
    const std::string id = lab.begin("claude");
    const Turn turn = lab.api.message(id, "hi");
    CHECK(turn.output == "Hello");
    CHECK(lab.first(turn, "turn_complete")["result"] == "success");
}

TEST_CASE(
    "An agent that is not installed is refused with the command, and one that speaks no protocol says so") {
    Lab lab;
    HttpClient client = lab.api.connect();
    const auto absent = client.request("POST", "/v1/conversations", R"({"agent":"absent"})");
    CHECK(absent.status == 422);
    CHECK(absent.body.find("scripts/setup --agents absent") != std::string::npos);
    const auto garbage = client.request("POST", "/v1/conversations", R"({"agent":"garbage"})");
    CHECK(garbage.status == 502);
    CHECK(garbage.body.find("no JSON object: no JSON") != std::string::npos);
    const Json agents = Json::parse(client.request("GET", "/v1/agents").body)["agents"];
    CHECK(agents[0] == Json{{"name", "shell"}, {"adapter", "built-in"}, {"installed", true}});
    CHECK(agents.back()["installed"] == false);
    CHECK(agents.back()["setup"] == "scripts/setup --agents absent");
}

}  // namespace adapters_test
