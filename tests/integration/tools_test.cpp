// The filesystem tools over HTTP: forms, ownership, context, events, and what becomes of a call whose sandbox
// is paused, gone, or dies meanwhile. What each tool does is tests/unit/bridge/tool_*_test.cpp.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/integration/guest_processes.hpp"
#include "tests/integration/route_walk.hpp"
#include "tests/integration/tool_calls.hpp"

namespace tools_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

unsigned short port_of(const HttpClient& client) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    REQUIRE(getsockname(client.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
}

/// True if the server still has its end of the connection (proc(5), /proc/net/tcp).
bool has_connection(const ServerProcess& server, unsigned short client_port) {
    char ends[64];
    snprintf(ends, sizeof ends, "0100007F:%04X 0100007F:%04X ", server.port(), client_port);
    std::ifstream table("/proc/net/tcp");
    for (std::string line; std::getline(table, line);)
        if (line.find(ends) != std::string::npos)
            return true;
    return false;
}

Json nested(int levels) {
    Json value = Json::object();
    for (int level = 1; level < levels; ++level)
        value = Json{{"a", value}};
    return value;
}

}  // namespace

TEST_CASE("A tool works in a conversation's sandbox, and its writes are in the log") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string sandbox = made["sandboxId"];
    Json write = body_of(sandbox, {{"file_path", "src/a.txt"}, {"content", "hello\n"}});
    write["context"] = {{"toolCallId", "call_1"}, {"userId", "u\n7"}, {"selectedElementId", nullptr}};
    const Json written = run(api.http(), "write_file", write);
    CHECK(written["success"] == true);
    CHECK(written["context"] == write["context"]);
    CHECK(written["changedFiles"] == Json::parse(R"(["/workspace/src/a.txt"])"));
    CHECK(api.message(made["id"], "cat src/a.txt").output == "hello\n");
    const auto events = api.events(made["id"]);
    const auto change = std::find_if(events.begin(), events.end(),
                                     [](const Json& event) { return event["type"] == "files_changed"; });
    REQUIRE(change != events.end());
    CHECK((*change)["data"] ==
          Json::parse(R"({"changedFiles":["/workspace/src/a.txt"],"toolCallId":"call_1"})"));
    CHECK((*change)["turn"] == nullptr);

    const Json read =
        run(api.http(), "read_file", body_of(sandbox, {{"absolute_path", "/workspace/src/a.txt"}}));
    CHECK(read["data"]["content"] == "hello\n");
    const Json edited =
        run(api.http(), "replace",
            body_of(sandbox, {{"file_path", "src/a.txt"}, {"old_string", "hello"}, {"new_string", "$&"}}));
    CHECK(edited["data"]["occurrences"] == 1);
    CHECK(run(api.http(), "list_directory", body_of(sandbox, {{"path", "src"}}))["data"]["count"] == 1);
    CHECK(run(api.http(), "search_file_content",
              body_of(sandbox, {{"pattern", "\\$&"}}))["data"]["matchCount"] == 1);
    CHECK(run(api.http(), "glob", body_of(sandbox, {{"pattern", "**/*.txt"}}))["data"]["files"] ==
          Json::parse(R"(["/workspace/src/a.txt"])"));
    CHECK(run(api.http(), "read_file",
              body_of(sandbox, {{"path", "/etc/passwd"}}))["technicalDetails"]["errorCode"] ==
          "OUTSIDE_WORKSPACE");
    const std::string log = server.log();
    CHECK(log.find("evt=tool_called") != std::string::npos);
    CHECK(log.find("call_1") != std::string::npos);
    CHECK(log.find("u\n7") == std::string::npos);
}

