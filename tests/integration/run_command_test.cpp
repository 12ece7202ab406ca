// The tool run_command over HTTP: it runs, ends in time, ends with its client, and can be switched off.
#include <catch2/catch_test_macros.hpp>

#include "tests/integration/route_walk.hpp"
#include "tests/integration/tool_calls.hpp"
#include "tests/support/deadline.hpp"

namespace run_command_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

struct CommandLab {
    Json run_command(const Json& args) { return run(api.http(), "run_command", body_of(sandbox, args)); }
    Json shell(const std::string& command) { return run_command({{"command", command}}); }
    std::string code(const Json& args) { return run_command(args)["technicalDetails"]["errorCode"]; }

    ServerProcess server;
    ApiClient api{server};
    const std::string sandbox = api.create()["sandboxId"];
};

/// The names of the tools of a list in the form `json-schema`.
std::string tool_names(const Json& list) {
    std::string names;
    for (const Json& tool : list["tools"])
        names += tool["name"].get<std::string>() + " ";
    return names;
}

}  // namespace

TEST_CASE("A model runs commands: any exit code is a success, and of long output both ends are kept") {
    CommandLab lab;
    const Json failed = lab.shell("echo out; echo err >&2; exit 3");
    INFO(failed.dump());
    CHECK(failed["success"] == true);
    CHECK(failed["data"]["exitCode"] == 3);
    CHECK(failed["data"]["signal"] == nullptr);
    CHECK(failed["data"]["stdout"] == "out\n");
    CHECK(failed["data"]["stderr"] == "err\n");
    CHECK(failed["data"]["truncated"] == Json{{"stdout", false}, {"stderr", false}});
    CHECK(failed["data"]["durationMs"].is_number_unsigned());
    const Json large = lab.shell("seq 400000");
    CHECK(large.dump().size() < 60'000);
    CHECK(large["data"]["truncated"]["stdout"] == true);
    CHECK(large["data"]["stdout"].get<std::string>().starts_with("1\n2\n"));
    CHECK(large["data"]["stdout"].get<std::string>().ends_with("\n399999\n400000\n"));
    CHECK(lab.shell("kill -9 $$")["data"]["signal"] == "SIGKILL");
}

TEST_CASE("A command runs where `cwd` says, within its time, and is refused for what it does not take") {
    CommandLab lab;
    lab.shell("mkdir -p src; touch file");
    for (const char* cwd : {"src", "/workspace/src"})
        CHECK(lab.run_command({{"command", "pwd"}, {"cwd", cwd}})["data"]["stdout"] == "/workspace/src\n");
    CHECK(lab.shell("pwd")["data"]["stdout"] == "/workspace\n");
    for (const char* cwd : {"nowhere", "file"})
        CHECK(lab.code({{"command", "pwd"}, {"cwd", cwd}}) == "NOT_A_DIRECTORY");
    CHECK(lab.code({{"command", "pwd"}, {"cwd", "/etc"}}) == "OUTSIDE_WORKSPACE");
    CHECK(lab.code({{"command", "pwd"}, {"timeout", 5}}) == "INVALID_ARGUMENTS");
    CHECK(lab.code({{"cmd", "pwd"}}) == "INVALID_ARGUMENTS");
    const Json late = lab.run_command({{"command", "sleep 1008; true"}, {"timeoutMs", 100}});
    CHECK(late["success"] == true);
    CHECK(late["data"]["timedOut"] == true);
    CHECK(late["warnings"].size() == 1);
    CHECK(eventually([&] { return lab.shell("pgrep -f 'sleep 100[8]'")["data"]["exitCode"] == 1; }));
}

TEST_CASE("A command streams like every tool, and ends with its client") {
    CommandLab lab;
    const HeaderList stream = {{"Accept", "text/event-stream"}};
    const Json body = body_of(lab.sandbox, {{"command", "echo hello"}, {"description", "Greet"}});
    const auto seen =
        frames(lab.api.http().request("POST", "/v1/tools/run_command", body.dump(), stream).body);
    REQUIRE(seen.size() >= 2);
    CHECK(seen.front()["status"] == "started");
    CHECK(seen.back()["type"] == "tool_result");
    CHECK(seen.back()["result"]["data"]["stdout"] == "hello\n");
    CHECK(seen.back()["result"]["userFeedback"] == "Greet: exit code 0.");

    HttpClient client = lab.api.connect();
    const Json slow = body_of(lab.sandbox, {{"command", "sleep 1009; true"}});
    REQUIRE(client.open_stream("POST", "/v1/tools/run_command", slow.dump(), stream).status == 200);
    CHECK(eventually([&] { return lab.shell("pgrep -f 'sleep 100[9]'")["data"]["exitCode"] == 0; }));
    client.close();
    CHECK(eventually([&] { return lab.shell("pgrep -f 'sleep 100[9]'")["data"]["exitCode"] == 1; }));
}

TEST_CASE("Commands are switched off by the conversation, and are then in no list of its tools") {
    const ServerProcess server;
    ApiClient api(server);
    const Json off = api.create({{"tools", {{"runCommand", false}}}});
    const Json on = api.create();
    CHECK(off["tools"]["runCommand"] == false);
    CHECK(on["tools"]["runCommand"] == true);
    const std::string sandbox = off["sandboxId"];
    const auto command = [&] {
        return run(api.http(), "run_command", body_of(sandbox, {{"command", "touch x"}}));
    };
    const auto names = [&](const std::string& query) {
        return tool_names(api.call(200, "GET", "/v1/tools" + query));
    };
    const Json refused = command();
    CHECK(refused["success"] == false);
    CHECK(refused["technicalDetails"]["errorCode"] == "TOOL_DISABLED");
    CHECK(run(api.http(), "list_directory", body_of(sandbox, {{"path", "."}}))["data"]["count"] == 0);
    CHECK(names("?sandboxId=" + sandbox) ==
          "list_directory read_file write_file replace search_file_content glob ");
    CHECK(names("").ends_with(" run_command "));
    CHECK(names("?sandboxId=" + on["sandboxId"].get<std::string>()) == names(""));
    api.call(200, "PATCH", "/v1/conversations/" + off["id"].get<std::string>(),
             R"({"tools":{"runCommand":true}})");
    CHECK(command()["success"] == true);
    CHECK(names("?sandboxId=" + sandbox) == names(""));
    const Json alone = api.call(201, "POST", "/v1/sandboxes", R"({"tools":{"runCommand":false}})");
    CHECK(alone["tools"] == Json::parse(R"({"readBeforeEdit":false,"runCommand":false})"));
    const std::string path = "/v1/sandboxes/" + alone["id"].get<std::string>();
    CHECK(run(api.http(), "run_command",
              body_of(alone["id"], {{"command", "true"}}))["technicalDetails"]["errorCode"] ==
          "TOOL_DISABLED");
    CHECK(api.call(200, "PATCH", path, R"({"tools":{"runCommand":true}})")["tools"]["runCommand"] == true);
    CHECK(run(api.http(), "run_command", body_of(alone["id"], {{"command", "true"}}))["success"] == true);
    CHECK(api.call(200, "GET", "/v1/sandboxes/" + sandbox)["tools"] == nullptr);
    api.call(404, "GET", "/v1/tools?sandboxId=" + std::string(20, 'a'));
    const NewKey bob = add_key(server, {"web", "--user-id", "bob"});
    HttpClient his = client_with(server, bob.secret);
    CHECK(his.request("GET", "/v1/tools?sandboxId=" + sandbox).status == 404);
    CHECK(run(his, "run_command", body_of(sandbox, {{"command", "true"}})) == k_unavailable);
}

}  // namespace run_command_test
