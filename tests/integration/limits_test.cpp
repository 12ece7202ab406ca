// Limits on one client: over a limit the answer names the limit and the time to wait, and other clients are
// not affected. In each test another client is served beside the refused one.
#include <catch2/catch_test_macros.hpp>
#include <regex>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace integration_limits_test {

using namespace atl::test;

namespace {

ServerOptions with(std::vector<std::string> arguments) {
    ServerOptions options;
    options.arguments = std::move(arguments);
    return options;
}

HttpClient client_from(const ServerProcess& server, const char* source, HeaderList headers) {
    HttpClient client("127.0.0.1:" + std::to_string(server.port()), std::move(headers));
    client.connect_from(source);
    return client;
}

HttpClient limited_client(const ServerProcess& server, const std::string& key) {
    return client_from(server, "127.0.0.1", {{"X-API-Key", key}});
}

std::string add_limited_key(const ServerProcess& server, const std::string& label) {
    const RunResult made = run_server({"keys", "add", label, "--data-dir", server.data_dir().string()});
    std::smatch found;
    REQUIRE(std::regex_search(made.output, found, std::regex("(atoll_[a-z0-9]{60})\n")));
    return found[1];
}

std::string token_for(ApiClient& api, const std::string& id) {
    return api.call(201, "POST", "/v1/conversations/" + id + "/tokens", R"({"scope":"chat"})")["token"];
}

/// The first answer that is not `status`, of at most `most`.
HttpResponse until_not(int status, int most, HttpClient& client, const std::string& target) {
    HttpResponse answer;
    do
        answer = client.request("GET", target);
    while (answer.status == status && --most > 0);
    return answer;
}

void check_refusal(const HttpResponse& refused, const std::string& code) {
    CHECK(refused.status == 429);
    CHECK(refused.header("content-type") == "application/problem+json");
    CHECK(code_of(refused) == code);
    CHECK(std::stoi(refused.header("retry-after")) >= 1);
    CHECK_FALSE(Json::parse(refused.body)["detail"].get<std::string>().empty());
}

/// True once `target` answers `status`.
bool comes_to(int status, HttpClient& client, const std::string& target) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (std::chrono::steady_clock::now() < deadline) {
        if (client.request("GET", target).status == status)
            return true;
    }
    return false;
}

}  // namespace

TEST_CASE("A burst from one address is refused until the time that it is told, another address is served") {
    const ServerProcess server(with({"--limit-loopback", "--requests-per-second-per-address", "4"}));
    const HeaderList key{{"X-API-Key", server.key()}};
    HttpClient client = client_from(server, "127.0.0.1", key);
    HttpClient other = client_from(server, "127.0.0.2", key);
    check_refusal(until_not(200, 200, client, "/v1/system"), "too_many_requests");
    CHECK(other.request("GET", "/v1/system").status == 200);
    CHECK(comes_to(200, client, "/v1/system"));
    const Json limits = Json::parse(other.request("GET", "/v1/system").body)["clientLimits"];
    CHECK(limits["requestsPerSecondPerAddress"] == 4);
    CHECK(limits["connectionsPerAddress"] == 256);
}

TEST_CASE("Without being asked to a server holds the loopback to no rate") {
    const ServerProcess server;
    HttpClient client = limited_client(server, server.key());
    CHECK(until_not(200, 3000, client, "/healthz").status == 200);
}

TEST_CASE("A key that asks too often is refused, another key and the server's own are not") {
    const ServerProcess server(with({"--requests-per-second-per-key", "4"}));
    HttpClient client = limited_client(server, add_limited_key(server, "one"));
    HttpClient other = limited_client(server, add_limited_key(server, "two"));
    HttpClient own = limited_client(server, server.key());
    check_refusal(until_not(200, 200, client, "/v1/conversations"), "too_many_requests");
    CHECK(other.request("GET", "/v1/conversations").status == 200);
    CHECK(until_not(200, 200, own, "/v1/conversations").status == 200);
    CHECK(comes_to(200, client, "/v1/conversations"));
}

