// The examples of the OpenAPI document are what the real server says: each operation is performed, and what
// it gives is compared with http/api/examples.json, which the document is made with.
//
// After a change that is meant: ATOLL_RECORD_EXAMPLES=1 build/release/bin/integration_tests "The examples*",
// then build again and read the difference.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <set>

#include "tests/integration/asked_host.hpp"
#include "tests/integration/example_recorder.hpp"
#include "tests/integration/execution_examples.hpp"
#include "tests/integration/permission_examples.hpp"
#include "tests/integration/route_walk.hpp"
#include "tests/integration/wrong_requests.hpp"
#include "tests/support/paths.hpp"

namespace examples_test {

using namespace atl;
using namespace atl::test;
using namespace atl::test::routes;

namespace {

const std::string k_file = test::source_path("http/api/examples.json");

// Problems that no request brings about at will: the document has them as the server writes them.
const std::set<std::string> k_not_at_will = {
    "request_timeout",     "conversation_starting", "seq_expired",      "sandbox_failed",
    "conversation_paused", "sandbox_gone",          "storage_failed",   "shutting_down",
    "bridge_failed",       "deadline_exceeded",     "host_unsupported", "internal",
    "not_a_file",          "permission_denied",     "file_changed",     "disk_full",
    "user_share",          "secret_unusable",
};

OrderedJson document_of(const ServerProcess& server) {
    return OrderedJson::parse(HttpClient(server.address()).request("GET", "/openapi.json").body);
}

std::string id_of(const HttpResponse& response) {
    const Json body = Json::parse(response.body);
    if (!body.contains("id"))
        throw std::runtime_error("no id: " + response.body);
    return body["id"];
}

/// By default the budget of logs goes by the host's disk.
ServerOptions with_log_budget(const TempDir& folder) {
    const Json claude{{"name", "claude"},
                      {"adapter", "stream-json"},
                      {"argv", {"/agent/claude"}},
                      {"dir", "/no/such/folder"},
                      {"setup", "scripts/setup --agents claude"}};
    std::ofstream(folder.path() / "agents.json") << Json{{"agents", Json::array({claude})}}.dump();
    ServerOptions options;
    options.arguments = {"--log-mb", "1024", "--agents-file", (folder.path() / "agents.json").string()};
    return options;
}

/// Performs every operation of one server.
class Walk {
  public:
    Walk() : recorder(document_of(server)) {}

    void perform() {
        conversations();
        server_itself();
        turns();
        socket();
        states();
        sandboxes();
        secrets();
        perform_permission(recorder);
        ExecutionExamples(api, recorder).perform();
        egress();
    }

    TempDir folder;
    ServerProcess server{with_log_budget(folder)};
    ApiClient api{server};
    ExampleRecorder recorder;

  private:
    HttpResponse call(const std::string& operation, const OrderedJson& parameters = OrderedJson::object(),
                      const OrderedJson& body = nullptr, const HeaderList& headers = {}) {
        HttpClient client = api.connect();
        return recorder.call(client, operation, parameters, body, headers);
    }

    void conversations() {
        id = id_of(call("createConversation", {{"Idempotency-Key", "order-1877"}},
                        {{"agent", "shell"},
                         {"title", "Sales of May"},
                         {"userId", "alice"},
                         {"metadata", {{"project", "sales"}}},
                         {"env", {{"REPORT_YEAR", "2026"}}},
                         {"limits", {{"memoryMb", 512}, {"maxProcesses", 32}}},
                         {"network", "none"},
                         {"idleSeconds", 900},
                         {"ttlSeconds", 86400}}));
        one = {{"id", id}};
        call("getConversation", one);
        call("listConversations", {{"userId", "alice"}, {"status", "active"}, {"limit", 10}});
        call("patchConversation", one,
             {{"title", "Sales of June"},
              {"metadata", {{"project", nullptr}, {"month", 6}}},
              {"limits", {{"diskMb", 2048}}},
              {"preview", {{"access", "private"}, {"ports", {5173, 8000}}}}});
    }

