// Limits of a client as a server applies them: which requests are refused, how, and which are not.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"
#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/test_server.hpp"

namespace http_limits_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

TestSettings limited() {
    TestSettings settings;
    settings.limits = {0, 0, 0, 0, 0, 0, http::LoopbackLimits::as_others};
    return settings;
}

TestSettings behind_proxy() {
    TestSettings settings = limited();
    settings.trusted_proxies.add("127.0.0.1");
    settings.allowed_hosts = {"atoll.example"};
    return settings;
}

HttpClient client_from(TestServer& server, const char* address) {
    HttpClient client = server.client();
    client.connect_from(address);
    return client;
}

std::string code_or_none(const HttpResponse& response) {
    const auto body = http::parse_json(response.body);
    return body.has_value() && body->contains("code") ? (*body)["code"].get<std::string>() : "";
}

// The status of each of `count` requests, the last of equal ones once.
std::vector<int> statuses(HttpClient& client, int count, const HeaderList& headers = {}) {
    std::vector<int> out;
    for (int i = 0; i < count; ++i) {
        const int status = client.request("GET", "/hello", "", headers).status;
        if (out.empty() || out.back() != status)
            out.push_back(status);
    }
    return out;
}

// The same up to the first that is refused: of so many one comes too soon, on a slow machine too.
std::vector<int> statuses_until_refused(HttpClient& client, const HeaderList& headers = {}) {
    std::vector<int> out;
    for (int left = 10'000; left > 0 && (out.empty() || out.back() != 429); --left) {
        const int status = client.request("GET", "/hello", "", headers).status;
        if (out.empty() || out.back() != status)
            out.push_back(status);
    }
    return out;
}

}  // namespace

