// Code mode over the real server: what takes long to check or read is done by a process of its own, and the
// server goes on meanwhile, whatever becomes of that process.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>

#include "tests/integration/route_walk.hpp"
#include "tests/support/api_client.hpp"

namespace heavy_calls_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

const HeaderList k_stream = {{"Accept", "text/event-stream"}};
const char* const k_tools = R"([
    {"name":"take","inputSchema":{"type":"object","properties":{"list":{"type":"array","items":{"type":"number"}}},
     "additionalProperties":false}},
    {"name":"short","inputSchema":{"type":"array"}}])";
// A call whose arguments take long to check, but not to read, and what comes of it.
const std::string k_attempt =
    "const list = Array(6000).fill(1);\n"
    "const attempt = async (args) => {\n"
    "  try { return await codemode.take(args) } catch (error) { return String(error.message) }\n"
    "};\n";

/// The processes that check for a server: one, or none.
std::vector<pid_t> checkers(const ServerProcess& server) {
    std::vector<pid_t> found = descendants(server.pid());
    std::erase_if(found, [](pid_t pid) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
        std::string name;
        std::getline(file, name);
        return name != "atoll-checker";
    });
    return found;
}

struct Lab {
    Json form(const std::string& code) {
        return {{"code", code}, {"executor", "container"}, {"tools", Json::parse(k_tools)}};
    }
    /// Begins a run whose events come to `client`.
    std::string begin(HttpClient& client, const std::string& code) {
        REQUIRE(client.open_stream("POST", "/v1/execute", form(code).dump(), k_stream).status == 200);
        return next(client, "start")["executionId"];
    }
    /// The data of the next event.
    Json next(HttpClient& client, const std::string& type) {
        const auto event = client.next_event();
        REQUIRE(event.has_value());
        Json json = Json::parse(event->data);
        INFO(event->data.substr(0, 500));
        REQUIRE(json["type"] == type);
        return json["data"];
    }
    void answer(const std::string& id, const std::string& call) {
        api.call(204, "POST", "/v1/executions/" + id + "/calls/" + call, R"({"result":"taken"})");
    }
    /// Work that the process has not answered.
    bool has_work() {
        const auto text = api.http().request("GET", "/metrics").body;
        return text.find("atoll_queue_depth{queue=\"check\"} 1") != std::string::npos;
    }
    bool comes_to_have_work() {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (!has_work())
            if (std::chrono::steady_clock::now() > until)
                return false;
        return true;
    }

    ServerProcess server;
    ApiClient api{server};
};

}  // namespace

TEST_CASE("Long arguments are checked by a process that may stand still or die", "[execute]") {
    Lab lab;
    CHECK(checkers(lab.server).empty());
    HttpClient client = lab.api.connect();
    const std::string id =
        lab.begin(client, k_attempt +
                              "const first = attempt({list, more: 1});\n"  // does not fit
                              "const out = [await first, await attempt({list})];\n"
                              "const stuck = attempt({list}); console.log('behind'); out.push(await stuck);\n"
                              "const last = attempt({list}); console.log('behind'); out.push(await last);\n"
                              "return out");
    const Json seen = lab.next(client, "tool_call");
    CHECK(seen["callId"] == "c2");
    CHECK(seen["args"][0]["list"].size() == 6000);
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);
    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    lab.answer(id, "c2");
    REQUIRE(lab.comes_to_have_work());

    // Whatever else is asked for is answered meanwhile.
    HttpClient other = lab.api.connect();
    const std::string quick = lab.begin(other, "return await codemode.short(1)");
    CHECK(lab.next(other, "tool_call")["args"] == Json::parse("[1]"));
    lab.answer(quick, "c1");
    CHECK(lab.next(other, "result")["result"] == "taken");
    CHECK(lab.has_work());
    CHECK(lab.api.call(200, "GET", "/v1/executions/" + id)["openCalls"].empty());

    REQUIRE(::kill(process[0], SIGKILL) == 0);
    // Another process does it, and what is said behind a call is told behind it.
    for (const std::string call : {"c3", "c4"}) {
        CHECK(lab.next(client, "tool_call")["callId"] == call);
        CHECK(lab.next(client, "log")["text"] == "behind");
        lab.answer(id, call);
    }
    const Json out = lab.next(client, "result")["result"];
    CHECK(out[0].get<std::string>().find("take: args[0]") == 0);
    CHECK(out[1] == "taken");
    CHECK(out[2] == "taken");
    CHECK(out[3] == "taken");
    CHECK(checkers(lab.server) != process);
}

TEST_CASE("A long result is read by that process, by another one if that dies", "[execute]") {
    Lab lab;
    const std::string code = "return 'x'.repeat(500000)";
    const Json form{{"code", code}, {"executor", "container"}};
    const Json whole = lab.api.call(200, "POST", "/v1/execute", form.dump());
    CHECK(whole["result"] == std::string(500'000, 'x'));
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);
    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    HttpClient client = lab.api.connect();
    (void)lab.begin(client, code);
    REQUIRE(lab.comes_to_have_work());
    REQUIRE(::kill(process[0], SIGKILL) == 0);
    CHECK(lab.next(client, "result")["result"] == whole["result"]);
    const auto after = checkers(lab.server);
    CHECK(after.size() == 1);
    CHECK(after != process);
}

TEST_CASE("Tools with long schemas are compiled by that process, and their calls checked by it",
          "[execute]") {
    Lab lab;
    Json schema{{"type", "object"}, {"properties", {{"n", {{"type", "number"}}}}}};
    for (int i = 0; i < 2000; ++i)
        schema["properties"]["p" + std::to_string(i)] = {{"type", "string"}};
    Json tools = Json::array({{{"name", "many"}, {"inputSchema", schema}}});
    const Json prompt = lab.api.call(200, "POST", "/v1/executors/prompt", Json{{"tools", tools}}.dump());
    CHECK(prompt["declarations"].get<std::string>().find("\"p1999\"?: string") != std::string::npos);
    CHECK(checkers(lab.server).size() == 1);

    HttpClient client = lab.api.connect();
    const Json form{{"code",
                     "try { await codemode.many({n: 'a'}) } catch (error) { console.log(error.message) }\n"
                     "return await codemode.many({n: 1})"},
                    {"executor", "container"},
                    {"tools", tools}};
    REQUIRE(client.open_stream("POST", "/v1/execute", form.dump(), k_stream).status == 200);
    const std::string id = lab.next(client, "start")["executionId"];
    CHECK(lab.next(client, "log")["text"].get<std::string>().find("many: args[0]/n") == 0);
    CHECK(lab.next(client, "tool_call")["args"] == Json::parse(R"([{"n":1}])"));
    lab.answer(id, "c2");
    CHECK(lab.next(client, "result")["result"] == "taken");

    tools[0]["inputSchema"]["properties"]["bad"] = {{"pattern", "(?=x)"}};
    const Json refused = lab.api.call(
        422, "POST", "/v1/execute",
        Json{{"code", "return 1"}, {"executor", "container"}, {"detached", true}, {"tools", tools}}.dump());
    CHECK(refused["detail"].get<std::string>().find("'many': inputSchema/properties/bad/pattern") !=
          std::string::npos);
    CHECK(lab.api.call(422, "POST", "/v1/executors/prompt", Json{{"tools", tools}}.dump())["code"] ==
          "invalid_field");
}

}  // namespace heavy_calls_test