    void turns() {
        const OrderedJson named{{"id", id}, {"Idempotency-Key", "question-1"}};
        call("postMessage", named, {{"content", "echo hello"}}, {{"Accept", "text/event-stream"}});
        call("postMessage", named, {{"content", "echo hello"}});
        HttpClient follower = api.connect();
        recorder.follow(follower, "getEvents", {{"id", id}, {"named", 1}, {"Last-Event-ID", "2"}}, "done");
        call("getEvents", {{"id", id}, {"after", 0}, {"limit", 100}});
        problem("log_replaced",
                api.connect().request("GET", "/v1/conversations/" + id + "/events?after=1-j8w4q6n1"));
        call("getTranscript", {{"id", id}, {"format", "jsonl"}});
        call("getTranscript", {{"id", id}, {"format", "markdown"}});
        call("createStreamToken", one, {{"scope", "chat"}, {"ttlSeconds", 300}});
    }

    void socket() {
        const OrderedJson parameters{{"id", id}, {"after", 6}};
        WebSocketClient client(api.connect(), recorder.target("openWebSocket", parameters));
        const OrderedJson frame{{"type", "message"},
                                {"content", "echo working; sleep 60"},
                                {"id", "m1"},
                                {"idempotencyKey", "question-2"}};
        client.send_text(frame.dump());
        // Only a turn that has begun is interrupted in the same way each time.
        OrderedJson answer;
        for (bool begun = false; !begun || answer.is_null();) {
            const OrderedJson got = OrderedJson::parse(client.next_text());
            begun = begun || got["type"] == "text_delta";
            if (got["type"] == "accepted")
                answer = got;
        }
        recorder.keep_parameters("openWebSocket", parameters);
        recorder.keep("openWebSocket", 101, "application/json", {{"client", frame}, {"server", answer}});
    }

    /// From the open turn of the WebSocket on.
    void states() {
        HttpClient client = api.connect();
        problem("turn_in_progress",
                client.request("POST", "/v1/conversations/" + id + "/messages", R"({"content":"ls"})"));
        call("interruptTurn", one);
        await_turn_end();
        problem("no_turn", client.request("POST", "/v1/conversations/" + id + "/interrupt"));
        call("pauseConversation", one, {{"mode", "cold"}});
        call("resumeConversation", one);
    }

    void await_turn_end() {
        HttpClient client = api.connect();
        client.open_stream("GET", "/v1/conversations/" + id + "/events?after=7", "",
                           {{"Accept", "text/event-stream"}});
        read_until(client, "done");
    }

    void sandboxes() {
        const std::string own =
            Json::parse(api.connect().request("GET", "/v1/conversations/" + id).body)["sandboxId"];
        call("getSandboxMetrics", {{"id", own}});
        call("createSandboxToken", {{"id", own}}, {{"scope", "preview"}, {"ttlSeconds", 300}});
        call("getSandboxLogs", {{"id", own}, {"after", 0}, {"stream", "system"}});
        files(own);
        tools(own);
        kept_processes(own);
        problem("sandbox_in_use", api.connect().request("DELETE", "/v1/sandboxes/" + own));
        call("deleteConversation", one);
        const std::string sandbox = id_of(call("createSandbox", {}, sandbox_form()));
        call("getSandbox", {{"id", sandbox}});
        call("patchSandbox", {{"id", sandbox}},
             {{"preview", {{"access", "private"}, {"ports", {3000}}}}, {"ttlSeconds", 7200}});
        call("listSandboxes", {{"userId", "alice"}, {"limit", 10}});
        programs(sandbox);
        processes(sandbox);
        call("deleteSandbox", {{"id", sandbox}});
        (void)api.create({{"userId", "alice"}});
        call("deleteConversationsOfUser", {{"userId", "alice"}});
    }

    void secrets() {
        const OrderedJson named{{"name", "MODEL_KEY"}};
        const OrderedJson form{
            {"value", "sk-0123456789"}, {"hosts", {"api.example.com"}}, {"userId", "alice"}};
        call("putSecret", named, form);
        call("putSecret", named, form);
        const OrderedJson one_of_alice{{"name", "MODEL_KEY"}, {"userId", "alice"}};
        call("getSecret", one_of_alice);
        call("listSecrets", {{"userId", "alice"}});
        call("deleteSecret", one_of_alice);
    }