TEST_CASE("An address with all its connections gets no more until one is closed") {
    const ServerProcess server(with({"--limit-loopback", "--max-connections-per-address", "2"}));
    const HeaderList key{{"X-API-Key", server.key()}};
    HttpClient one = client_from(server, "127.0.0.1", key);
    HttpClient two = client_from(server, "127.0.0.1", key);
    CHECK(one.request("GET", "/v1/system").status == 200);
    CHECK(two.request("GET", "/v1/system").status == 200);
    HttpClient three = client_from(server, "127.0.0.1", key);
    three.connect();
    check_refusal(three.read_response(), "too_many_connections");
    CHECK(client_from(server, "127.0.0.2", key).request("GET", "/v1/system").status == 200);
    one.close();
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    int status = 429;
    while (status == 429 && std::chrono::steady_clock::now() < deadline) {
        three.connect();
        three.send_raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        status = three.read_response().status;
    }
    CHECK(status == 200);
}

TEST_CASE("A conversation with all its streams takes no more, but the server's own key") {
    const ServerProcess server(with({"--max-streams-per-conversation", "2", "--max-streams-per-key", "2"}));
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string other_id = api.create({{"agent", "echo"}})["id"];
    const std::string path = "/v1/conversations/" + id;
    const HeaderList streaming{{"Accept", "text/event-stream"}};
    HttpClient sse = client_from(server, "127.0.0.1", {});
    CHECK(sse.open_stream("GET", path + "/events?token=" + token_for(api, id), "", streaming).status == 200);
    const WebSocketClient socket(client_from(server, "127.0.0.1", {}),
                                 path + "/ws?token=" + token_for(api, id));
    HttpClient third = client_from(server, "127.0.0.1", {});
    const std::string token = token_for(api, id);
    check_refusal(third.request("GET", path + "/events?token=" + token, "", streaming), "too_many_streams");
    check_refusal(third.request("GET", path + "/ws?token=" + token, "", k_websocket_headers),
                  "too_many_streams");
    // A page of the log is no stream; another conversation has its own; and so has the operator.
    CHECK(third.request("GET", path + "/events?token=" + token).status == 200);
    const std::string elsewhere = "/v1/conversations/" + other_id + "/ws?token=" + token_for(api, other_id);
    const WebSocketClient neighbour(client_from(server, "127.0.0.1", {}), elsewhere);
    const WebSocketClient own(api.connect(), path + "/ws");
    const WebSocketClient second(client_from(server, "127.0.0.1", {}), elsewhere);
    check_refusal(third.request("GET", elsewhere, "", k_websocket_headers), "too_many_streams");
    sse.close();
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    int status = 429;
    while (status == 429 && std::chrono::steady_clock::now() < deadline)
        status = third.request("GET", path + "/ws?token=" + token, "", k_websocket_headers).status;
    CHECK(status == 101);
}

TEST_CASE("There is no turn for a message whose stream is one too many") {
    const ServerProcess server(with({"--max-streams-per-key", "1"}));
    ApiClient api(server);
    const std::string key = add_limited_key(server, "web");
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string path = "/v1/conversations/" + id;
    HttpClient reader = limited_client(server, key);
    CHECK(reader.open_stream("GET", path + "/events", "", {{"Accept", "text/event-stream"}}).status == 200);
    HttpClient writer = limited_client(server, key);
    const auto before = api.get(id)["lastSeq"];
    check_refusal(
        writer.request("POST", path + "/messages", R"({"content":"hi"})", {{"Accept", "text/event-stream"}}),
        "too_many_streams");
    CHECK(api.get(id)["lastSeq"] == before);
    CHECK(writer.request("POST", path + "/messages", R"({"content":"hi"})").status == 202);
}