TEST_CASE("an address that asks too often is told when to come again, another is served") {
    TestSettings settings = limited();
    settings.limits.requests_per_second_per_address = 2;
    TestServer server(settings);
    auto client = server.client();
    CHECK(statuses_until_refused(client) == std::vector<int>{200, 429});
    auto refused = client.request("GET", "/open");
    for (int left = 10'000; left > 0 && refused.status != 429; --left)
        refused = client.request("GET", "/open");
    CHECK(refused.status == 429);
    CHECK(code_or_none(refused) == "too_many_requests");
    CHECK(refused.header("retry-after") == "1");
    CHECK(client.connected());
    auto other = client_from(server, "127.0.0.2");
    CHECK(other.request("GET", "/hello").status == 200);
    // After that time it is served again.
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    int status = 429;
    while (status == 429 && std::chrono::steady_clock::now() < deadline)
        status = client.request("GET", "/hello").status;
    CHECK(status == 200);
}

TEST_CASE("by default the loopback has no rate") {
    TestServer server;
    auto client = server.client();
    CHECK(statuses(client, 5000) == std::vector<int>{200});
}

TEST_CASE("connections of an address beyond its cap are told so, another address has its own") {
    TestSettings settings = limited();
    settings.limits.connections_per_address = 2;
    TestServer server(settings);
    auto one = server.client();
    auto two = server.client();
    CHECK(one.request("GET", "/hello").status == 200);
    CHECK(two.request("GET", "/hello").status == 200);
    auto three = server.client();
    three.connect();
    const auto refused = three.read_response();
    CHECK(refused.status == 429);
    CHECK(code_or_none(refused) == "too_many_connections");
    CHECK(refused.header("retry-after") == "5");
    CHECK(refused.header("connection") == "close");
    CHECK(server.connections() == 2);
    CHECK(client_from(server, "127.0.0.2").request("GET", "/hello").status == 200);
    one.close();
    CHECK(server.eventually([&] { return server.connections_now() <= 1; }));
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("a proxy has as many connections as it wants, its clients are told apart") {
    TestSettings settings = behind_proxy();
    settings.limits.connections_per_address = 2;
    settings.limits.requests_per_second_per_address = 2;
    TestServer server(settings);
    std::vector<HttpClient> connections;
    for (int i = 0; i < 5; ++i) {
        connections.push_back(server.client());
        CHECK(connections.back().request("GET", "/hello").status == 200);
    }
    HttpClient& proxy = connections.front();
    CHECK(statuses_until_refused(proxy, {{"X-Forwarded-For", "203.0.113.9"}}) == std::vector<int>{200, 429});
    CHECK(statuses(proxy, 3, {{"X-Forwarded-For", "203.0.113.10"}}) == std::vector<int>{200});
    CHECK(statuses_until_refused(proxy, {{"X-Forwarded-For", "203.0.113.10, 203.0.113.9"}}).back() == 429);
    // From anyone else the field changes nothing.
    auto stranger = client_from(server, "127.0.0.2");
    for (int i = 0; i < 4; ++i)
        CHECK(stranger.request("GET", "/hello", "", {{"X-Forwarded-For", "198.51.100.1"}}).status == 200);
    int status = 200;
    for (int i = 0; i < 10'000 && status != 429; ++i) {
        const std::string another = "198.51." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 2);
        status = stranger.request("GET", "/hello", "", {{"X-Forwarded-For", another}}).status;
    }
    CHECK(status == 429);
}

TEST_CASE("wrong keys are refused as such up to a point, the right one always works") {
    TestSettings settings;  // also on the loopback without being asked for
    settings.limits.failed_logins_per_minute = 5;
    TestServer server(settings);
    auto client = server.client();
    HttpClient stranger(server.address);
    const HeaderList wrong{{"Authorization", "Bearer wrong"}};
    CHECK(statuses_until_refused(stranger, wrong) == std::vector<int>{401, 429});
    const auto refused = stranger.request("GET", "/hello", "", wrong);
    CHECK(code_or_none(refused) == "too_many_requests");
    CHECK(std::stoi(refused.header("retry-after")) >= 1);
    CHECK(client.request("GET", "/hello").status == 200);
    CHECK(stranger.request("GET", "/hello", "", {{"X-API-Key", k_test_key}}).status == 200);
    // No key is no wrong key; and another address has its own failures.
    CHECK(stranger.request("GET", "/hello").status == 401);
    HttpClient other(server.address);
    other.connect_from("127.0.0.2");
    CHECK(statuses(other, 3, wrong) == std::vector<int>{401});
}

TEST_CASE("what a proxy says of host and scheme counts, and only what it says") {
    TestServer server(behind_proxy());
    const HeaderList forwarded{{"X-Forwarded-Host", "atoll.example"},
                               {"X-Forwarded-Proto", "https"},
                               {"Origin", "https://atoll.example"}};
    auto proxy = server.client();
    CHECK(proxy.request("GET", "/hello", "", forwarded).status == 200);
    auto other = client_from(server, "127.0.0.2");
    CHECK(code_or_none(other.request("GET", "/hello", "", forwarded)) == "origin_not_allowed");
    CHECK(other.request("GET", "/hello", "", {{"X-Forwarded-Host", "evil.example"}}).status == 200);
    HeaderList plain = forwarded;
    plain.back().second = "http://atoll.example";
    CHECK(code_or_none(proxy.request("GET", "/hello", "", plain)) == "origin_not_allowed");
    // A host name that a page controls (DNS rebinding) stays refused, also beside an allowed
    // X-Forwarded-Host.
    CHECK(code_or_none(proxy.request("GET", "/hello", "",
                                     {{"Host", "evil.example"}, {"X-Forwarded-Host", "atoll.example"}})) ==
          "host_not_allowed");
    CHECK(code_or_none(proxy.request("GET", "/hello", "", {{"X-Forwarded-Host", "evil.example"}})) ==
          "host_not_allowed");
}

TEST_CASE("a request line that is too long has its own answer") {
    TestServer server;
    auto client = server.client();
    const auto refused = client.request("GET", "/hello?" + std::string(20'000, 'a'));
    CHECK(refused.status == 414);
    CHECK(code_or_none(refused) == "target_too_long");
    client.send_raw("GET /" + std::string(20'000, 'a'));
    CHECK(client.read_response().status == 414);
    client.send_raw("GET /hello HTTP/1.1\r\nA: " + std::string(20'000, 'a'));
    CHECK(client.read_response().status == 431);
}

TEST_CASE("OPTIONS of the server as a whole tells its methods, of anything else it stays what it was") {
    TestServer server;
    HttpClient client(server.address);
    const auto answer = client.request("OPTIONS", "*");
    CHECK(answer.status == 204);
    CHECK(answer.header("allow").find("PATCH") != std::string::npos);
    CHECK(client.request("OPTIONS", "*", "", {{"Host", "evil.example"}}).status == 421);
    CHECK(client.request("OPTIONS", "/hello").status == 401);
    CHECK(client.request("GET", "*").status == 400);
}

TEST_CASE("a page may read why its request was no request, if that told its origin") {
    TestSettings settings;
    settings.allowed_origins = {"https://app.example"};
    TestServer server(settings);
    HttpClient client(server.address);
    const std::string broken = "GET hello HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\r\n";
    client.send_raw(broken);
    const auto told = client.read_response();
    CHECK(told.status == 400);
    CHECK(told.header("access-control-allow-origin") == "https://app.example");
    client.send_raw("GET hello HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n");
    CHECK(client.read_response().header("access-control-allow-origin").empty());
}

TEST_CASE("a client that takes a few bytes now and then is cut off, one that takes 64 KiB in time is not") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const std::string request =
        "GET /big?bytes=50000000 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";
    const auto slow = server.connect();
    const auto steady = server.connect();
    for (const auto& peer : {slow, steady}) {
        peer->take_only(0);
        peer->send(request);
    }
    server.run();
    int seconds = 0;
    for (; seconds < 300 && !slow->is_closed(); ++seconds) {
        slow->take_only(100);
        if (seconds % 20 == 0)
            steady->take_only(64UL * 1024);
        server.advance(1s);
    }
    CHECK(seconds == base::k_write_deadline.count());
    CHECK(slow->was_reset());
    for (; seconds < 300; ++seconds) {
        if (seconds % 20 == 0)
            steady->take_only(64UL * 1024);
        server.advance(1s);
    }
    CHECK_FALSE(steady->is_closed());
}

TEST_CASE("a refused request tells its client's address in the log, who asks too much does not fill it") {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    {
        TestSettings settings = behind_proxy();
        settings.limits.requests_per_second_per_address = 2;
        TestServer server(settings);
        auto proxy = server.client();
        proxy.request("GET", "/nowhere", "", {{"X-Forwarded-For", "203.0.113.9"}});
        for (int i = 0; i < 200; ++i)
            proxy.request("GET", "/hello", "", {{"X-Forwarded-For", "203.0.113.10"}});
        proxy.request("GET", "/hello", "", {{"Origin", "https://evil.example"}});
        proxy.send_raw("NONSENSE\r\n\r\n");
        proxy.read_response();
    }
    spdlog::set_default_logger(before);
    const std::string log = text.str();
    INFO(log);
    const auto count = [&](const std::string& what) {
        std::size_t found = 0;
        for (auto at = log.find(what); at != std::string::npos; at = log.find(what, at + 1))
            ++found;
        return found;
    };
    CHECK(log.find("status=404 code=not_found ") < log.find("addr=203.0.113.9"));
    CHECK(log.find("origin=\"https://evil.example\"", log.find("code=origin_not_allowed ")) !=
          std::string::npos);
    CHECK(log.find("status=400") < log.find("addr=127.0.0.1", log.find("status=400")));
    CHECK(count("evt=limit_reached addr=203.0.113.10") >= 1);
    CHECK(count("evt=limit_reached") <= 20);
    CHECK(count("status=429") == 0);
}

}  // namespace http_limits_test