// Root, as which a guest under test may run, reads everything; nobody in a sandbox is root.
TEST_CASE("A place that cannot be read is no place without matches") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string sandbox = made["sandboxId"];
    api.message(made["id"], "mkdir closed; echo one | tee closed/f g; chmod 000 closed g");
    const auto code = [&](const std::string& tool, const Json& arguments) {
        return run(api.http(), tool, body_of(sandbox, arguments))["technicalDetails"]["errorCode"];
    };
    for (const char* path : {"closed", "g"})
        CHECK(code("search_file_content", {{"pattern", "one"}, {"path", path}}) == "PERMISSION_DENIED");
    CHECK(code("glob", {{"pattern", "*"}, {"path", "closed"}}) == "PERMISSION_DENIED");
    // A search of a larger place succeeds, and a warning tells of the part that is missing.
    api.message(made["id"], "echo one > open");
    for (const char* tool : {"search_file_content", "glob"}) {
        const Json found =
            run(api.http(), tool, body_of(sandbox, {{"pattern", tool[0] == 'g' ? "*" : "one"}}));
        CHECK(found["success"] == true);
        CHECK(found["warnings"].dump().find("could not be read") != std::string::npos);
    }
    api.message(made["id"], "chmod 700 closed; chmod 600 g");
    CHECK_FALSE(
        run(api.http(), "search_file_content", body_of(sandbox, {{"pattern", "one"}})).contains("warnings"));
    CHECK(run(api.http(), "search_file_content",
              body_of(sandbox, {{"pattern", "one"}, {"path", "closed"}}))["data"]["matchCount"] == 1);
}

TEST_CASE("Without a sandbox, or with one that is not there, a tool says so in the agreed words") {
    const ServerProcess server;
    ApiClient api(server);
    const Json arguments = {{"path", "."}};
    const Json missing = run(api.http(), "list_directory", {{"args", arguments}, {"context", {{"a", 1}}}});
    CHECK(missing == Json::parse(R"({"success":false,"previewRefreshNeeded":false,"context":{"a":1},
        "userFeedback":"This operation requires a sandbox environment. Please try again.",
        "suggestions":["Send the id of the sandbox as `sandboxId`, beside `args` or in `context`."],
        "technicalDetails":{"error":"Missing sandbox context - sandboxId required","errorCode":"MISSING_SANDBOX"}})"));
    CHECK(run(api.http(), "list_directory",
              {{"sandboxId", nullptr}, {"args", arguments}})["technicalDetails"]["errorCode"] ==
          "MISSING_SANDBOX");
    for (const char* const name : {"sandbox_id", "SandboxId"}) {
        const Json misnamed = run(api.http(), "list_directory",
                                  {{"args", arguments}, {"context", {{name, std::string(20, 'a')}}}});
        CHECK(misnamed["technicalDetails"]["errorCode"] == "MISSING_SANDBOX");
        CHECK(misnamed["suggestions"][0] ==
              "`context." + std::string(name) +
                  "` is not read. Send the id of the sandbox as `sandboxId`, beside `args` or in `context`.");
    }
    for (const std::string& id : {std::string(20, 'a'), std::string(""), std::string("../x")})
        CHECK(run(api.http(), "list_directory", body_of(id, arguments)) == k_unavailable);
    const auto streamed =
        api.http().request("POST", "/v1/tools/glob", R"({"args":{}})", {{"Accept", "text/event-stream"}});
    REQUIRE(frames(streamed.body).size() == 1);
    CHECK(frames(streamed.body)[0]["result"]["technicalDetails"]["errorCode"] == "MISSING_SANDBOX");
    const Json gone = api.create();
    api.remove(gone["id"]);
    CHECK(run(api.http(), "list_directory", body_of(gone["sandboxId"], arguments)) == k_unavailable);
}

TEST_CASE("The sandbox of the context counts where the call names none, and must be the same where it does") {
    const ServerProcess server;
    ApiClient api(server);
    const Json id = api.create()["sandboxId"];
    const auto call = [&](const Json& named, const Json& in_context) {
        const Json body = {
            {"sandboxId", named}, {"args", {{"path", "."}}}, {"context", {{"sandboxId", in_context}}}};
        return api.http().request("POST", "/v1/tools/list_directory", body.dump());
    };
    const auto succeeds = [&](const Json& named, const Json& in_context) {
        return Json::parse(call(named, in_context).body)["success"] == true;
    };
    CHECK(succeeds(nullptr, id));
    CHECK(succeeds(id, id));
    CHECK(succeeds(id, nullptr));
    CHECK_FALSE(succeeds(nullptr, nullptr));
    const Json without = run(api.http(), "list_directory",
                             {{"sandboxId", id}, {"args", {{"path", "."}}}, {"context", nullptr}});
    CHECK(without["success"] == true);
    CHECK_FALSE(without.contains("context"));
    CHECK(Json::parse(call(nullptr, std::string(20, 'a')).body)["technicalDetails"]["errorCode"] ==
          "SANDBOX_UNAVAILABLE");
    for (const Json& other : {Json(std::string(20, 'a')), Json(5)}) {
        const auto refused = call(id, other);
        CHECK(refused.status == 422);
        CHECK(Json::parse(refused.body)["detail"].get<std::string>().find("context.sandboxId") !=
              std::string::npos);
    }
}

