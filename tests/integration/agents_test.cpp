// Configured agents that misbehave: their own conversation reports it, the neighbour notices nothing.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/support/api_client.hpp"
#include "tests/support/paths.hpp"

namespace agents_test {

using namespace atl;
using namespace atl::test;

namespace {

/// A server with the hostile agent under several names, and a neighbour that must stay well.
struct Hostile {
    Hostile() : server(options()), api(server), neighbour(api.create()["id"]) {}
    ~Hostile() { CHECK(api.message(neighbour, "echo well").output == "well\n"); }
    Hostile(const Hostile&) = delete;
    Hostile& operator=(const Hostile&) = delete;

    ServerOptions options() {
        const auto agent = [](const std::string& name, const std::string& argument) {
            Json argv = {"/agent/hostile_agent"};
            if (!argument.empty())
                argv.push_back(argument);
            return Json{{"name", name}, {"argv", argv}, {"dir", test::build_path("agents")}};
        };
        const Json agents = {
            {"agents",
             {agent("hostile", ""), agent("never-ready", "never-ready"),
              agent("exit-at-start", "exit-at-start"), agent("ignore-shutdown", "ignore-shutdown"),
              Json{{"name", "once"},
                   {"argv",
                    {"bash", "-c", "[ -e tried ] && exit 4; touch tried; echo '{\"ev\":\"ready\"}'; cat"}}},
              Json{{"name", "missing"}, {"argv", {"/no/such/program"}}}}}};
        std::ofstream(folder.path() / "agents.json") << agents.dump();
        ServerOptions made;
        made.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
        return made;
    }
    std::string hostile() { return api.create({{"agent", "hostile"}})["id"]; }

