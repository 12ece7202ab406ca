// A configured program that begins anew is told of the turns before it: after a pause, after an end of its
// own, after `kill -9` of the server.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/api_client.hpp"

namespace resume_test {

using namespace atl::test;

namespace {

/// Answers each message with what it was told, as a `message`; `die` and `hang` are what they say. It is
/// ready before it reads, as many agents are.
constexpr const char* k_attentive = R"(echo '{"ev":"ready"}'
while IFS= read -r line; do
  case $line in
    '{"cmd":"resume"'*) told=$told$line ;;
    '{"cmd":"query"'*'"prompt":"die"'*) exit 3 ;;
    '{"cmd":"query"'*'"prompt":"hang"'*) printf '{"ev":"text_delta","data":{"delta":"so far"}}\n' ;;
    '{"cmd":"query"'*)
      printf '{"ev":"text_delta","data":{"delta":"an "}}\n{"ev":"text_delta","data":{"delta":"answer"}}\n'
      printf '{"ev":"message","data":{"told":%s}}\n' "${told:-null}"
      printf '{"ev":"turn_complete","data":{"result":"success"}}\n{"ev":"done"}\n' ;;
    '{"cmd":"shutdown"'*) exit ;;
  esac
done
)";

/// Knows queries only, and reads nothing before the first one: a shutdown ends it by the end of its input.
constexpr const char* k_deaf = R"(echo '{"ev":"ready"}'
while IFS= read -r line; do
  case $line in '{"cmd":"query"'*) printf '{"ev":"text_delta","data":{"delta":"heard"}}\n{"ev":"done"}\n' ;; esac
done
)";

ServerOptions options_in(const TempDir& folder, std::vector<std::string> more = {}) {
    const auto agent = [](const char* name, const char* script) {
        return Json{{"name", name}, {"argv", {"bash", "-c", script}}};
    };
    const Json agents = {{"agents", {agent("attentive", k_attentive), agent("deaf", k_deaf)}}};
    std::ofstream(folder.path() / "agents.json") << agents.dump();
    ServerOptions options;
    options.data_dir = folder.path() / "data";
    std::filesystem::create_directories(options.data_dir);
    options.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    return options;
}

std::string begin(ApiClient& api, const std::string& agent) {
    return api.create({{"agent", agent}})["id"];
}

void pause(ApiClient& api, const std::string& id, const std::string& mode = "cold") {
    const Json body = {{"mode", mode}};
    api.call(200, "POST", "/v1/conversations/" + id + "/pause", body.dump());
}

/// The line that told the agent of the turns before this one; null if there was none.
Json told_in(const Turn& turn) {
    for (const Json& event : turn.events)
        if (event["type"] == "message")
            return event["data"]["told"];
    FAIL("the agent said nothing");
    return {};
}

Json past(const std::string& turn, const std::string& content, const std::string& text, const Json& result) {
    return {{"turn", turn}, {"content", content}, {"text", text}, {"result", result}};
}

}  // namespace

TEST_CASE("A program is told of the finished turns in each later generation, and only then") {
    const TempDir folder;
    const ServerProcess server(options_in(folder));
    ApiClient api(server);
    const std::string id = begin(api, "attentive");
    CHECK(told_in(api.message(id, "one")).is_null());
    pause(api, id);
    const Json told = told_in(api.message(id, "two"));
    CHECK(told == Json{{"cmd", "resume"},
                       {"sessionId", id},
                       {"generation", 2},
                       {"turns", {past("t1", "one", "an answer", "success")}}});
    CHECK(told_in(api.message(id, "three")) == told);
    const Turn died = api.message(id, "die");
    CHECK(died.errors == std::vector<std::string>{"agent_crashed"});
    api.await_status(id, "paused");
    api.call(200, "POST", "/v1/conversations/" + id + "/resume");
    const Json later = told_in(api.message(id, "four"));
    CHECK(later["generation"] == 3);
    CHECK(later["turns"] ==
          Json{past("t1", "one", "an answer", "success"), past("t2", "two", "an answer", "success"),
               past("t3", "three", "an answer", "success"), past("t4", "die", "", "agent_crashed")});
}

TEST_CASE("A program that was frozen goes on with what it knows") {
    const TempDir folder;
    const ServerProcess server(options_in(folder));
    ApiClient api(server);
    if (api.call(200, "GET", "/v1/system")["warmPause"] == "none")
        SKIP("no cgroup freezer on this host that this user may write to");
    const std::string id = begin(api, "attentive");
    api.message(id, "one");
    pause(api, id, "warm");
    CHECK(told_in(api.message(id, "two")).is_null());
}

TEST_CASE(
    "After kill -9 of the server a program is told of the turns before it, the one that was cut with them") {
    const TempDir folder;
    std::string id;
    {
        ServerProcess server(options_in(folder));
        ApiClient api(server);
        id = begin(api, "attentive");
        api.message(id, "one");
        HttpClient client = api.connect();
        client.open_stream("POST", "/v1/conversations/" + id + "/messages", R"({"content":"hang"})",
                           {{"Accept", "text/event-stream"}, {"Content-Type", "application/json"}});
        read_until(client, "text_delta");
        server.kill_hard();
    }
    const ServerProcess server(options_in(folder));
    ApiClient api(server);
    const Json told = told_in(api.message(id, "two"));
    CHECK(told["generation"] == 2);
    CHECK(told["turns"] ==
          Json{past("t1", "one", "an answer", "success"), past("t2", "hang", "so far", "server_restart")});
}

TEST_CASE("A long history is told in full lines, its newest turns within 256 KiB") {
    const TempDir folder;
    const ServerProcess server(options_in(folder));
    ApiClient api(server);
    const std::string id = begin(api, "attentive");
    for (int turn = 1; turn <= 4; ++turn)
        api.message(id, std::to_string(turn) + std::string(100'000, 'q'));
    pause(api, id);
    const Json told = told_in(api.message(id, "next"));
    CHECK(told.dump().size() < 256 * 1024);
    REQUIRE(told["turns"].size() == 2);
    CHECK(told["turns"][0]["turn"] == "t3");
    CHECK(told["turns"][1]["turn"] == "t4");
    CHECK(told["turns"][1]["content"].get<std::string>().size() == 100'001);
}

TEST_CASE("A program that ignores what it is told, and one that was started ahead, work as ever") {
    const TempDir folder;
    const ServerProcess server(options_in(folder, {"--pool", "deaf=1"}));
    ApiClient api(server);
    const std::string id = begin(api, "deaf");
    for (int generation = 1; generation <= 3; ++generation) {
        CHECK(api.message(id, "hello").output == "heard");
        CHECK(api.get(id)["generation"] == generation);
        pause(api, id);
    }
    CHECK(types(api.events(id)).find("error") == std::string::npos);
}

}  // namespace resume_test
