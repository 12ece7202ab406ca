// Several services on one server: which of them answers, and how differently they may.
#include "http/server/services.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/test_server.hpp"

namespace services_test {

using namespace atl;
using namespace atl::test;

namespace {

base::Task<base::Result<http::Response>> async_nothing(http::RequestContext&) {
    co_return http::Response{};
}

/// Errors as plain text, a password in a field of its own, bodies of at most ten bytes.
class PlainService final : public http::Service {
  public:
    explicit PlainService(std::string name) : name_(std::move(name)) {}

    base::Result<http::CountLimiter::Lease> connect(const http::PeerAddress&) override {
        if (full)
            return base::Error(base::Errc::too_many_connections, "full");
        return http::CountLimiter::Lease();
    }
    http::Decision admit(http::RequestContext& context, const http::Arrival& arrival) override {
        http::Decision decision;
        if (context.request.header("X-Password") != "sesame" ||
            arrival.reach != http::ListenerScope::loopback) {
            decision.refusal = refuse(context, base::Error(base::Errc::unauthorized, "say the word"));
            return decision;
        }
        decision.handler = &handler_;
        decision.body = http::BodyKind::json;
        decision.max_body_bytes = 10;
        return decision;
    }
    http::Response refuse(const http::RequestContext&, const base::Error& error) override {
        http::Response response;
        response.status = error.code() == base::Errc::unauthorized ? 403 : 418;
        response.content_type = "text/plain";
        response.body = name_ + ": " + error.detail();
        return response;
    }
    void complete(const http::Request&, http::Response& response) override {
        response.headers.emplace_back("X-Service", name_);
    }

    bool full = false;

  private:
    static base::Task<base::Result<http::Response>> async_answer(PlainService& self,
                                                                 http::RequestContext& context) {
        if (context.request.path == "/fails")
            co_return base::Error(base::Errc::not_found, "nothing here");
        if (context.request.path == "/throws")
            throw std::runtime_error("a secret");
        http::Response response;
        response.content_type = "text/plain";
        response.body = self.name_ + ' ' + context.request.body;
        co_return response;
    }

    std::string name_;
    http::Handler handler_ = [this](http::RequestContext& context) { return async_answer(*this, context); };
};

/// The API's gate and a plain service on one listener, by host; another plain service on a listener of its
/// own.
class ServicesServer final : public ServerThread {
  public:
    explicit ServicesServer(const TestSettings& settings = {}) {
        std::vector<http::Route> routes;
        routes.push_back({http::Method::get, "/v1/nothing", "nothing", "", async_nothing});
        prepare(settings, http::Router(std::move(routes)));
        http::Services shared(gate());
        shared.add("*.preview.localhost", preview).add("exact.localhost", preview);
        address = server().listen("127.0.0.1:0", std::move(shared)).value().front();
        own_address = server().listen("127.0.0.1:0", own).value().front();
        run();
    }
    ~ServicesServer() { finish(); }

    std::uint64_t answered(const http::Service& service, unsigned status) {
        return on_loop([&] { return service.responses().at(status); });
    }
    std::uint64_t answered_by_all(unsigned status) {
        return on_loop([&] { return server().responses().at(status); });
    }
    const http::Service& api() { return gate(); }

