// Bad requests get their code and change nothing.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/support/api_client.hpp"

namespace bad_input_test {

using namespace atl::test;

namespace {

struct BadRequest {
    const char* method;
    std::string target;
    std::string body;
    int status;
    std::string code;
};

}  // namespace

TEST_CASE("Every kind of bad input has its status and code and changes nothing") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string target = "/v1/conversations/" + id;
    const std::string messages = target + "/messages";
    const std::string deep = "{\"metadata\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
    const std::vector<BadRequest> requests = {
        {"POST", "/v1/conversations", "{", 400, "invalid_json"},
        {"POST", "/v1/conversations", deep, 400, "invalid_json"},
        {"POST", "/v1/conversations", R"({"nope":1})", 422, "unknown_field"},
        {"POST", "/v1/conversations", R"({"agent":7})", 422, "invalid_field"},
        {"POST", "/v1/conversations", R"({"agent":"nobody"})", 422, "unknown_agent"},
        {"POST", "/v1/conversations", R"({"network":"host"})", 403, "network_not_allowed"},
        {"POST", "/v1/conversations", R"({"network":"moon"})", 422, "invalid_field"},
        {"POST", "/v1/conversations", R"({"limits":{"memoryMb":"2048"}})", 422, "invalid_field"},
        {"POST", "/v1/conversations", R"({"limits":{"memory":1}})", 422, "unknown_field"},
        {"POST", "/v1/conversations", R"({"env":{"LD_PRELOAD":"x"}})", 422, "invalid_env"},
        {"POST", "/v1/conversations", R"({"env":{"PATH":"x"}})", 422, "invalid_env"},
        {"POST", "/v1/conversations", R"({"ttlSeconds":-1})", 422, "invalid_field"},
        {"POST", "/v1/conversations", R"({"ttlSeconds":1.5})", 422, "invalid_field"},
        {"POST", messages, R"({"content":5})", 422, "invalid_field"},
        {"POST", messages, R"({})", 422, "invalid_field"},
        {"POST", messages, R"({"content":[{"type":"image"}]})", 422, ""},
        {"POST", messages, "{\"content\":\"\xff\xfe\"}", 400, ""},
        {"POST", messages, "{\"content\":\"" + std::string(1100 * 1024, 'x') + "\"}", 413, "body_too_large"},
        {"POST", target + "/interrupt", "", 409, "no_turn"},
        {"GET", "/v1/conversations/abcdefghijkmnpqrstuv", "", 404, "not_found"},
        {"GET", "/v1/conversations/..%2f..%2fetc", "", 404, "not_found"},
        {"GET", "/v1/conversations?limit=0", "", 422, "invalid_field"},
        {"GET", "/v1/conversations?limit=100000", "", 422, "invalid_field"},
        {"GET", "/v1/conversations?cursor=x", "", 400, "invalid_request"},
        {"GET", "/v1/conversations?status=dead", "", 422, "invalid_field"},
        {"GET", target + "/events?after=-1", "", 422, "invalid_field"},
        {"GET", target + "/events?after=999", "", 410, "log_replaced"},
        {"GET", "/nowhere", "", 404, "not_found"},
        {"PUT", "/v1/conversations", "", 405, "method_not_allowed"},
        {"PATCH", target, R"({"status":"ended"})", 422, "unknown_field"},
    };
    for (const auto& request : requests) {
        INFO(request.method << ' ' << request.target << ' ' << request.body.substr(0, 100));
        const auto response = api.http().request(request.method, request.target, request.body);
        INFO(response.body);
        CHECK(response.status == request.status);
        CHECK(response.header("content-type").starts_with("application/problem+json"));
        const Json problem = Json::parse(response.body);
        if (!request.code.empty())
            CHECK(problem["code"] == request.code);
        CHECK(problem["status"] == request.status);
        CHECK_FALSE(problem["requestId"].get<std::string>().empty());
        CHECK_FALSE(problem["detail"].get<std::string>().empty());
    }
    CHECK(api.call(200, "GET", "/v1/conversations")["conversations"].size() == 1);
    CHECK(api.get(id)["lastSeq"] == 2);
    CHECK(api.message(id, "echo fine").output == "fine\n");
}

