// Work whose cost grows with something else than its number: one client sends what is short and takes long.
// The control of each attack is the same input within the bound: it reaches the work.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/websocket_client.hpp"

namespace cost_test {

using namespace atl::test;

namespace {

/// A list of `count` times `value`.
std::string list_of(std::size_t count, const char* value) {
    std::string text = "[";
    for (std::size_t i = 0; i < count; ++i)
        text.append(i == 0 ? "" : ",").append(value);
    return text + "]";
}

std::string object_of(std::size_t count) {
    std::string text = "{";
    for (std::size_t i = 0; i < count; ++i)
        text.append(i == 0 ? "\"" : ",\"").append(std::to_string(i)).append("\":0");
    return text + "}";
}

/// The pieces of work that the process that checks has done.
std::uint64_t checks_done(Lab& lab) {
    const std::string name = "atoll_helper_task_duration_seconds_count{task=\"check\"} ";
    const std::string metrics = lab.api.http().request("GET", "/metrics").body;
    const auto at = metrics.find(name);
    REQUIRE(at != std::string::npos);
    return std::stoul(metrics.substr(at + name.size()));
}

/// A run of a program in Python, whose engine each host has.
Json python(const std::string& code) {
    return {{"language", "python"}, {"code", code}, {"maxOutputBytes", 4UL * 1024 * 1024}};
}

}  // namespace

TEST_CASE("JSON of many small values is refused by each route before it is parsed", "[redteam][drawn]") {
    Lab lab(Privilege::as_started);
    Sandbox greedy(lab);
    const std::string conversation = "/v1/conversations/" + greedy.id();
    const std::string sandbox = "/v1/sandboxes/" + greedy.sandbox_id();
    const std::pair<const char*, std::string> routes[] = {{"POST", "/v1/conversations"},
                                                          {"PATCH", conversation},
                                                          {"POST", conversation + "/messages"},
                                                          {"POST", conversation + "/tokens"},
                                                          {"POST", "/v1/sandboxes"},
                                                          {"POST", sandbox + "/exec"},
                                                          {"POST", sandbox + "/processes"},
                                                          {"POST", sandbox + "/tokens"},
                                                          {"POST", "/v1/execute"}};
    const auto answer = [&](const auto& route, const std::string& value, const char* end = "}") {
        const std::string body = "{\"surprise\":" + value + end;
        return code_of(lab.api.http().request(route.first, route.second, body));
    };
    for (const auto& route : routes) {
        INFO(route.first << ' ' << route.second);
        // The control: what is within the bound is read, and refused for its members.
        CHECK(answer(route, list_of(8'000, "{}")).ends_with("_field"));
        CHECK(answer(route, object_of(1'000)).ends_with("_field"));
        CHECK(answer(route, list_of(340'000, "{}")) == "body_too_large");
        CHECK(answer(route, list_of(500'000, "0")) == "body_too_large");
        CHECK(answer(route, object_of(90'000)) == "body_too_large");
        // Nobody has read to the end of what is refused: what comes there is no JSON. The body of a run is
        // read by another process.
        if (route.second == "/v1/execute")
            continue;
        CHECK(answer(route, list_of(8'000, "{}"), "!") == "invalid_json");
        CHECK(answer(route, list_of(340'000, "{}"), "!") == "body_too_large");
        CHECK(answer(route, object_of(90'000), "!") == "body_too_large");
    }
}

TEST_CASE("JSON of many small values in a frame of a WebSocket is refused before it is parsed",
          "[redteam][drawn]") {
    Lab lab(Privilege::as_started);
    const std::string id = lab.api.create()["id"];
    WebSocketClient client(lab.api.connect(), "/v1/conversations/" + id + "/ws");
    // The code of the answer to a frame, which events of the conversation may precede.
    const auto answer = [&](const std::string& value, const char* end) {
        client.send_text("{\"surprise\":" + value + end);
        for (;;) {
            const Json frame = Json::parse(client.next_text());
            if (frame["type"] == "rejected")
                return frame["code"].get<std::string>();
        }
    };
    CHECK(answer(list_of(8'000, "{}"), "!") == "invalid_json");
    CHECK(answer(list_of(100'000, "{}"), "!") == "body_too_large");
    CHECK(answer(object_of(50'000), "!") == "body_too_large");
    CHECK(answer(object_of(1'000), "}") == "unknown_field");
}

TEST_CASE("Tools with more values than the server parses itself are read by another process",
          "[redteam][drawn]") {
    Lab lab(Privilege::as_started);
    const auto declare = [&](const std::string& values) {
        return lab.api.http().request("POST", "/v1/executors/prompt",
                                      R"({"tools":[{"name":"pick","inputSchema":{"enum":)" + values + "}}]}");
    };
    // It checks and declares each, and first reads those that are too many.
    CHECK(declare(list_of(7'000, "1")).status == 200);
    CHECK(checks_done(lab) == 2);
    CHECK(declare(list_of(20'000, "1")).status == 200);
    CHECK(checks_done(lab) == 5);
    CHECK(code_of(declare(list_of(300'000, "{}"))) == "invalid_field");
}

TEST_CASE("Comparisons of a call's arguments end at their bound, and the process that checks goes on",
          "[redteam][drawn]") {
    Lab lab(Privilege::as_started);
    // A call with so many items, which the schema compares so often. The event behind the start: the call, if
    // its arguments fit, else the result, which is what the program was told.
    const auto call = [&](int times, int items) {
        Json all = Json::array();
        for (int i = 0; i < times; ++i)
            all.push_back({{"uniqueItems", true}});
        const Json schema{{"properties", {{"a", {{"allOf", all}}}}}};
        Json body = python("try:\n    await codemode.pick({'a': list(range(" + std::to_string(items) +
                           "))})\nexcept Exception as error:\n    return str(error)");
        body["tools"].push_back({{"name", "pick"}, {"inputSchema", schema}});
        body["detached"] = true;
        const Json begun = lab.api.call(202, "POST", "/v1/execute", body.dump());
        const std::string path = "/v1/executions/" + begun["executionId"].get<std::string>();
        Json seen;
        CHECK(eventually([&] {
            seen = lab.api.call(200, "GET", path + "/events?after=1")["events"];
            return !seen.empty();
        }));
        Json first = seen.at(0);
        first["data"].erase("args");
        return first.dump();
    };
    // The server itself compares five items, and no more than takes it little time.
    CHECK(call(60, 5).find("\"tool_call\"") != std::string::npos);
    CHECK(checks_done(lab) == 0);
    CHECK(call(60, 90).find("\"tool_call\"") != std::string::npos);
    CHECK(checks_done(lab) == 1);
    const std::string control = call(1, 30'000);
    CHECK(control.find("\"tool_call\"") != std::string::npos);
    const std::string refused = call(60, 30'000);
    INFO(refused);
    CHECK(refused.find("more work than") != std::string::npos);
    const std::string metrics = lab.api.http().request("GET", "/metrics").body;
    CHECK(metrics.find("atoll_helper_timeouts_total{task=\"check\"} 0") != std::string::npos);
}

TEST_CASE("Frames of a runner are charged whole: what is not passed on ends its run", "[redteam][drawn]") {
    Lab lab(Privilege::as_started);
    // 200 logs of 15,000 bytes that a program sends in the runner's place.
    const auto logs_with = [&](const std::string& fields) {
        const Json body = python(
            "import gc\n"
            "channel = next(one for one in gc.get_objects() if type(one).__name__ == 'Channel')\n"
            "for _ in range(200):\n"
            "    channel.send('log', level='log', " +
            fields + ")\nreturn 7");
        return lab.api.call(200, "POST", "/v1/execute", body.dump());
    };
    // The control: as a text, which is passed on.
    const Json control = logs_with("text='x' * 15000");
    CHECK(control["result"] == 7);
    CHECK(control["logs"].size() == 200);
    const Json refused = logs_with("text='', pad='x' * 15000");
    CHECK(refused["error"]["kind"] == "protocol");
    CHECK(refused["logs"].size() < 100);
}

}  // namespace cost_test