    PlainService preview{"preview"};
    PlainService own{"own"};
    std::string own_address;
};

const HeaderList k_preview{{"Host", "a.Preview.localhost:4100"}, {"X-Password", "sesame"}};

}  // namespace

TEST_CASE("a host name selects a service: an exact one first, then the longest domain") {
    PlainService any("any"), host("host"), domain("domain"), below("below");
    http::Services services(any);
    services.add("*.example.com", domain).add("*.a.example.com", below).add("x.a.example.com", host);
    const auto is = [&](std::string_view authority, const http::Service& service) {
        INFO(authority);
        CHECK(&services.find(authority) == &service);
    };
    is("x.a.example.com", host);
    is("X.A.Example.COM:443", host);
    is("x.a.example.com.", host);
    is("x.a.example.com.:80", host);
    is("y.a.example.com", below);
    is("z.y.a.example.com", below);
    is("a.example.com", domain);
    is("b.example.com:1", domain);
    for (const auto* authority : {"example.com", ".example.com.evil", "example.com.evil", "aexample.com", "",
                                  "x.a.example.com:http", "[::1]:80", "127.0.0.1", ":80", "."})
        is(authority, any);
}

TEST_CASE("what is no host name, or is given twice, makes no service") {
    PlainService any("any");
    http::Services services(any);
    services.add("a.example", any).add("*.example", any);
    for (const auto* pattern :
         {"", "*.", "*", "a.*.b", "a.example:80", "https://a", "A.example", "*.EXAMPLE", "a.", "a/b"}) {
        INFO(pattern);
        CHECK_THROWS(services.add(pattern, any));
    }
}

TEST_CASE("two services share a listener by host, with errors and credentials of their own") {
    ServicesServer server;
    HttpClient client(server.address);
    const auto problem = client.request("GET", "/v1/nothing");
    CHECK(problem.status == 401);
    CHECK(problem.header("content-type") == "application/problem+json");
    CHECK(problem.header("x-service").empty());
    // The same connection, request for request.
    for (int i = 0; i < 2; ++i) {
        const auto plain = client.request("GET", "/v1/nothing", "", k_preview);
        CHECK(plain.status == 200);
        CHECK(plain.body == "preview ");
        CHECK(plain.header("x-service") == "preview");
        CHECK(client.request("GET", "/v1/nothing", "", {{"X-API-Key", k_test_key}}).status == 200);
    }
    const auto refused =
        client.request("GET", "/", "", {{"Host", "exact.localhost"}, {"X-API-Key", k_test_key}});
    CHECK(refused.status == 403);
    CHECK(refused.header("content-type") == "text/plain");
    CHECK(refused.body == "preview: say the word");
    CHECK(client.request("GET", "/v1/nothing", "", {{"X-Password", "sesame"}}).status == 401);
    CHECK(client.request("GET", "http://b.preview.localhost/", "", {{"X-Password", "sesame"}}).body ==
          "preview ");
    CHECK(server.connections() == 1);
    CHECK(server.answered(server.api(), 200) == 2);
    CHECK(server.answered(server.api(), 401) == 2);
    CHECK(server.answered(server.preview, 200) == 3);
    CHECK(server.answered(server.preview, 401) == 0);
    CHECK(server.answered(server.preview, 403) == 1);
    CHECK(server.answered_by_all(200) == 5);
}

TEST_CASE("a service has a listener of its own") {
    ServicesServer server;
    HttpClient client(server.own_address, {{"X-Password", "sesame"}});
    CHECK(client.request("GET", "/v1/nothing", "", {{"X-API-Key", k_test_key}}).body == "own ");
    CHECK(client.request("GET", "/", "", k_preview).body == "own ");
    CHECK(server.answered(server.own, 200) == 2);
    CHECK(server.answered(server.preview, 200) == 0);
}

TEST_CASE("all errors of a service have its form") {
    ServicesServer server;
    HttpClient client(server.own_address, {{"X-Password", "sesame"}});
    CHECK(client.request("GET", "/fails").body == "own: nothing here");
    const auto defect = client.request("GET", "/throws");
    CHECK(defect.status == 418);
    CHECK(defect.body == "own: ");
    CHECK(client.request("POST", "/", "ten bytes!").body == "own ten bytes!");
    const auto large = client.request("POST", "/", "eleven byte");
    CHECK(large.body == "own: The body may have 10 bytes.");
    CHECK(large.header("x-service") == "own");
    client.send_raw("not HTTP\r\n\r\n");
    const auto unread = client.read_response();
    CHECK(unread.status == 418);
    CHECK(unread.body.starts_with("own: "));
    CHECK(unread.header("x-service") == "own");
    // A request that cannot be read names no host: the listener's service for any host answers.
    HttpClient shared(server.address);
    shared.send_raw("GET / HTTP/1.1\r\nHost: a.preview.localhost\r\nHost: b\r\n\r\n");
    CHECK(shared.read_response().header("content-type") == "application/problem+json");
}

TEST_CASE("a service refuses connections in its own form") {
    ServicesServer server;
    server.on_loop([&] { server.own.full = true; });
    HttpClient client(server.own_address);
    client.connect();
    CHECK(client.read_response().body == "own: full");
    CHECK(server.answered(server.own, 418) == 1);
    CHECK(HttpClient(server.address).request("GET", "/v1/nothing").status == 401);
}

TEST_CASE("limits of one service are not those of another") {
    TestSettings settings;
    settings.limits.requests_per_second_per_address = 1;
    settings.limits.loopback = http::LoopbackLimits::as_others;
    ServicesServer server(settings);
    HttpClient client(server.address);
    int refused = 0;
    for (int i = 0; i < 20; ++i)
        refused +=
            client.request("GET", "/v1/nothing", "", {{"X-API-Key", k_test_key}}).status == 429 ? 1 : 0;
    CHECK(refused > 0);
    for (int i = 0; i < 20; ++i)
        CHECK(client.request("GET", "/", "", k_preview).status == 200);
}

}  // namespace services_test
