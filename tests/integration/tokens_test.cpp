// Stream tokens as a browser uses them, and that neither they nor keys get into the log.
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace tokens_test {

using namespace atl::test;

namespace {

std::string token_for(ApiClient& api, const std::string& id, const std::string& body = "{}") {
    return api.call(201, "POST", "/v1/conversations/" + id + "/tokens", body)["token"];
}

HttpClient browser(const ServerProcess& server) {
    return HttpClient("127.0.0.1:" + std::to_string(server.port()));
}

std::string events_of(const std::string& id, const std::string& token) {
    return "/v1/conversations/" + id + "/events?token=" + token;
}

std::string end_of(WebSocketClient socket) {
    const auto frame = socket.await_close();
    return std::to_string(frame.close_code()) + ' ' +
           Json::parse(frame.close_reason())["code"].get<std::string>();
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    return text;
}

}  // namespace

TEST_CASE("A browser follows a conversation with a token and no key, also after a restart of the server") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    options.arguments = {"--access-log", "all", "--log-level", "debug"};
    std::string id;
    std::string token;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create()["id"];
        token = token_for(api, id, R"({"ttlSeconds":3600,"scope":"chat"})");
        HttpClient page = browser(server);
        CHECK(page.request("GET", "/v1/conversations/" + id + "/events").status == 401);
        const auto head =
            page.open_stream("GET", events_of(id, token), "", {{"Accept", "text/event-stream"}});
        REQUIRE(head.status == 200);
        CHECK(head.header("referrer-policy") == "no-referrer");
        CHECK(api.message(id, "echo hi").output == "hi\n");
        CHECK(summarise(read_until(page, "done")).output == "hi\n");
        CHECK(browser(server).request("GET", events_of(id, token)).status == 200);
        CHECK(browser(server).request("GET", events_of(id, token + "0")).status == 401);
        // A stream is logged when it has ended.
        CHECK(server.stop() == 0);
        std::size_t logged = 0;
        for (auto at = server.log().find("/events\""); at != std::string::npos;
             at = server.log().find("/events\"", at + 1))
            ++logged;
        CHECK(logged == 4);
        CHECK(server.log().find(token.substr(token.rfind('.') + 1)) == std::string::npos);
        CHECK(server.log().find("token=") == std::string::npos);
        CHECK(server.log().find(server.key()) == std::string::npos);
    }
    const ServerProcess server(options);
    HttpClient page = browser(server);
    CHECK(page.open_stream("GET", events_of(id, token), "", {{"Accept", "text/event-stream"}}).status == 200);
    CHECK(page.next_event().has_value());

    std::ostringstream signing_key;
    signing_key << std::ifstream(dir.path() / "token-key").rdbuf();
    CHECK(signing_key.str().size() > 32);
    const auto mode = std::filesystem::status(dir.path() / "token-key").permissions();
    CHECK((mode & std::filesystem::perms::mask) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("The server ends streams when their token expires, and a bad token's WebSocket at once") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string other = api.create({{"agent", "echo"}})["id"];
    const auto socket_of = [](const std::string& of, const std::string& with) {
        return "/v1/conversations/" + of + "/ws?token=" + with;
    };
    const std::string lasting = token_for(api, id, R"({"scope":"chat"})");
    CHECK(end_of(WebSocketClient(browser(server), socket_of(other, lasting))) == "4403 token_mismatch");
    CHECK(end_of(WebSocketClient(browser(server), socket_of(std::string(20, 'a'), lasting))) ==
          "4403 token_mismatch");
    CHECK(end_of(WebSocketClient(browser(server), socket_of(id, lasting + "0"))) == "4401 invalid_token");
    // On a host that takes longer than that to open both, with a longer one.
    std::string token;
    std::optional<WebSocketClient> socket;
    HttpClient page = browser(server);
    int status = 0;
    for (int ttl_seconds = 2; status != 200 && ttl_seconds < 100; ttl_seconds *= 3) {
        token = token_for(api, id, Json{{"ttlSeconds", ttl_seconds}, {"scope", "chat"}}.dump());
        socket.emplace(browser(server), socket_of(id, token));
        page = browser(server);
        status = page.open_stream("GET", events_of(id, token), "", {{"Accept", "text/event-stream"}}).status;
    }
    REQUIRE(status == 200);
    std::optional<SseEvent> last;
    while (auto event = page.next_event()) {
        CHECK_FALSE(event->is_named);
        last = std::move(event);
    }
    REQUIRE(last);
    const Json end = Json::parse(last->data);
    CHECK(end["type"] == "stream_closed");
    CHECK(end["code"] == "token_expired");
    CHECK(end["after"] == api.events(id).back()["seq"]);
    CHECK(end_of(std::move(*socket)) == "4401 token_expired");
    CHECK(end_of(WebSocketClient(browser(server), socket_of(id, token))) == "4401 token_expired");
    CHECK(browser(server).request("GET", events_of(id, token)).status == 401);
    CHECK(server.log().find("evt=socket_refused") != std::string::npos);
    CHECK(server.log().find(token) == std::string::npos);
}