TEST_CASE("Nothing but health is told without the key") {
    const ServerProcess server;
    HttpClient client("127.0.0.1:" + std::to_string(server.port()));
    CHECK(client.request("GET", "/healthz").status == 200);
    CHECK(client.request("GET", "/readyz").status == 200);
    for (const char* target : {"/v1/system", "/v1/conversations", "/v1/sandboxes", "/metrics"}) {
        CHECK(client.request("GET", target).status == 401);
        CHECK(client.request("GET", target, "", {{"Authorization", "Bearer wrong"}}).status == 401);
        CHECK(client.request("GET", target, "", {{"X-API-Key", server.key()}}).status == 200);
    }
    CHECK(client.request("GET", "/healthz", "", {{"Host", "evil.example"}}).status >= 400);
    CHECK(client
              .request("GET", "/v1/system", "",
                       {{"X-API-Key", server.key()}, {"Origin", "https://evil.example"}})
              .status == 403);
}

TEST_CASE("Lists page through everything once") {
    const ServerProcess server;
    ApiClient api(server);
    std::set<std::string> made;
    for (int at = 0; at < 5; ++at)
        made.insert(api.create({{"agent", "echo"}, {"userId", at % 2 == 0 ? "even" : "odd"}})["id"]
                        .get<std::string>());
    std::set<std::string> listed;
    std::string cursor;
    do {
        const Json page =
            api.call(200, "GET", "/v1/conversations?limit=2" + (cursor.empty() ? "" : "&cursor=" + cursor));
        for (const auto& conversation : page["conversations"])
            CHECK(listed.insert(conversation["id"].get<std::string>()).second);
        cursor = page["next"].is_null() ? "" : page["next"].get<std::string>();
    } while (!cursor.empty());
    CHECK(listed == made);
    CHECK(api.call(200, "GET", "/v1/conversations?userId=odd")["conversations"].size() == 2);
    CHECK(api.call(200, "GET", "/v1/conversations?status=paused")["conversations"].empty());
}

TEST_CASE("A full server says so with Retry-After and takes work again when there is room") {
    ServerOptions options;
    options.arguments = {"--max-sandboxes", "2"};
    const ServerProcess server(options);
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    api.create({{"agent", "echo"}});
    const auto full = api.http().request("POST", "/v1/conversations", "{}");
    CHECK(full.status == 503);
    CHECK(Json::parse(full.body)["code"] == "capacity");
    CHECK_FALSE(full.header("retry-after").empty());
    api.remove(id);
    api.create({{"agent", "echo"}});
}

TEST_CASE("A request with another word than the server's is told which one was meant, or which there are") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string sandbox = "/v1/sandboxes/" + made["sandboxId"].get<std::string>();
    const std::string messages = "/v1/conversations/" + made["id"].get<std::string>() + "/messages";
    const auto detail = [&](const std::string& method, const std::string& target, const std::string& body) {
        const auto refused = api.http().request(method, target, body);
        INFO(refused.body);
        CHECK(refused.status == 422);
        return Json::parse(refused.body)["detail"].get<std::string>();
    };
    const auto has = [](const std::string& text, const std::string& word) {
        INFO(text);
        return text.find(word) != std::string::npos;
    };
    CHECK(has(detail("POST", sandbox + "/exec", R"({"cmd":"ls"})"), "`cmd`"));
    CHECK(has(detail("POST", sandbox + "/exec", "{}"), "exactly one of `command` and `argv`"));
    for (const char* const word : {"message", "prompt"}) {
        const std::string told = detail("POST", messages, Json{{word, "x"}}.dump());
        CHECK(has(told, '`' + std::string(word) + '`'));
        CHECK(has(told, "`content`"));
    }
    CHECK(has(detail("GET", "/v1/conversations?status=running", ""), "`active`"));
    CHECK(has(detail("POST", "/v1/conversations", R"({"agent":"shel"})"), "did you mean `shell`"));
    CHECK(has(detail("POST", "/v1/conversations", R"({"agent":"nobody"})"), "The agents are `"));
    // The workspace has a path without a slash, too.
    CHECK(api.call(200, "GET", sandbox + "/files?list=1") ==
          api.call(200, "GET", sandbox + "/files/?list=1"));
}

}  // namespace bad_input_test
