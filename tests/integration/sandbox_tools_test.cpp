// Code mode over the real server: the tools of a sandbox under policies of the caller.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/api_client.hpp"

namespace sandbox_tools_test {

using namespace atl::test;

namespace {

const HeaderList k_stream = {{"Accept", "text/event-stream"}};

struct Lab {
    /// A program that writes `name`, with these policies for write_file, one after the other.
    Json form(const std::string& name, const std::vector<std::string>& policies) {
        Json tools = Json::array();
        for (const std::string& policy : policies)
            tools.push_back({{"name", "write_file"}, {"policy", policy}});
        return {{"code", "made = await codemode.write_file({'file_path': '/workspace/" + name +
                             "', 'content': 'new'})\nreturn made['success']"},
                {"language", "python"},
                {"tools", tools}};
    }
    /// Begins it on `client`; the data of its tool_call, with the path of the call.
    Json asked(HttpClient& client, const Json& form) {
        REQUIRE(client.open_stream("POST", path + "/execute", form.dump(), k_stream).status == 200);
        const std::vector<Json> events = read_until(client, "tool_call");
        Json call = events.back()["data"];
        call["path"] = "/v1/executions/" + events.front()["data"]["executionId"].get<std::string>() +
                       "/calls/" + call["callId"].get<std::string>();
        return call;
    }
    HttpResponse file(const std::string& name) { return api.http().request("GET", path + "/files/" + name); }

    ServerProcess server;
    ApiClient api{server};
    const std::string path =
        "/v1/sandboxes/" + api.create({{"agent", "shell"}})["sandboxId"].get<std::string>();
};

}  // namespace

TEST_CASE("A tool of the sandbox that the caller asks about runs once it is allowed, and not if it is denied",
          "[execute]") {
    Lab lab;
    HttpClient client = lab.api.connect();
    const Json call = lab.asked(client, lab.form("a.txt", {"ask"}));
    CHECK(call["name"] == "write_file");
    CHECK(call["policy"] == "ask");
    CHECK(call["answeredBy"] == "sandbox");
    CHECK(call["args"][0]["file_path"] == "/workspace/a.txt");
    CHECK(lab.file("a.txt").status == 404);
    lab.api.call(422, "POST", call["path"], R"({"result":{"success":true}})");
    lab.api.call(204, "POST", call["path"], R"({"decision":"allow"})");
    const Json result = read_until(client, "done").front()["data"];
    INFO(result.dump());
    CHECK(result["result"] == true);
    CHECK(result["calls"][0]["status"] == "answered");
    CHECK(lab.file("a.txt").body == "new");

    HttpClient other = lab.api.connect();
    const Json second = lab.asked(other, lab.form("b.txt", {"ask"}));
    lab.api.call(204, "POST", second["path"], R"({"decision":"deny"})");
    CHECK(read_until(other, "done").front()["data"]["error"]["kind"] == "denied");
    CHECK(lab.file("b.txt").status == 404);
}

TEST_CASE("A tool of the sandbox that the caller denies is refused, and of two policies the stronger holds",
          "[execute]") {
    Lab lab;
    // Nobody has to answer: neither a stream nor `detached`.
    for (const std::vector<std::string>& policies :
         {std::vector<std::string>{"deny"}, {"ask", "deny", "allow"}}) {
        const Json result =
            lab.api.call(200, "POST", lab.path + "/execute", lab.form("c.txt", policies).dump());
        INFO(result.dump());
        CHECK(result["error"]["kind"] == "denied");
        CHECK(result["calls"][0]["status"] == "denied");
        CHECK(lab.file("c.txt").status == 404);
    }
    const Json allowed =
        lab.api.call(200, "POST", lab.path + "/execute", lab.form("c.txt", {"allow"}).dump());
    CHECK(allowed["result"] == true);
    CHECK(lab.file("c.txt").body == "new");
    const Json unattended =
        lab.api.call(422, "POST", lab.path + "/execute", lab.form("c.txt", {"allow", "ask"}).dump());
    CHECK(unattended["pointer"] == "/detached");
}

TEST_CASE("A program runs commands only where run_command is named, and not where it is off", "[execute]") {
    Lab lab;
    const auto execute = [&](const std::string& path, const Json& names) {
        Json form = {{"code",
                      "ran = await codemode.run_command({'command': 'echo $((40 + 2)); exit 3'})\n"
                      "return [ran['success'], ran.get('data', {}).get('stdout'), "
                      "ran.get('data', {}).get('exitCode')]"},
                     {"language", "python"}};
        if (!names.is_null())
            form["sandboxTools"] = names;
        return lab.api.call(200, "POST", path + "/execute", form.dump());
    };
    const Json named = execute(lab.path, Json::array({"run_command"}));
    INFO(named.dump());
    CHECK(named["result"] == Json::parse(R"([true,"42\n",3])"));
    CHECK(execute(lab.path, nullptr)["error"]["kind"] == "runtime");
    const std::string off =
        lab.api.create({{"agent", "shell"}, {"tools", {{"runCommand", false}}}})["sandboxId"];
    CHECK(execute("/v1/sandboxes/" + off, Json::array({"run_command"}))["result"][0] == false);
}

}  // namespace sandbox_tools_test