TEST_CASE("Every WebSocket is closed with 4403 for a page of another origin, and the log names the origin") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string path = "/v1/conversations/" + id + "/ws";
    const auto page_of = [&](const std::string& origin) {
        return HttpClient(server.address(), {{"Origin", origin}});
    };
    for (const std::string& socket : {path, std::string("/v1/sandboxes/none/processes/none/ws"),
                                      std::string("/v1/executions/none/ws?token=x")})
        CHECK(end_of(WebSocketClient(page_of("http://page.example"), socket)) == "4403 origin_not_allowed");
    CHECK(server.log().find("code=origin_not_allowed") != std::string::npos);
    CHECK(server.log().find("origin=\"http://page.example\"") != std::string::npos);
    // The positive control: a page of the server itself.
    const std::string token = token_for(api, id, R"({"scope":"chat"})");
    WebSocketClient own(page_of("http://" + server.address()), path + "?token=" + token);
    CHECK(Json::parse(own.next_text())["type"] == "session_start");
}

TEST_CASE("A token is good for its own conversation's stream and for nothing else") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string other = api.create({{"agent", "echo"}})["id"];
    const std::string token = token_for(api, id, R"({"scope":"chat"})");
    HttpClient page = browser(server);
    CHECK(page.request("GET", events_of(id, token)).status == 200);
    const auto crossed = page.request("GET", events_of(other, token));
    CHECK(crossed.status == 403);
    CHECK(code_of(crossed) == "token_mismatch");
    const auto forged = page.request("GET", events_of(id, token + "0"));
    CHECK(forged.status == 401);
    CHECK(code_of(forged) == "invalid_token");
    const auto detail = [](const HttpResponse& refused) {
        return Json::parse(refused.body)["detail"].get<std::string>();
    };
    CHECK(detail(forged).find("damaged") != std::string::npos);
    // Each at the place of the other.
    const auto key_as_token = page.request("GET", events_of(id, server.key()));
    CHECK(code_of(key_as_token) == "invalid_token");
    CHECK(detail(key_as_token).find("This is no token. A key is sent as `Authorization") == 0);
    const auto token_as_key = page.request("GET", "/v1/system", "", {{"Authorization", "Bearer " + token}});
    CHECK(code_of(token_as_key) == "invalid_key");
    CHECK(detail(token_as_key).find("This is a token, not a key: send it as `?token=`") == 0);
    // A key that is sent has to be good: the token does not stand in for it.
    CHECK(page.request("GET", events_of(id, token), "", {{"X-API-Key", "wrong"}}).status == 401);
    CHECK(page.request("GET", events_of(id, "wrong"), "", {{"X-API-Key", server.key()}}).status == 200);
    CHECK(page.request("GET", "/v1/system", "", {{"Authorization", "Bearer " + token}}).status == 401);

    const Json document = api.call(200, "GET", "/openapi.json");
    std::size_t walked = 0;
    for (const auto& [pattern, item] : document["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            const bool open = operation.contains("security") && operation["security"].empty();
            const bool streams = operation.contains("security") && operation["security"].size() == 3;
            if (open || streams)
                continue;
            ++walked;
            std::string target = pattern;
            if (const auto at = target.find("{id}"); at != std::string::npos)
                target.replace(at, 4, id);
            INFO(method << ' ' << target);
            const std::string body = method == "get" || method == "delete" ? "" : "{}";
            CHECK(page.request(upper(method), target + "?token=" + token, body).status == 403);
            CHECK(page.request(upper(method), target, body, {{"X-API-Key", token}}).status == 401);
        }
    }
    CHECK(walked >= 14);
    CHECK(api.get(id)["status"] == "active");
}

TEST_CASE("A token's time is bounded, and an expired one is told from a wrong one") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string tokens = "/v1/conversations/" + id + "/tokens";
    for (const char* body : {R"({"ttlSeconds":0})", R"({"ttlSeconds":86401})", R"({"ttlSeconds":"60"})",
                             R"({"scope":"full"})", R"({"scope":1})"})
        CHECK(code_of(api.http().request("POST", tokens, body)) == "invalid_field");
    CHECK(code_of(api.http().request("POST", tokens, R"({"ttl":60})")) == "unknown_field");
    CHECK(api.http().request("POST", "/v1/conversations/" + std::string(20, 'a') + "/tokens", "{}").status ==
          404);
    const std::string token = token_for(api, id, R"({"ttlSeconds":1})");
    HttpClient page = browser(server);
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    HttpResponse answer = page.request("GET", events_of(id, token));
    CHECK((answer.status == 200 || code_of(answer) == "token_expired"));
    while (answer.status == 200 && std::chrono::steady_clock::now() < deadline)
        answer = page.request("GET", events_of(id, token));
    CHECK(answer.status == 401);
    CHECK(code_of(answer) == "token_expired");
}

}  // namespace tokens_test