    /// On a server of its own: in the other one nobody gets the network.
    void egress() {
        const ServerProcess asking(asking_server());
        ApiClient client(asking);
        const AskedHost asked(client);
        HttpClient decider = client.connect();
        recorder.call(decider, "decideEgress", {{"id", asked.conversation}, {"requestId", asked.request}},
                      {{"decision", "once"}});
        client.call(201, "PUT", "/v1/secrets/API_KEY", R"({"value":"sk-0","hosts":["api.example.com"]})");
        OrderedJson form = sandbox_form();
        form["network"] = OrderedJson::parse(
            R"({"mode":"egress","allow":["pypi.org",{"host":"api.example.com","headers":)"
            R"({"Authorization":{"secret":"API_KEY","prefix":"Bearer "}},"methods":["GET"],"paths":["/repos/*"]}]})");
        recorder.call(decider, "createSandbox", {}, form);
    }

    static OrderedJson sandbox_form() {
        return {{"userId", "alice"}, {"limits", {{"memoryMb", 512}}}, {"ttlSeconds", 3600}};
    }

    void programs(const std::string& sandbox) {
        const OrderedJson sort{{"command", "sort"}, {"stdin", "b\na\n"}, {"timeoutMs", 5000}};
        call("exec", {{"id", sandbox}}, sort);
        call("exec", {{"id", sandbox}, {"named", 1}}, sort, {{"Accept", "text/event-stream"}});
        const std::string full =
            api.call(201, "POST", "/v1/sandboxes", R"({"limits":{"maxProcesses":16}})")["id"];
        const std::string path = "/v1/sandboxes/" + full + "/exec";
        HttpClient bomb = api.connect();
        bomb.open_stream("POST", path, R"({"command":"while :; do sleep 60 & done"})",
                         {{"Accept", "text/event-stream"}});
        (void)bomb.next_event();  // bash cannot fork
        problem("invalid_cwd", api.connect().request("POST", "/v1/sandboxes/" + sandbox + "/exec",
                                                     R"({"command":"make","cwd":"no-such-folder"})"));
        problem("too_many_processes", api.connect().request("POST", path, R"({"argv":["true"]})"));
    }

    void files(const std::string& sandbox) {
        const OrderedJson plan{{"id", sandbox}, {"path", "notes/plan.md"}};
        put_file(plan, "# Plan of May\n");
        put_file(plan, "# Plan of June\n");
        call("getFile", plan);
        call("getFile", {{"id", sandbox}, {"path", "notes/plan.md"}, {"stat", "1"}});
        HttpClient client = api.connect();
        const std::string target = recorder.target("getFile", plan);
        const auto part = client.request("GET", target, "", {{"Range", "bytes=2-5"}});
        recorder.keep("getFile", part.status, part.header("content-type"), part.body);
        problem("range_not_satisfiable", client.request("GET", target, "", {{"Range", "bytes=100-"}}));
        const auto same = client.request("GET", target, "", {{"If-None-Match", "*"}});
        recorder.keep("getFile", same.status, same.header("content-type"), same.body);
        const HeaderList stream{{"Accept", "text/event-stream"}};
        const auto written =
            client.request("PUT", recorder.target("putFile", plan), "# Plan of June\n", stream);
        recorder.keep("putFile", written.status, written.header("content-type"), written.body);
        call("changeFile", plan, {{"op", "copy"}, {"to", "notes/draft.md"}}, stream);
        call("deleteFile", {{"id", sandbox}, {"path", "notes/draft.md"}}, nullptr, stream);
        call("changeFile", plan, {{"op", "copy"}, {"to", "notes/plan-2.md"}});
        call("changeFile", {{"id", sandbox}, {"path", "notes/plan-2.md"}},
             {{"op", "move"}, {"to", "notes/old/plan.md"}});
        const std::string here = "/v1/sandboxes/" + sandbox;
        file_problems(client, here + "/files/");
        const auto archive = client.request("GET", here + "/archive?path=notes");
        recorder.keep_parameters("getArchive", {{"id", sandbox}, {"path", "notes"}});
        recorder.keep("getArchive", archive.status, "", "");
        recorder.keep_parameters("putArchive", {{"id", sandbox}, {"path", "notes-2"}});
        const auto streamed =
            client.request("PUT", here + "/archive?path=notes-2", archive.body,
                           {{"Content-Type", "application/x-tar"}, {"Accept", "text/event-stream"}});
        recorder.keep("putArchive", streamed.status, streamed.header("content-type"), streamed.body);
        const auto unpacked = client.request("PUT", here + "/archive?path=notes-2", archive.body,
                                             {{"Content-Type", "application/x-tar"}});
        recorder.keep("putArchive", unpacked.status, unpacked.header("content-type"),
                      OrderedJson::parse(unpacked.body));
        problem("invalid_archive", client.request("PUT", here + "/archive", std::string(512, 'x')));
        watch(sandbox);
        call("deleteFile", {{"id", sandbox}, {"path", "notes"}, {"recursive", "1"}});
    }

    void watch(const std::string& sandbox) {
        const OrderedJson notes{{"id", sandbox}, {"path", "notes"}, {"named", 1}};
        HttpClient follower = api.connect();
        recorder.follow(follower, "watchFiles", notes, "changes", [&](const std::string& event) {
            if (event == "started")
                api.connect().request("POST", "/v1/sandboxes/" + sandbox + "/files/notes/new",
                                      R"({"op":"mkdir"})", {{"Content-Type", "application/json"}});
        });
    }

    void put_file(const OrderedJson& parameters, const std::string& text) {
        HttpClient client = api.connect();
        const auto made = client.request("PUT", recorder.target("putFile", parameters), text,
                                         {{"Content-Type", "text/markdown"}});
        recorder.keep_parameters("putFile", parameters);
        recorder.keep("putFile", made.status, made.header("content-type"), OrderedJson::parse(made.body));
    }

    void file_problems(HttpClient& client, const std::string& files) {
        const auto post = [&](const std::string& path, const char* body) {
            return client.request("POST", files + path, body);
        };
        problem("file_not_found", client.request("GET", files + "nothing"));
        problem("is_directory", client.request("GET", files + "notes"));
        problem("not_a_directory", client.request("GET", files + "notes/plan.md?list=1"));
        problem("outside_workspace", client.request("GET", files + "../etc/passwd"));
        problem("invalid_path", client.request("GET", files + std::string(256, 'n')));
        problem("already_exists", post("notes/plan.md", R"({"op":"move","to":"notes"})"));
        problem("directory_not_empty", client.request("DELETE", files + "notes"));
        problem("precondition_failed",
                client.request("PUT", files + "notes/plan.md", "x", {{"If-None-Match", "*"}}));
    }

    void tools(const std::string& sandbox) {
        call("listTools", {{"format", "json-schema"}});
        const OrderedJson context{{"toolCallId", "call_1"}, {"userId", "alice"}};
        call("callTool", {{"name", "read_file"}},
             {{"sandboxId", sandbox},
              {"args", {{"absolute_path", "/workspace/sales.csv"}}},
              {"context", context}});
        call("callTool", {{"name", "write_file"}},
             {{"sandboxId", sandbox},
              {"args", {{"file_path", "/workspace/sales.csv"}, {"content", "month,sum\nMay,1877\n"}}},
              {"context", context}},
             {{"Accept", "text/event-stream"}});
    }

    void processes(const std::string& sandbox) {
        // A terminal shows what it likes when it likes: the output is another process's.
        const std::string path = "/v1/sandboxes/" + sandbox + "/processes";
        const std::string echo = api.call(201, "POST", path, R"({"argv":["echo","hello"]})")["processId"];
        HttpClient reader(api.connect());
        const std::string output = path + "/" + echo + "/output?named=1";
        const auto streamed = reader.request("GET", output, "", {{"Accept", "text/event-stream"}});
        const auto page = reader.request("GET", output);
        const std::string process = OrderedJson::parse(call("startProcess", {{"id", sandbox}},
                                                            {{"argv", {"bash", "-i"}},
                                                             {"tag", "shell"},
                                                             {"env", {{"PS1", "$ "}}},
                                                             {"pty", {{"cols", 80}, {"rows", 24}}}})
                                                           .body)["processId"];
        OrderedJson which{{"id", sandbox}, {"processId", process}};
        call("getProcess", which);
        call("listProcesses", {{"id", sandbox}, {"tag", "shell"}});
        call("resizeProcess", which, {{"cols", 132}, {"rows", 50}});
        call("signalProcess", which, {{"signal", "SIGWINCH"}});
        const OrderedJson input{{"id", sandbox}, {"processId", process}, {"eof", "0"}};
        const auto written = reader.request("POST", recorder.target("writeToProcess", input), "clear\n");
        recorder.keep_parameters("writeToProcess", input);
        recorder.keep("writeToProcess", 200, "application/json", OrderedJson::parse(written.body));
        process_socket(which);
        which.update({{"after", 0}, {"named", 1}});
        recorder.keep_parameters("getProcessOutput", which);
        recorder.keep("getProcessOutput", page.status, "application/json", OrderedJson::parse(page.body));
        recorder.keep("getProcessOutput", streamed.status, "text/event-stream",
                      streamed.body.substr(streamed.body.find("id: ")));
        const std::string signal = path + "/" + process + "/signal";
        problem("process_ended", reader.request("POST", signal, R"({"signal":"SIGTERM"})"));
    }

    void kept_processes(const std::string& sandbox) {
        const std::string path = "/v1/sandboxes/" + sandbox + "/processes";
        const std::string form = R"({"argv":["sleep","1000"],"restart":"generation"})";
        for (int i = 0; i < 8; ++i)
            (void)api.call(201, "POST", path, form);
        problem("too_many_kept_processes", api.connect().request("POST", path, form));
    }

    void process_socket(const OrderedJson& which) {
        OrderedJson parameters = which;
        parameters["after"] = 0;
        WebSocketClient client(api.connect(), recorder.target("openProcess", parameters));
        const OrderedJson started = OrderedJson::parse(client.next_text());
        const OrderedJson frame{{"type", "signal"}, {"signal", "SIGKILL"}};
        client.send_text(frame.dump());
        client.await_close();
        recorder.keep_parameters("openProcess", parameters);
        recorder.keep("openProcess", 101, "application/json", {{"client", frame}, {"server", started}});
    }

    void server_itself() {
        for (const char* operation : {"getHealth", "getReadiness", "listAgents", "getSystem"})
            call(operation);
        const auto described = OrderedJson::parse(api.connect().request("GET", "/openapi.json").body);
        OrderedJson head{{"openapi", described["openapi"]}, {"info", described["info"]}};
        head["info"].erase("description");
        recorder.keep("getOpenApi", 200, "application/json", head);
        metrics();
        for (const char* page : {"getDocs", "getConsole"})
            cut_call(page, {});
        for (const char* file : {"app.mjs", "console.css", "icon.svg", "index.html"})
            cut_call("getConsoleFile", {{"file", file}});
    }

    void metrics() {
        const auto response = api.connect().request("GET", "/metrics");
        std::istringstream lines(response.body);
        std::string kept;
        for (std::string line; std::getline(lines, line);)
            if (line.find("atoll_conversations_counted") != std::string::npos)
                kept += line + '\n';
        recorder.keep("getMetrics", response.status, response.header("content-type"), kept);
    }

    /// Records the first line of a long file.
    void cut_call(const std::string& operation, const OrderedJson& parameters) {
        const auto response = api.connect().request("GET", recorder.target(operation, parameters));
        recorder.keep_parameters(operation, parameters);
        recorder.keep(operation, response.status, response.header("content-type"),
                      response.body.substr(0, response.body.find('\n') + 1));
    }

    void problem(const std::string& code, const HttpResponse& response) { recorder.problem(code, response); }

    std::string id;
    OrderedJson one;
};

}  // namespace

// Over 5 s: they are all that the API does, one after the other.
TEST_CASE("The examples of the OpenAPI document are what the server says") {
    Walk walk;
    const OrderedJson document = document_of(walk.server);
    walk.perform();
    WrongRequests(walk.recorder).perform();
    hit_client_limits(walk.recorder);
    const OrderedJson& now = walk.recorder.examples();
    check_complete(document, now["operations"]);
    std::set<std::string> told;
    for (const auto& [code, example] : document["components"]["examples"].items())
        told.insert(code);
    std::set<std::string> met = k_not_at_will;
    for (const auto& [code, example] : now["problems"].items())
        met.insert(code);
    for (const std::string& code : told) {
        INFO("a request that gets it belongs into tests/integration/examples_test.cpp");
        CHECK((met.contains(code) ? "" : code) == "");
    }
    if (std::getenv("ATOLL_RECORD_EXAMPLES") != nullptr) {
        std::ofstream(k_file) << now.dump(1) << '\n';
        return;
    }
    const OrderedJson stored = OrderedJson::parse(std::ifstream(k_file));
    check_examples(stored["operations"], now["operations"], "operation");
    check_examples(stored["problems"], now["problems"], "problem");
    // The server was built with this file.
    for (const auto& [code, example] : stored["problems"].items())
        if (told.contains(code))
            CHECK(document["components"]["examples"][code]["value"] == example);
}

}  // namespace examples_test
