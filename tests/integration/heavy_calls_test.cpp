// Code mode over the real server: what takes long to check or read is done by a process of its own, and the
// server goes on meanwhile, whatever becomes of that process.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>

#include "tests/integration/route_walk.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

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
    // A process that was killed and waits to be reaped has no program any more.
    std::erase_if(found, [](pid_t pid) {
        std::error_code gone;
        return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone).filename() !=
               "atoll-checker";
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
    /// So many pieces of work that the process has not answered.
    bool has_work(int many = 1) {
        const auto text = api.http().request("GET", "/metrics").body;
        return text.find("atoll_queue_depth{queue=\"check\"} " + std::to_string(many) + "\n") !=
               std::string::npos;
    }
    bool comes_to_have_work(int many = 1) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (!has_work(many))
            if (std::chrono::steady_clock::now() > until)
                return false;
        return true;
    }

    /// Sends it, and leaves the response on `client`.
    static void post_answer(HttpClient& client, const ServerProcess& server, const std::string& id,
                            const std::string& call, const std::string& body) {
        client.send_raw("POST /v1/executions/" + id + "/calls/" + call +
                        " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + server.key() +
                        "\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body);
    }
    /// On the execution, for what comes from now on.
    WebSocketClient socket(const std::string& id) {
        const std::string path = "/v1/executions/" + id;
        const auto seen = api.call(200, "GET", path)["lastSeq"].get<int>();
        return {api.connect(), path + "/ws?after=" + std::to_string(seen)};
    }

    ServerProcess server;
    ApiClient api{server};
};

const std::string k_three_calls =
    "const all = await Promise.all([1, 2, 3].map((n) => codemode.short(n)));\n"
    "return all.map((one) => one.length)";

}  // namespace

TEST_CASE("A keyword that cannot be checked is named, and the run begins", "[execute]") {
    Lab lab;
    const Json tools =
        Json::parse(R"_([{"name":"mail","inputSchema":{"properties":{"to":{"pattern":"^(?!x)"}}}}])_");
    Json form = {{"tools", tools}};
    const Json told = lab.api.call(200, "POST", "/v1/executors/prompt", form.dump());
    REQUIRE(told["warnings"].size() == 1);
    CHECK(told["warnings"][0]["tool"] == "mail");
    CHECK(told["warnings"][0]["keyword"] == "pattern");
    form["code"] = "return await codemode.mail({to: 'a@b'})";
    form["executor"] = "container";
    HttpClient client = lab.api.connect();
    REQUIRE(client.open_stream("POST", "/v1/execute", form.dump(), k_stream).status == 200);
    const Json start = lab.next(client, "start");
    CHECK(start["warnings"] == told["warnings"]);
    lab.next(client, "tool_call");
    lab.answer(start["executionId"], "c1");
    CHECK(lab.next(client, "result")["warnings"] == told["warnings"]);
}

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
    // Up to here before the process stands still: the server waits for that only so long.
    HttpClient other = lab.api.connect();
    const std::string quick = lab.begin(other, "return [await codemode.short(1), await codemode.short(2)]");
    CHECK(lab.next(other, "tool_call")["args"] == Json::parse("[1]"));
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);
    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    lab.answer(id, "c2");
    REQUIRE(lab.comes_to_have_work());

    // Whatever else is asked for is answered meanwhile.
    lab.answer(quick, "c1");
    CHECK(lab.next(other, "tool_call")["args"] == Json::parse("[2]"));
    lab.answer(quick, "c2");
    CHECK(lab.next(other, "result")["result"] == Json::parse(R"(["taken","taken"])"));
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
    // The one that was killed may still be dying.
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    auto after = checkers(lab.server);
    while (after.size() != 1 && std::chrono::steady_clock::now() < until)
        after = checkers(lab.server);
    CHECK(after.size() == 1);
    CHECK(after != process);
}