    TempDir folder;
    ServerProcess server;
    ApiClient api;
    std::string neighbour;
};

std::size_t count(const Turn& turn, const std::string& type) {
    std::size_t found = 0;
    for (const auto& event : turn.events)
        found += event["type"] == type ? 1 : 0;
    return found;
}

}  // namespace

TEST_CASE("A well-behaved configured agent runs its turn") {
    Hostile world;
    const std::string id = world.hostile();
    const Turn turn = world.api.message(id, "ok");
    CHECK(turn.output == "after");
    CHECK(types(turn.events) == "turn_start text_delta turn_complete done");
}

TEST_CASE("An agent that dies in a turn ends it with an error and one done, and a message starts it afresh") {
    Hostile world;
    for (const std::string how : {"crash", "segv", "silent-exit", "children"}) {
        INFO(how);
        const std::string id = world.hostile();
        const Turn turn = world.api.message(id, how);
        CHECK(turn.errors == std::vector<std::string>{"agent_crashed"});
        CHECK(count(turn, "done") == 1);
        CHECK(world.api.await_status(id, "paused")["statusReason"] == "crash");
        CHECK(world.api.message(id, "ok").output == "after");
        CHECK(world.api.get(id)["generation"] == 2);
    }
}

TEST_CASE("Garbage from an agent is refused line by line and the turn goes on") {
    Hostile world;
    const std::string id = world.hostile();
    for (const std::string how : {"garbage", "binary", "unknown", "deep", "long-line"}) {
        INFO(how);
        const Turn turn = world.api.message(id, how);
        CHECK(turn.output == "after");
        CHECK_FALSE(turn.errors.empty());
        CHECK(turn.errors.size() <= 10);
        CHECK(count(turn, "done") == 1);
        CHECK(count(turn, "sandbox_terminated") == 0);
    }
    CHECK(world.api.get(id)["generation"] == 1);
}

TEST_CASE("A complaint about a line quotes it once escaped and lists what is allowed") {
    Hostile world;
    const std::string id = world.hostile();
    const Turn turn = world.api.message(id, "shapes");
    CHECK(turn.output == "after");
    std::vector<std::string> messages;
    for (const auto& event : turn.events)
        if (event["type"] == "error") {
            CHECK(event["data"]["code"] == "agent_protocol");
            messages.push_back(event["data"]["message"]);
        }
    REQUIRE(messages.size() == 4);
    CHECK(messages[0] ==
          R"(`delta` of `text_delta` is not a string; the line: {"ev":"text_delta","data":{"delta":7}}; )"
          R"(its `data` is {delta: string, stream?: "stdout"|"stderr"})");
    CHECK(messages[1].starts_with("`input` of `tool_use` is missing; the line: "));
    CHECK(
        messages[2].starts_with("`t\xc3\xa9xt\n\"x\"` is no event of an agent; the line: "
                                "{\"ev\":\"t\xc3\xa9xt\\n\\\"x\\\"\",\"data\":{}}; an event is "));
    CHECK(messages[3].starts_with(
        "a raw control character in an event; the line: say \"hi\" \\ \xc3\xa9\x1b[1m; an event is "));
    CHECK(messages[3].ends_with("tool_result, turn_complete, permission_request, permission_cancel, plan"));
    // The agent's own words are the bytes it wrote.
    const Turn words = world.api.message(id, "words");
    const HttpResponse log =
        world.api.connect().request("GET", "/v1/conversations/" + id + "/events?after=0&limit=1000");
    CHECK(log.body.find("{\"code\":\"mine\",\"message\":\"a \\\"b\\\"\\n\xc3\xa9 \\u00e9 \\\\\"}") !=
          std::string::npos);
    // A log line: escaped once, too.
    CHECK(world.server.log().find(R"(err="`t\xc3\xa9xt\n\"x\"` is no event)") != std::string::npos);
}

TEST_CASE("A turn ends with one done, whatever line the agent ends it with") {
    Hostile world;
    const std::string id = world.hostile();
    for (int number = 0; number < 9; ++number) {
        INFO(number);
        const Turn turn = world.api.message(id, "odd-done " + std::to_string(number));
        CHECK(count(turn, "done") == 1);
        CHECK(turn.events.back()["type"] == "done");
        const Turn next = world.api.message(id, "ok");
        CHECK(types(next.events) == "turn_start text_delta turn_complete done");
    }
    CHECK(world.api.get(id)["generation"] == 1);
}

// Over 5 s: each event of some 16 MB is stored, sent and parsed.
TEST_CASE("A flood of events is cut at the turn's bound, which says how much was dropped") {
    Hostile world;
    const std::string id = world.hostile();
    const bool is_full = std::getenv("ATOLL_TEST_FULL") != nullptr;
    const Turn turn =
        world.api.message(id, is_full ? "flood 1000000" : "flood 250000", std::chrono::seconds(280));
    REQUIRE(count(turn, "output_truncated") == 1);
    CHECK(count(turn, "done") == 1);
    std::size_t bytes = 0;
    for (const auto& event : turn.events)
        bytes += event.dump().size();
    CHECK(bytes < 17UL * 1024 * 1024);
    CHECK(bytes > 15UL * 1024 * 1024);
    const auto& truncated = turn.events[turn.events.size() - 2];
    CHECK(truncated["data"]["droppedBytes"].get<std::size_t>() > 1'000'000);
}

// Over 5 s: the deadline, k_interrupt_deadline, is 10 s.
TEST_CASE("An agent that ignores an interrupt loses its sandbox after the deadline") {
    Hostile world;
    const std::string id = world.hostile();
    HttpClient client = world.api.connect();
    const std::string target = "/v1/conversations/" + id;
    world.api.call(202, "POST", target + "/messages", R"({"content":"deaf"})");
    client.open_stream("GET", target + "/events?after=2", "", {{"Accept", "text/event-stream"}});
    world.api.call(200, "POST", target + "/interrupt");
    const Turn turn = summarise(read_until(client, "done"));
    CHECK(turn.errors == std::vector<std::string>{"interrupt_ignored"});
    CHECK(world.api.await_status(id, "paused")["statusReason"] == "crash");
}

TEST_CASE("An agent that cannot be started leaves nothing but a reason") {
    Hostile world;
    for (const std::string name : {"exit-at-start", "missing"}) {
        INFO(name);
        const HttpResponse answer =
            world.api.connect().request("POST", "/v1/conversations", Json{{"agent", name}}.dump());
        CHECK(answer.status == 502);
        CHECK(answer.header("retry-after").empty());
        const Json problem = Json::parse(answer.body);
        CHECK(problem["code"] == "agent_failed");
        // Escaped once: as JSON, by who wrote the answer.
        const std::string detail = problem["detail"];
        if (name == "exit-at-start")
            CHECK(detail ==
                  "the agent exited with status 3 before it was ready; its log ends: "
                  "cannot find my \"mod\xc3\xa9l\"");
        else
            CHECK(detail.starts_with("cannot run /no/such/program in /workspace: No such file or directory"));
    }
    CHECK(world.api.call(200, "GET", "/v1/conversations")["conversations"].size() == 1);
    CHECK(world.api.call(200, "GET", "/v1/sandboxes")["sandboxes"].size() == 1);
}

TEST_CASE("An agent that no longer starts fails a resume with 502 and a message with the same code") {
    Hostile world;
    const std::string id = world.api.create({{"agent", "once"}})["id"];
    const std::string target = "/v1/conversations/" + id;
    world.api.call(200, "POST", target + "/pause");
    const Json problem = world.api.call(502, "POST", target + "/resume");
    CHECK(problem["code"] == "agent_failed");
    CHECK(problem["detail"].get<std::string>().starts_with("the agent exited with status 4 before"));
    const Turn turn = world.api.message(id, "ok");
    CHECK(turn.errors == std::vector<std::string>{"agent_failed"});
    CHECK(count(turn, "done") == 1);
}

TEST_CASE("A conversation whose agent never gets ready can be deleted, which answers its creator") {
    Hostile world;
    HttpClient creator = world.api.connect();
    const std::string body = R"({"agent":"never-ready"})";
    creator.send_raw(
        "POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Authorization: Bearer " +
        world.server.key() + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    std::string id;
    for (int attempt = 0; attempt < 1000 && id.empty(); ++attempt) {
        const Json list = world.api.call(200, "GET", "/v1/conversations?status=starting");
        if (!list["conversations"].empty())
            id = list["conversations"][0]["id"];
    }
    REQUIRE_FALSE(id.empty());
    CHECK(world.api.call(409, "POST", "/v1/conversations/" + id + "/messages",
                         R"({"content":"x"})")["code"] == "conversation_starting");
    world.api.remove(id);
    const auto overtaken = creator.read_response();
    CHECK(overtaken.status == 409);
    CHECK(code_of(overtaken) == "conversation_ended");
}

TEST_CASE("An agent that ignores its shutdown does not outlive a deletion") {
    Hostile world;
    const std::string id = world.api.create({{"agent", "ignore-shutdown"}})["id"];
    const auto paused = world.api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    CHECK(paused["status"] == "paused");
    CHECK(world.api.message(id, "ok").output == "after");
    world.api.remove(id);
}

}  // namespace agents_test
