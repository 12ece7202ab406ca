// The filesystem tools over HTTP where something is missing or takes long: room for a process, a sandbox that
// starts; and what else tells of a call: named frames, the conversation's log.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/integration/tool_calls.hpp"

namespace tool_bounds_test {

using namespace atl::test;

TEST_CASE("The stream of a call names its frames for a client that asks for it") {
    const ServerProcess server;
    ApiClient api(server);
    const auto named = [&](const Json& body, const std::string& query) {
        const auto answer = api.http().request("POST", "/v1/tools/list_directory" + query, body.dump(),
                                               {{"Accept", "text/event-stream"}});
        std::string names;
        for (std::size_t at = 0; (at = answer.body.find("event: ", at)) != std::string::npos; at += 7)
            names += answer.body.substr(at + 7, answer.body.find('\n', at) - at - 7) + " ";
        return names;
    };
    const Json body = body_of(api.create()["sandboxId"], {{"path", "."}});
    CHECK(named(body, "?named=1") == "tool_progress tool_result ");
    CHECK(named({{"args", Json::object()}}, "?named=1") == "tool_result ");
    CHECK(named(body, "?named=0").empty());
    CHECK(named(body, "").empty());
    api.call(422, "POST", "/v1/tools/list_directory?named=2", body.dump());
}

TEST_CASE("A call that takes long is in the log of its conversation, with its end") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    Json slow = body_of(made["sandboxId"], {{"pattern", "a"}, {"include", "{none}"}});
    slow["context"] = {{"toolCallId", "call_7"}};
    std::vector<Json> told;
    // More to search until it takes long.
    for (long bytes = 2'000'000; told.empty() && bytes < 500'000'000; bytes *= 3) {
        api.message(made["id"], "yes a | head -c " + std::to_string(bytes) + " > f");
        CHECK(run(api.http(), "search_file_content", slow)["data"]["matchCount"] == 0);
        for (const Json& event : api.events(made["id"]))
            if (event["type"] == "tool_progress")
                told.push_back(event["data"]);
    }
    REQUIRE(told.size() >= 2);
    CHECK(told.front() ==
          Json::parse(R"({"toolCallId":"call_7","toolName":"search_file_content","status":"running",
        "progress":null,"message":"0 matches so far"})"));
    CHECK(told.back()["status"] == "completed");
    CHECK(told.back()["message"] == "");
    // A short one is not.
    run(api.http(), "list_directory", body_of(made["sandboxId"], {{"path", "."}}));
    CHECK(types(api.events(made["id"])).ends_with("tool_progress"));
}

TEST_CASE(
    "At the limit of processes the tools that need ripgrep say so; with room for one process they work") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox =
        api.call(201, "POST", "/v1/sandboxes", R"({"limits":{"maxProcesses":16}})")["id"];
    run(api.http(), "write_file", body_of(sandbox, {{"path", "a.txt"}, {"content", "one\n"}}));
    const std::string processes = "/v1/sandboxes/" + sandbox + "/processes";
    std::string last;
    HttpResponse answer;
    for (int i = 0; i < 40 && answer.status != 503; ++i) {
        answer = api.http().request("POST", processes, R"({"argv":["sleep","1000"]})");
        if (answer.status == 201)
            last = Json::parse(answer.body)["processId"];
    }
    REQUIRE(answer.status == 503);
    const auto searched = [&](const std::string& tool) {
        return run(api.http(), tool, body_of(sandbox, {{"pattern", tool == "glob" ? "*.txt" : "one"}}));
    };
    for (const char* tool : {"glob", "search_file_content"}) {
        const Json full = searched(tool);
        CHECK(full["technicalDetails"]["errorCode"] == "TOOL_UNAVAILABLE");
        CHECK(full["technicalDetails"]["error"].get<std::string>().find("limit of processes") !=
              std::string::npos);
    }
    CHECK(run(api.http(), "read_file", body_of(sandbox, {{"path", "a.txt"}}))["success"] == true);
    api.call(204, "POST", processes + "/" + last + "/signal", R"({"signal":"SIGKILL"})");
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (searched("glob")["success"] != true && std::chrono::steady_clock::now() < deadline) {
    }
    CHECK(searched("glob")["data"]["count"] == 1);
    CHECK(searched("search_file_content")["data"]["matchCount"] == 1);
}

TEST_CASE("A person's own list of ignored files in HOME hides nothing from a search") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    api.message(made["id"], "mkdir -p .config/git; echo '*.txt' > .config/git/ignore; echo one > a.txt");
    CHECK(run(api.http(), "glob", body_of(made["sandboxId"], {{"pattern", "*.txt"}}))["data"]["count"] == 1);
}

TEST_CASE("A sandbox that cannot be started is the result SANDBOX_UNAVAILABLE, which says why") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause", "{}");
    const auto workspace = server.data_dir() / "workspaces" / made["sandboxId"].get<std::string>();
    REQUIRE(std::filesystem::exists(workspace));
    std::filesystem::rename(workspace, server.data_dir() / "elsewhere");
    const Json body = body_of(made["sandboxId"], {{"path", "."}});
    const Json lost = run(api.http(), "list_directory", body);
    CHECK(lost["technicalDetails"]["errorCode"] == "SANDBOX_UNAVAILABLE");
    CHECK(lost["technicalDetails"]["error"].get<std::string>().starts_with(
        "The sandbox is not available now: "));
    const auto streamed = api.http().request("POST", "/v1/tools/list_directory", body.dump(),
                                             {{"Accept", "text/event-stream"}});
    REQUIRE(streamed.status == 200);
    CHECK(frames(streamed.body).back()["result"]["technicalDetails"]["errorCode"] == "SANDBOX_UNAVAILABLE");
    std::filesystem::rename(server.data_dir() / "elsewhere", workspace);
    CHECK(run(api.http(), "list_directory", body)["success"] == true);
}

}  // namespace tool_bounds_test