TEST_CASE("A user's key reaches that user's sandboxes, and another's looks like none") {
    const ServerProcess server;
    const NewKey alice = add_key(server, {"web", "--user-id", "alice"});
    const NewKey bob = add_key(server, {"web", "--user-id", "bob"});
    HttpClient hers = client_with(server, alice.secret);
    HttpClient his = client_with(server, bob.secret);
    const Json conversation = Json::parse(hers.request("POST", "/v1/conversations", "{}").body);
    const Json sandbox = Json::parse(hers.request("POST", "/v1/sandboxes", "{}").body);
    for (const std::string& id :
         {conversation["sandboxId"].get<std::string>(), sandbox["id"].get<std::string>()}) {
        CHECK(run(hers, "list_directory", body_of(id, {{"path", "."}}))["success"] == true);
        CHECK(run(his, "list_directory", body_of(id, {{"path", "."}})) == k_unavailable);
        CHECK(run(his, "write_file", body_of(id, {{"path", "x"}, {"content", ""}})) == k_unavailable);
        CHECK(run(hers, "glob", body_of(id, {{"pattern", "**"}}))["data"]["count"] == 0);
    }
}

TEST_CASE("What is no call of a tool is a problem") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.create()["sandboxId"];
    struct Row {
        const char* name;
        Json body;
        int status;
        const char* code;
    };
    Json deep = 1;
    for (int i = 0; i < 30; ++i)
        deep = Json{{"a", deep}};
    const Row table[] = {
        {"no_tool", body_of(sandbox, Json::object()), 404, "not_found"},
        {"glob", Json::object(), 422, "invalid_field"},
        {"glob", {{"sandboxId", sandbox}, {"args", "x"}}, 422, "invalid_field"},
        {"glob", {{"sandboxId", 5}, {"args", Json::object()}}, 422, "invalid_field"},
        {"glob", {{"sandboxId", sandbox}, {"args", Json::object()}, {"more", 1}}, 422, "unknown_field"},
        {"glob", {{"sandboxId", sandbox}, {"args", Json::object()}, {"context", {1}}}, 422, "invalid_field"},
        {"glob",
         {{"sandboxId", sandbox}, {"args", Json::object()}, {"context", {{"a", std::string(16'400, 'x')}}}},
         422,
         "invalid_field"},
        {"glob", {{"sandboxId", sandbox}, {"args", {{"pattern", deep}}}}, 422, "invalid_field"},
    };
    for (const Row& row : table) {
        const auto answer = api.http().request("POST", std::string("/v1/tools/") + row.name, row.body.dump());
        INFO(answer.body);
        CHECK(answer.status == row.status);
        CHECK(Json::parse(answer.body)["code"] == row.code);
    }
    const Json wrong = run(api.http(), "glob", body_of(sandbox, {{"pattern", 5}}));
    CHECK(wrong["technicalDetails"]["errorCode"] == "INVALID_ARGUMENTS");
}

TEST_CASE("A tool works in a paused conversation, which stays paused and whose log says nothing of it") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause", "{}");
    const std::string before = types(api.events(made["id"]));
    CHECK(run(api.http(), "write_file",
              body_of(made["sandboxId"], {{"path", "f"}, {"content", "x"}}))["success"] == true);
    CHECK(run(api.http(), "read_file", body_of(made["sandboxId"], {{"path", "f"}}))["data"]["content"] ==
          "x");
    CHECK(api.get(made["id"])["status"] == "paused");
    CHECK(types(api.events(made["id"])) == before);
}

TEST_CASE("A call that streams tells its progress, then its result") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.create()["sandboxId"];
    Json body = body_of(sandbox, {{"path", "f"}, {"content", "one\ntwo\n"}});
    body["context"] = {{"toolCallId", "c9"}};
    const auto answer =
        api.http().request("POST", "/v1/tools/write_file", body.dump(), {{"Accept", "text/event-stream"}});
    REQUIRE(answer.status == 200);
    const auto seen = frames(answer.body);
    REQUIRE(seen.size() >= 2);
    CHECK(seen.front() == Json::parse(R"({"type":"tool_progress","toolCallId":"c9","toolName":"write_file",
        "status":"started","progress":null,"message":""})"));
    CHECK(seen.back()["type"] == "tool_result");
    CHECK(seen.back()["toolCallId"] == "c9");
    CHECK(seen.back()["result"]["data"]["lineCount"] == 2);
    CHECK(seen.back()["result"]["context"] == body["context"]);
}

TEST_CASE("A silent call sends comments, and what it writes after its client left is in the log") {
    ServerOptions options;
    options.arguments = {"--heartbeat", "1"};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.create();
    Json body = body_of(made["sandboxId"], {{"path", "late"}, {"content", "x"}});
    body["context"] = {{"toolCallId", "c1"}};
    const std::vector<pid_t> guest = guests(server);
    REQUIRE(guest.size() == 1);
    REQUIRE(::kill(guest[0], SIGSTOP) == 0);
    HttpClient client = api.connect();
    REQUIRE(client.open_stream("POST", "/v1/tools/write_file", body.dump()).status == 200);
    REQUIRE(client.next_event()->event == "tool_progress");
    const std::string comment = client.read_raw(18);  // a chunk of its own
    CHECK(comment.find(": heartbeat\n\n") != std::string::npos);
    const unsigned short port = port_of(client);
    CHECK(has_connection(server, port));
    client.close();
    CHECK(eventually([&] { return !has_connection(server, port); }));
    const auto is_told = [&] {
        const auto events = api.events(made["id"]);
        return std::ranges::any_of(events, [](const Json& event) {
            return event["type"] == "files_changed" && event["data"]["toolCallId"] == "c1";
        });
    };
    CHECK_FALSE(is_told());
    REQUIRE(::kill(guest[0], SIGCONT) == 0);
    const std::string file = "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/files/late";
    CHECK(eventually([&] { return api.http().request("GET", file).status == 200; }));
    CHECK(eventually(is_told));
}

TEST_CASE("A client that leaves ends a call that writes nothing, and no other") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::vector<pid_t> guest = guests(server);
    REQUIRE(guest.size() == 1);
    REQUIRE(::kill(guest[0], SIGSTOP) == 0);
    const auto leave = [&](const std::string& tool, const Json& arguments) {
        const std::string body = body_of(made["sandboxId"], arguments).dump();
        HttpClient client = api.connect();
        client.connect();
        client.send_raw("POST /v1/tools/" + tool + " HTTP/1.1\r\nHost: " + server.address() +
                        "\r\nX-API-Key: " + server.key() +
                        "\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body);
        REQUIRE(eventually([&] { return server.log().find("tool=" + tool) != std::string::npos; }));
        client.close();
    };
    const auto status_of = [&](const std::string& tool) {
        std::istringstream log(server.log());
        for (std::string line; std::getline(log, line);)
            if (line.find("path=\"/v1/tools/" + tool + "\"") != std::string::npos)
                return line.substr(line.find("status="), std::string("status=408").size());
        return std::string();
    };
    leave("write_file", {{"path", "late"}, {"content", "x"}});
    leave("glob", {{"pattern", "**"}});
    // Nothing else ends it: the guest stands still.
    CHECK(eventually([&] { return !status_of("glob").empty(); }));
    CHECK(status_of("glob") == "status=408");
    CHECK(status_of("write_file").empty());
    REQUIRE(::kill(guest[0], SIGCONT) == 0);
    CHECK(eventually([&] {
        const auto events = api.events(made["id"]);
        return std::ranges::any_of(events,
                                   [](const Json& event) { return event["type"] == "files_changed"; });
    }));
}

TEST_CASE("Arguments and contexts that nest too deep are refused by their names") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.create()["sandboxId"];
    const auto call = [&](const Json& body) {
        return api.http().request("POST", "/v1/tools/glob", body.dump());
    };
    Json body = body_of(sandbox, {{"pattern", "*"}});
    for (const char* const name : {"args", "context"}) {
        Json deep = body;
        deep[name] = nested(16);
        CHECK(call(deep).status == 200);
        for (const int levels : {17, 40}) {
            deep[name] = nested(levels);
            const auto refused = call(deep);
            CHECK(refused.status == 422);
            CHECK(Json::parse(refused.body)["detail"].get<std::string>().find(std::string("`") + name +
                                                                              "`") != std::string::npos);
        }
    }
}

TEST_CASE("A sandbox that ends in the middle of a call is the result SANDBOX_UNAVAILABLE") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string sandbox = made["sandboxId"];
    api.message(made["id"], "for i in $(seq 5); do head -c 19000000 /dev/zero | tr '\\0' a > f$i; done");
    const Json slow = body_of(sandbox, {{"pattern", "\\b\\w{5,300}\\b!"}});
    for (const char* accept : {"application/json", "text/event-stream"}) {
        // It waits for the call, so that this will not end by itself.
        const std::string processes = "/v1/sandboxes/" + sandbox + "/processes";
        const std::string holder = api.call(
            201, "POST", processes, R"({"command":"until pkill -STOP -x rg; do :; done"})")["processId"];
        HttpResponse answer;
        std::thread caller([&] {
            HttpClient client = api.connect();
            answer =
                client.request("POST", "/v1/tools/search_file_content", slow.dump(), {{"Accept", accept}});
        });
        // The call is under way; another one is answered meanwhile.
        CHECK(
            eventually([&] { return api.call(200, "GET", processes + "/" + holder)["status"] == "ended"; }));
        HttpClient other = api.connect();
        run(other, "list_directory", body_of(sandbox, {{"path", "."}}));
        api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause", "{}");
        caller.join();
        INFO(answer.body);
        REQUIRE(answer.status == 200);
        const bool is_stream = accept == std::string("text/event-stream");
        const Json result = is_stream ? frames(answer.body).back()["result"] : Json::parse(answer.body);
        CHECK(result["technicalDetails"]["errorCode"] == "SANDBOX_UNAVAILABLE");
        CHECK(result["technicalDetails"]["error"] ==
              "The sandbox is not available now: the conversation was paused");
    }
}