TEST_CASE("Frames of a WebSocket count as requests, and one too many is rejected by name") {
    const ServerProcess server(with({"--requests-per-second-per-key", "2"}));
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string target = "/v1/conversations/" + id + "/ws?token=" + token_for(api, id);
    WebSocketClient socket(client_from(server, "127.0.0.1", {}), target);
    WebSocketClient own(api.connect(), "/v1/conversations/" + id + "/ws");
    const auto next_rejection = [](WebSocketClient& from) {
        Json frame;
        do
            frame = Json::parse(from.next_text());
        while (frame["type"] != "rejected");
        return frame["code"].get<std::string>();
    };
    std::string code;
    for (int i = 0; i < 200 && code != "too_many_requests"; ++i) {
        socket.send_text(R"({"type":"interrupt"})");
        code = next_rejection(socket);
    }
    CHECK(code == "too_many_requests");
    for (int i = 0; i < 20; ++i) {
        own.send_text(R"({"type":"interrupt"})");
        CHECK(next_rejection(own) == "no_turn");
    }
    for (int i = 0; i < 1000; ++i)
        socket.send_text(R"({"type":"interrupt"})");
    const auto end = socket.await_close();
    CHECK(end.close_code() == 1008);
    CHECK(Json::parse(end.close_reason())["code"] == "too_many_requests");
}

TEST_CASE("Wrong keys cost their address its attempts and never lock a right key out") {
    const ServerProcess server(with({"--failed-logins-per-minute", "5"}));
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    HttpClient stranger = limited_client(server, "wrong");
    const auto first = stranger.request("GET", "/v1/system");
    CHECK(first.status == 401);
    check_refusal(until_not(401, 200, stranger, "/v1/system"), "too_many_requests");
    const auto forged = client_from(server, "127.0.0.1", {})
                            .request("GET", "/v1/conversations/" + id + "/events?token=v1.forged");
    check_refusal(forged, "too_many_requests");
    CHECK(limited_client(server, server.key()).request("GET", "/v1/system").status == 200);
    CHECK(limited_client(server, add_limited_key(server, "new")).request("GET", "/v1/system").status == 200);
    CHECK(client_from(server, "127.0.0.1", {}).request("GET", "/v1/system").status == 401);
    CHECK(client_from(server, "127.0.0.2", {{"X-API-Key", "wrong"}}).request("GET", "/v1/system").status ==
          401);
}

TEST_CASE("Clients behind a named proxy are told apart, and logged by their own address") {
    ServerProcess server(with({"--trusted-proxy", "127.0.0.1", "--requests-per-second-per-address", "4",
                               "--allowed-host", "atoll.example"}));
    const HeaderList key{{"X-API-Key", server.key()}};
    HttpClient proxy = client_from(server, "127.0.0.1", key);
    const auto ask = [](HttpClient& client, const std::string& forwarded_for) {
        return client.request("GET", "/nowhere", "", {{"X-Forwarded-For", forwarded_for}});
    };
    HttpResponse answer;
    for (int i = 0; i < 200 && answer.status != 429; ++i)
        answer = ask(proxy, "203.0.113.9");
    check_refusal(answer, "too_many_requests");
    CHECK(ask(proxy, "203.0.113.10").status == 404);
    // From a peer that is no proxy the field is ignored.
    HttpClient stranger = client_from(server, "127.0.0.2", key);
    for (int i = 0; i < 50; ++i)
        CHECK(ask(stranger, "203.0.113.66").status == 404);
    const HeaderList page{{"Origin", "https://atoll.example"},
                          {"X-Forwarded-Host", "atoll.example"},
                          {"X-Forwarded-Proto", "https"}};
    CHECK(proxy.request("GET", "/v1/system", "", page).status == 200);
    CHECK(stranger.request("GET", "/v1/system", "", page).status == 403);
    CHECK(server.stop() == 0);
    const std::string log = server.log();
    CHECK(log.find("addr=203.0.113.10") != std::string::npos);
    CHECK(log.find("addr=127.0.0.2") != std::string::npos);
    CHECK(log.find("203.0.113.66") == std::string::npos);
    CHECK(log.find("evt=limit_reached addr=203.0.113.9") != std::string::npos);
    CHECK(log.find("status=429") == std::string::npos);
}

TEST_CASE("A proxy that is none is refused with what it should be") {
    const RunResult refused = run_server({"--trusted-proxy", "nginx"});
    CHECK(refused.status == 2);
    CHECK(refused.output.find("--trusted-proxy") != std::string::npos);
    CHECK(refused.output.find("10.0.0.0/8") != std::string::npos);
}

}  // namespace integration_limits_test
