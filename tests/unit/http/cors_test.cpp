#include "http/server/cors.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/test_server.hpp"

namespace cors_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr const char* k_app = "https://app.example";

TestSettings allowing(std::vector<std::string> origins) {
    TestSettings settings;
    settings.allowed_origins = std::move(origins);
    return settings;
}

bool has_cors(const HttpResponse& response) {
    return std::any_of(response.headers.begin(), response.headers.end(),
                       [](const auto& header) { return header.first.starts_with("access-control-"); });
}

HeaderList preflight(const std::string& origin) {
    return {{"Origin", origin},
            {"Access-Control-Request-Method", "POST"},
            {"Access-Control-Request-Headers", "authorization,content-type"}};
}

}  // namespace

TEST_CASE("a preflight of an allowed page is answered without a key") {
    TestServer server(allowing({"https://other.example", k_app}));
    HttpClient page(server.address);
    const auto answer = page.request("OPTIONS", "/echo", "", preflight(k_app));
    CHECK(answer.status == 204);
    CHECK(answer.body.empty());
    CHECK(answer.header("access-control-allow-origin") == k_app);
    CHECK(answer.header("vary") == "Origin");
    for (const char* method : {"GET", "POST", "PATCH", "DELETE", "PUT"})
        CHECK(answer.header("access-control-allow-methods").find(method) != std::string::npos);
    for (const char* field :
         {"Authorization", "Content-Type", "X-API-Key", "Idempotency-Key", "Last-Event-ID", "X-Request-Id",
          "Range", "If-Range", "If-Match", "If-None-Match"})
        CHECK(answer.header("access-control-allow-headers").find(field) != std::string::npos);
    CHECK_FALSE(answer.header("access-control-max-age").empty());
    CHECK(answer.header("access-control-allow-credentials").empty());
    // A preflight tells nothing of the table.
    CHECK(page.request("OPTIONS", "/no/such/route", "", preflight(k_app)).status == 204);
}

TEST_CASE("a page of an allowed origin can read every answer, refusals too") {
    TestServer server(allowing({k_app}));
    auto client = server.client();
    for (const char* path : {"/hello", "/throw", "/no/such/route"}) {
        const auto answer = client.request("GET", path, "", {{"Origin", k_app}});
        CHECK(answer.header("access-control-allow-origin") == k_app);
        for (const char* field : {"X-Request-Id", "Retry-After", "ETag", "Content-Range", "Accept-Ranges",
                                  "Content-Disposition", "Atoll-Left-Out"})
            CHECK(answer.header("access-control-expose-headers").find(field) != std::string::npos);
        CHECK(answer.header("vary") == "Origin");
    }
    HttpClient keyless(server.address);
    const auto refused = keyless.request("GET", "/hello", "", {{"Origin", k_app}});
    CHECK(refused.status == 401);
    CHECK(refused.header("access-control-allow-origin") == k_app);
    server.push("data: x\n\n", TestServer::Piece::last);
    const auto stream = client.open_stream("GET", "/stream", "", {{"Origin", k_app}});
    CHECK(stream.header("access-control-allow-origin") == k_app);
    // A client without an Origin gets no permission, and caches learn that the answer depends on it.
    const auto plain = server.client().request("GET", "/hello");
    CHECK_FALSE(has_cors(plain));
    CHECK(plain.header("vary") == "Origin");
}

TEST_CASE("a page of another origin reads why it is refused, and nothing else") {
    TestServer server(allowing({k_app}));
    TestServer closed;
    for (TestServer* const one : {&server, &closed}) {
        // Neither a good key nor none at all makes a difference.
        auto client = one->client();
        HttpClient keyless(one->address);
        for (HttpClient* const page : {&client, &keyless}) {
            for (const char* origin :
                 {"https://evil.example", "http://app.example", "https://app.example:444",
                  "https://app.example.evil.example", "chrome-extension://abc", "null"}) {
                INFO(origin);
                auto asked = preflight(origin);
                asked.emplace_back("X-More", "1");
                const auto before = page->request("OPTIONS", "/echo", "", asked);
                CHECK(before.status == 204);
                CHECK(before.header("access-control-allow-origin") == origin);
                CHECK(before.header("access-control-allow-methods") == "POST");
                CHECK(before.header("access-control-allow-headers") == "authorization,content-type");
                CHECK(before.header("access-control-allow-credentials").empty());
                CHECK(before.header("vary") == "Origin");
                for (const char* path : {"/hello", "/stream", "/no/such/route"}) {
                    const auto answer = page->request("GET", path, "", {{"Origin", origin}});
                    CHECK(answer.status == 403);
                    CHECK(answer.header("access-control-allow-origin") == origin);
                    CHECK(answer.header("vary") == "Origin");
                    CHECK(answer.body.find("\"origin_not_allowed\"") != std::string::npos);
                    CHECK(answer.body.find("--allowed-origin") != std::string::npos);
                }
            }
        }
        // A name that is not this server's: as with DNS rebinding, nothing can be read.
        for (const char* method : {"OPTIONS", "GET"}) {
            auto fields = preflight("https://evil.example");
            fields.emplace_back("Host", "evil.example");
            const auto rebound = client.request(method, "/hello", "", fields);
            CHECK(rebound.status == 421);
            CHECK_FALSE(has_cors(rebound));
        }
    }
    // A text that is no origin is not sent back.
    auto client = server.client();
    for (const char* origin : {"*", ""}) {
        for (const auto& answer : {client.request("OPTIONS", "/echo", "", preflight(origin)),
                                   client.request("GET", "/hello", "", {{"Origin", origin}})}) {
            CHECK(answer.status == 403);
            CHECK_FALSE(has_cors(answer));
        }
    }
    // The control: what the origin is refused is there.
    CHECK(client.request("GET", "/hello", "", {{"Origin", k_app}}).body == R"("hello")");
}

TEST_CASE("without an allowed origin there is nothing of it but in refusals") {
    TestServer closed;
    auto own = closed.client();
    CHECK(own.request("GET", "/hello").header("vary").empty());
    // The server's own pages need no preflight; OPTIONS is no method of a route.
    const std::string self = "http://" + closed.address;
    const auto same = own.request("OPTIONS", "/echo", "", preflight(self));
    CHECK(same.status == 405);
    CHECK_FALSE(has_cors(same));
}

TEST_CASE("an OPTIONS request that is no preflight needs the key as any other") {
    TestServer server(allowing({k_app}));
    HttpClient page(server.address);
    CHECK(page.request("OPTIONS", "/echo", "", {{"Origin", k_app}}).status == 401);
    CHECK(page.request("OPTIONS", "/echo").status == 401);
}

}  // namespace cors_test