TEST_CASE("No answer of a tool can be taken for a page, and a long toolCallId is cut between characters") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.create()["sandboxId"];
    Json body = body_of(sandbox, {{"path", "."}});
    body["context"] = {{"toolCallId", std::string(255, 'x') + "\xC3\xA9"}};
    for (const char* accept : {"application/json", "text/event-stream"}) {
        const auto answer =
            api.http().request("POST", "/v1/tools/list_directory", body.dump(), {{"Accept", accept}});
        REQUIRE(answer.status == 200);
        CHECK(answer.header("x-content-type-options") == "nosniff");
        CHECK(answer.header("content-security-policy") == "sandbox; default-src 'none'");
        CHECK(answer.header("cross-origin-resource-policy") == "same-origin");
        CHECK(answer.header("content-disposition") == "attachment; filename=\"tool\"");
        if (accept == std::string("text/event-stream"))
            CHECK(frames(answer.body).back()["toolCallId"] == std::string(255, 'x'));
    }
}

TEST_CASE("The tools are told in the form that a model's API wants") {
    const ServerProcess server;
    ApiClient api(server);
    const auto list = [&](const std::string& query) { return api.call(200, "GET", "/v1/tools" + query); };
    const Json plain = list("");
    CHECK(plain["format"] == "json-schema");
    REQUIRE(plain["tools"].size() == 7);
    CHECK(plain["tools"][0]["name"] == "list_directory");
    CHECK(plain["tools"][1]["inputSchema"]["required"] == Json::parse(R"(["absolute_path"])"));
    CHECK(list("?format=openai")["tools"][3]["function"]["parameters"]["properties"]["old_string"]["type"] ==
          "string");
    CHECK(list("?format=openai")["tools"][3]["type"] == "function");
    CHECK(list("?format=anthropic")["tools"][5]["input_schema"]["properties"]["pattern"]["type"] == "string");
    const Json gemini = list("?format=gemini")["tools"][0]["functionDeclarations"];
    const Json ignore = gemini[0]["parameters"]["properties"]["ignore"];
    CHECK(ignore["type"] == "ARRAY");
    CHECK(ignore["items"] == Json{{"type", "STRING"}});
    CHECK_FALSE(ignore.contains("maxItems"));
    CHECK_FALSE(gemini[0]["parameters"].contains("additionalProperties"));
    api.call(422, "GET", "/v1/tools?format=xml");
}

