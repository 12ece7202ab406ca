// The log as the whole conversation: questions in it, the open turn, transcripts, titles.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/api_client.hpp"

namespace whole_log_test {

using namespace atl::test;

namespace {

/// Starts a turn that goes on until it is interrupted; its ticket.
Json begin_turn(ApiClient& api, const std::string& id, const std::string& content) {
    return api.call(202, "POST", "/v1/conversations/" + id + "/messages", Json{{"content", content}}.dump());
}

}  // namespace

TEST_CASE("A turn begins with its question, for everyone who reads the log") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string content = "quotes \" and \\ and \n and \xc3\xa4";
    const Json ticket = api.call(202, "POST", "/v1/conversations/" + id + "/messages",
                                 Json{{"content", content}}.dump(), {{"Idempotency-Key", "k\"1"}});
    HttpClient client = api.connect();
    client.open_stream("GET", "/v1/conversations/" + id + "/events?after=" + ticket["after"].dump(), "",
                       {{"Accept", "text/event-stream"}});
    const auto events = read_until(client, "done");
    REQUIRE(events.size() >= 2);
    CHECK(events[0]["type"] == "turn_start");
    CHECK(events[0]["turn"] == ticket["turn"]);
    CHECK(events[0]["seq"] == ticket["after"].get<int>() + 1);
    CHECK(events[0]["data"] == Json{{"content", content}, {"idempotencyKey", "k\"1"}, {"by", "api-key"}});
    const Turn next = api.message(id, "parts");
    CHECK(types(next.events).starts_with("turn_start text_delta"));
    CHECK(next.events[0]["data"]["content"] == "parts");
    CHECK_FALSE(next.events[0]["data"].contains("idempotencyKey"));
}

TEST_CASE("A conversation shows the turn that is open, with its question, however long") {
    const ServerProcess server;
    ApiClient api(server);
    for (const std::size_t padding : {0UL, 100'000UL}) {
        INFO(padding);
        const Json made = api.create({{"userId", "eve"}});
        CHECK(made["openTurn"].is_null());
        const std::string id = made["id"];
        const std::string content = "sleep 1000 # \"" + std::string(padding, 'x');
        const Json ticket = begin_turn(api, id, content);
        const Json open = api.get(id)["openTurn"];
        CHECK(open["turn"] == ticket["turn"]);
        CHECK(open["content"] == content);
        CHECK(open["startedAt"] >= made["createdAt"]);
        const Json listed = api.call(200, "GET", "/v1/conversations?userId=eve")["conversations"];
        CHECK(listed.back()["openTurn"]["turn"] == ticket["turn"]);
        CHECK_FALSE(listed.back()["openTurn"].contains("content"));
        api.call(200, "POST", "/v1/conversations/" + id + "/pause");
        CHECK(api.get(id)["openTurn"].is_null());
        api.remove(id);
    }
}

TEST_CASE("The question of a turn outlives a server that was killed") {
    const TempDir data;
    ServerOptions options;
    options.data_dir = data.path();
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create()["id"];
        begin_turn(api, id, "sleep 1000");
        server.kill_hard();
    }
    const ServerProcess server(options);
    ApiClient api(server);
    const auto events = api.events(id, 2);
    CHECK(types(events).starts_with("turn_start error done"));
    CHECK(events.at(0)["data"]["content"] == "sleep 1000");
    CHECK(api.get(id)["openTurn"].is_null());
}

TEST_CASE("A transcript has the questions and the answers, in Markdown or as JSON Lines") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"title", "First steps"}})["id"];
    api.message(id, "echo one; echo two >&2; exit 3");
    const std::string path = "/v1/conversations/" + id + "/transcript";
    const auto markdown = api.http().request("GET", path);
    CHECK(markdown.status == 200);
    CHECK(markdown.header("content-type") == "text/markdown; charset=utf-8");
    CHECK(markdown.header("content-disposition").find("attachment") == 0);
    CHECK(markdown.header("content-security-policy") == "sandbox; default-src 'none'");
    CHECK(markdown.body.starts_with("# First steps\n"));
    CHECK(markdown.body.find("> echo one; echo two >&2; exit 3\n") != std::string::npos);
    CHECK(markdown.body.find("two\n") != std::string::npos);
    CHECK(markdown.body.find("_Exit code 3_") != std::string::npos);
    const auto lines = api.http().request("GET", path + "?format=jsonl");
    CHECK(lines.header("content-type") == "application/jsonl");
    const Json first = Json::parse(lines.body.substr(0, lines.body.find('\n')));
    CHECK(first["role"] == "user");
    CHECK(first["content"] == "echo one; echo two >&2; exit 3");
    CHECK(api.call(422, "GET", path + "?format=pdf")["code"] == "invalid_field");
}

TEST_CASE("A conversation has a title, and a patch of its metadata is merged") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"title", "Old"}, {"metadata", {{"a", 1}, {"b", {{"c", 2}, {"d", 3}}}}}});
    const std::string path = "/v1/conversations/" + made["id"].get<std::string>();
    CHECK(made["title"] == "Old");
    CHECK(api.create()["title"].is_null());
    Json patched = api.call(200, "PATCH", path, R"({"metadata":{"a":null,"b":{"c":4},"e":[5]}})");
    CHECK(patched["metadata"] == Json::parse(R"({"b":{"c":4,"d":3},"e":[5]})"));
    CHECK(patched["title"] == "Old");
    patched = api.call(200, "PATCH", path, R"({"title":"New"})");
    CHECK(patched["title"] == "New");
    CHECK(patched["metadata"]["e"] == Json::parse("[5]"));
    const Json large = {{"metadata", {{"f", std::string(16'380, 'x')}}}};
    CHECK(api.call(422, "PATCH", path, large.dump())["code"] == "invalid_field");
    CHECK_FALSE(api.get(made["id"])["metadata"].contains("f"));
    CHECK(api.get(made["id"])["title"] == "New");
    CHECK(api.call(200, "PATCH", path, R"({"title":null})")["title"].is_null());
}

TEST_CASE("A create that is sent again with its Idempotency-Key makes no second conversation") {
    const ServerProcess server;
    ApiClient api(server);
    const HeaderList key = {{"Idempotency-Key", "create-1"}};
    const std::string body = R"({"title":"Once"})";
    const Json first = api.call(201, "POST", "/v1/conversations", body, key);
    CHECK(api.call(201, "POST", "/v1/conversations", body, key)["id"] == first["id"]);
    CHECK(api.call(422, "POST", "/v1/conversations", R"({"title":"Twice"})", key)["code"] ==
          "idempotency_key_reused");
    CHECK(api.call(400, "POST", "/v1/conversations", body, {{"Idempotency-Key", "\t"}})["code"] ==
          "invalid_request");
    CHECK(api.call(200, "GET", "/v1/conversations")["conversations"].size() == 1);
    api.remove(first["id"]);
    CHECK(api.call(201, "POST", "/v1/conversations", body, key)["id"] != first["id"]);
}

}  // namespace whole_log_test