TEST_CASE("Long answers are read by that process, and each is obeyed in its turn", "[execute]") {
    Lab lab;
    HttpClient client = lab.api.connect();
    const std::string id = lab.begin(client, k_three_calls);
    for (int call = 0; call < 3; ++call)
        (void)lab.next(client, "tool_call");
    const std::string path = "/v1/executions/" + id + "/calls/";
    const Json text(std::string(500'000, 'x'));
    const std::string long_answer = Json{{"result", text}}.dump();
    CHECK(checkers(lab.server).empty());
    // A wrong answer that is long is refused as a short one is, and the call still waits.
    CHECK(lab.api.call(404, "POST", path + "c9", long_answer)["code"] == "not_found");
    CHECK(lab.api.call(400, "POST", path + "c1", long_answer + "x")["code"] == "invalid_json");
    CHECK(lab.api.call(422, "POST", path + "c1", Json{{"result", text}, {"more", 1}}.dump())["code"] ==
          "unknown_field");
    CHECK(lab.api.call(
              422, "POST", path + "c1", R"({"result":[1e9)" + [] {
                  std::string more;
                  while (more.size() < 500'000)
                      more += ",1e9";
                  return more;
              }() + "]}")["pointer"] == "/result");
    lab.api.call(204, "POST", path + "c1", long_answer);
    CHECK(lab.api.call(409, "POST", path + "c1", long_answer)["code"] == "call_answered");
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);

    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    WebSocketClient socket = lab.socket(id);
    socket.send_text(Json{{"type", "answer"}, {"callId", "c2"}, {"result", text}, {"id", 1}}.dump());
    socket.send_text(Json{{"type", "answer"}, {"callId", "c2"}, {"result", "late"}, {"id", 2}}.dump());
    REQUIRE(lab.comes_to_have_work());
    CHECK(lab.api.call(200, "GET", "/v1/executions/" + id)["openCalls"].size() == 2);
    lab.answer(id, "c3");
    REQUIRE(::kill(process[0], SIGCONT) == 0);
    CHECK(Json::parse(socket.next_text()) == Json::parse(R"({"type":"accepted","id":1})"));
    // The run may have ended by now.
    const Json late = Json::parse(socket.next_text());
    CHECK((late["type"] == "rejected" || late["type"] == "result"));
    CHECK(lab.next(client, "result")["result"] == Json::parse("[500000,500000,5]"));
}

TEST_CASE("Long arguments and answers of a sandbox's own tools pass, the answers through that process",
          "[execute]") {
    Lab lab;
    const std::string sandbox = lab.api.create()["sandboxId"];
    const std::string path = "/v1/sandboxes/" + sandbox;
    const auto run = [&](HttpClient& client, const std::string& code) {
        const Json form{{"code", code}, {"executor", "container"}};
        REQUIRE(client.open_stream("POST", path + "/execute", form.dump(), k_stream).status == 200);
        (void)lab.next(client, "start");
        (void)lab.next(client, "tool_call");
    };
    HttpClient writer = lab.api.connect();
    run(writer,
        "const content = 'a\\\\\"}],[{\\n'.repeat(30000);\n"
        "return (await codemode.write_file({file_path: '/workspace/w.txt', content})).success");
    CHECK(lab.next(writer, "result")["result"] == true);
    const Json compared = lab.api.call(200, "POST", path + "/exec",
                                       R"({"command":"yes 'a\\\"}],[{' | head -n 30000 | cmp - w.txt"})");
    INFO(compared.dump());
    CHECK(compared["exitCode"] == 0);
    const std::string read =
        "return (await codemode.read_file({absolute_path: '/workspace/w.txt'})).data.content.length";
    HttpClient reader = lab.api.connect();
    run(reader, read);
    const Json length = lab.next(reader, "result")["result"];
    CHECK(length.get<int>() >= 2000 * 9 - 1);
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);

    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    HttpClient again = lab.api.connect();
    run(again, read);
    REQUIRE(lab.comes_to_have_work());
    REQUIRE(::kill(process[0], SIGKILL) == 0);
    CHECK(lab.next(again, "result")["result"] == length);
}

TEST_CASE("A long answer whose run, client or process is gone meanwhile harms nobody", "[execute]") {
    Lab lab;
    const std::string long_answer = Json{{"result", std::string(500'000, 'x')}}.dump();
    const std::string long_frame =
        Json{{"type", "answer"}, {"callId", "c2"}, {"result", std::string(500'000, 'x')}}.dump();
    HttpClient warm = lab.api.connect();
    const std::string first = lab.begin(warm, "return (await codemode.short(1)).length");
    (void)lab.next(warm, "tool_call");
    lab.api.call(204, "POST", "/v1/executions/" + first + "/calls/c1", long_answer);
    CHECK(lab.next(warm, "result")["result"] == 500'000);
    const auto process = checkers(lab.server);
    REQUIRE(process.size() == 1);

    HttpClient client = lab.api.connect();
    const std::string id = lab.begin(client, k_three_calls);
    for (int call = 0; call < 3; ++call)
        (void)lab.next(client, "tool_call");
    REQUIRE(::kill(process[0], SIGSTOP) == 0);
    HttpClient waits = lab.api.connect();
    Lab::post_answer(waits, lab.server, id, "c1", long_answer);
    REQUIRE(lab.comes_to_have_work());
    {
        WebSocketClient leaves = lab.socket(id);
        leaves.send_text(long_frame);
        REQUIRE(lab.comes_to_have_work(2));
    }
    REQUIRE(lab.comes_to_have_work());  // nobody wants it any more
    WebSocketClient stays = lab.socket(id);
    stays.send_text(long_frame);
    REQUIRE(lab.comes_to_have_work(2));
    lab.api.call(200, "DELETE", "/v1/executions/" + id);
    CHECK(lab.next(client, "result")["error"]["kind"] == "cancelled");
    REQUIRE(lab.comes_to_have_work());
    REQUIRE(::kill(process[0], SIGKILL) == 0);
    const HttpResponse told = waits.read_response();
    CHECK(told.status == 409);
    CHECK(code_of(told) == "execution_ended");
    REQUIRE(lab.comes_to_have_work(0));

    HttpClient after = lab.api.connect();
    const std::string second = lab.begin(after, "return (await codemode.short(1)).length");
    (void)lab.next(after, "tool_call");
    lab.api.call(204, "POST", "/v1/executions/" + second + "/calls/c1", long_answer);
    CHECK(lab.next(after, "result")["result"] == 500'000);
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

    Json& bad = tools[0]["inputSchema"]["properties"]["bad"];
    const auto execute = [&](int status) {
        const Json run{{"code", "return 1"}, {"executor", "container"}, {"detached", true}, {"tools", tools}};
        return lab.api.call(status, "POST", "/v1/execute", run.dump());
    };
    bad = {{"pattern", "(?=x)"}};
    const std::string why = execute(202)["warnings"][0]["why"];
    CHECK(why.starts_with("inputSchema/properties/bad/pattern"));
    CHECK(lab.api.call(200, "POST", "/v1/executors/prompt",
                       Json{{"tools", tools}}.dump())["warnings"][0]["why"] == why);
    bad = {{"multipleOf", 0}};
    CHECK(execute(202)["warnings"][0]["keyword"] == "multipleOf");
    for (int i = 0; i < 33; ++i)
        bad = Json{{"not", bad}};
    const std::string detail = execute(422)["detail"];
    CHECK(detail.find("'many': inputSchema: nested deeper") != std::string::npos);
    CHECK(lab.api.call(422, "POST", "/v1/executors/prompt", Json{{"tools", tools}}.dump())["code"] ==
          "invalid_field");
}

}  // namespace heavy_calls_test