TEST_CASE(
    "Where a conversation asks for it, an edit needs a read in this generation, and says what changed") {
    const TempDir folder;
    ServerOptions options;
    options.data_dir = folder.path() / "data";
    std::filesystem::create_directories(options.data_dir);
    std::optional<ServerProcess> server(std::in_place, options);
    std::optional<ApiClient> api(*server);
    const Json made = api->create({{"tools", {{"readBeforeEdit", true}}}});
    CHECK(made["tools"] == Json::parse(R"({"readBeforeEdit":true,"runCommand":true})"));
    CHECK(api->create()["tools"] == Json::parse(R"({"readBeforeEdit":false,"runCommand":true})"));
    const std::string id = made["id"];
    const std::string sandbox = made["sandboxId"];
    const auto tool = [&](const char* name, const Json& arguments) {
        return run(api->http(), name, body_of(sandbox, arguments));
    };
    const auto edit = [&](const char* from, const char* to) {
        return tool("replace", {{"file_path", "f"}, {"old_string", from}, {"new_string", to}});
    };
    const auto refusal = [](const Json& result) {
        REQUIRE(result["success"] == false);
        CHECK(result["technicalDetails"]["errorCode"] == "FILE_CHANGED");
        return result["technicalDetails"]["error"].get<std::string>();
    };
    const auto read = [&] { REQUIRE(tool("read_file", {{"path", "f"}})["success"] == true); };
    api->message(id, "echo one > f");
    CHECK(refusal(edit("one", "two")).find("not read") != std::string::npos);
    CHECK(api->message(id, "cat f").output == "one\n");
    read();
    CHECK(edit("one", "two")["success"] == true);
    CHECK(edit("two", "three")["success"] == true);
    api->message(id, "echo three and four > f");
    CHECK(refusal(edit("three", "x")).find("size changed from 6 to 15 bytes") != std::string::npos);
    read();
    // Another generation has seen nothing yet: after a pause, and after the end of the server.
    api->call(200, "POST", "/v1/conversations/" + id + "/pause", R"({"mode":"cold"})");
    api->call(200, "POST", "/v1/conversations/" + id + "/resume");
    CHECK(refusal(edit("three", "x")).find("not read") != std::string::npos);
    read();
    server->kill_hard();
    server.emplace(options);
    api.emplace(*server);
    CHECK(api->get(id)["tools"]["readBeforeEdit"] == true);
    api->call(200, "POST", "/v1/conversations/" + id + "/resume");
    CHECK(refusal(edit("three", "x")).find("not read") != std::string::npos);
    // A change holds for the next call.
    const auto patch = [&](const char* body) {
        return api->call(200, "PATCH", "/v1/conversations/" + id, body)["tools"]["readBeforeEdit"]
            .get<bool>();
    };
    CHECK_FALSE(patch(R"({"tools":{"readBeforeEdit":false}})"));
    CHECK(edit("three", "x")["success"] == true);
    api->message(id, "echo five > f");
    CHECK(patch(R"({"tools":{"readBeforeEdit":true}})"));
    CHECK(patch(R"({"title":"as it was","tools":{}})"));
    CHECK_FALSE(refusal(edit("five", "six")).empty());
    CHECK(api->call(422, "PATCH", "/v1/conversations/" + id,
                    R"({"tools":{"readBeforeEdit":"on"}})")["pointer"] == "/tools/readBeforeEdit");
}

}  // namespace tools_test
