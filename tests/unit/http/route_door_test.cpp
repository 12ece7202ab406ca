// The routes of a sandbox: what their upstreams are asked, with whose headers, and what is refused.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "core/plain/egress_limits.hpp"
#include "http/egress/route_door.hpp"
#include "tests/unit/http/egress_lab.hpp"

namespace route_door_test {

using namespace atl;
using namespace atl::test;
using sandbox::EgressRoute;
using sandbox::EgressSettings;

namespace {

bool has_part(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// The operator has `mine`, for a.example, and `far`, for another host; alice has `hers`.
class FakeSecrets final : public http::EgressSecrets {
  public:
    base::Result<void> check(const std::string& name, const std::string& user_id,
                             const std::string& host) const override {
        const bool is_there = is_gone           ? false
                              : user_id.empty() ? name == "mine" || name == "far"
                                                : name == "hers";
        if (!is_there)
            return base::Error(base::Errc::secret_not_found, "there is no secret \"" + name + '"');
        if (name == "far" || (host != "a.example" && host != "172.16.0.9"))
            return base::Error(base::Errc::secret_host, "it is for other hosts");
        return {};
    }
    base::Result<void> open(const std::string& name, const std::string& user_id, const std::string& host,
                            const std::function<void(std::string_view)>& take) const override {
        auto good = check(name, user_id, host);
        if (good.has_value())
            take("value-of-" + name);
        return good;
    }
    bool is_gone = false;
};

EgressRoute route_to(const std::string& upstream, const std::string& secret = "mine") {
    EgressRoute route;
    route.name = "m";
    route.upstream = upstream;
    route.headers = {{"x-api-key", "", secret}, {"X-Team", "red", ""}};
    return route;
}

EgressSettings settings_of(EgressRoute route, const std::string& user_id = "") {
    EgressSettings settings;
    settings.user_id = user_id;
    settings.routes = {std::move(route)};
    return settings;
}

struct RouteLab : EgressLab {
    explicit RouteLab(const EgressRoute& route, std::vector<EgressRoute> defaults = {},
                      std::shared_ptr<http::EgressReports> reports_ = nullptr)
        : EgressLab(std::vector<std::string>()),
          reports(std::move(reports_)),
          routes(std::make_shared<http::RouteDoor>("box", parts(), door, std::move(defaults),
                                                   settings_of(route))) {}
    ~RouteLab() { end(); }
    RouteLab(const RouteLab&) = delete;
    RouteLab& operator=(const RouteLab&) = delete;
    http::EgressParts parts() {
        http::EgressParts made{policy, {}, {}, {}};
        made.secrets = &secrets;
        made.reports = reports;
        return made;
    }
    void change(const EgressSettings& settings) { routes->change({sandbox::NetworkMode::egress, settings}); }
    std::shared_ptr<FakePeer> ask(std::string_view bytes) { return connect(bytes, *routes->services()); }
    std::string status(const std::string& line) {
        const auto inside = ask(line + " HTTP/1.1\r\nHost: 127.0.0.1:3129\r\n\r\n");
        return take(*inside).substr(0, 12);
    }
    FakeSecrets secrets;
    const std::shared_ptr<http::EgressReports> reports;
    const std::shared_ptr<http::RouteDoor> routes;
};

}  // namespace

TEST_CASE("A request through a route has what the route sets, and nothing of its own that says who asks") {
    RouteLab lab(route_to("https://a.example/v1"));
    const auto inside = lab.ask(
        "POST /m/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:3129\r\nAuthorization: Bearer own\r\n"
        "Proxy-Authorization: Basic own\r\nCookie: a=own\r\nX-API-Key: own\r\nx_api_key: own\r\n"
        "X-Goog-Api-Key: own\r\nx-team: own\r\nX-HTTP-Method-Override: own\r\nX_Original_URL: "
        "/own\r\nX-Kept: 1\r\nContent-Length: 3\r\n\r\nabc");
    REQUIRE(lab.dialed == std::vector<std::string>{"192.0.2.1 443"});
    CHECK(lab.secured == std::vector<std::string>{"a.example"});
    const std::string asked = lab.take(lab.upstream());
    CHECK(asked.starts_with("POST /v1/x?y=1 HTTP/1.1\r\nHost: a.example\r\n"));
    CHECK(asked.ends_with("\r\n\r\nabc"));
    CHECK(has_part(asked, "X-Kept: 1\r\n"));
    CHECK(has_part(asked, "x-api-key: value-of-mine\r\n"));
    CHECK(has_part(asked, "X-Team: red\r\n"));
    CHECK_FALSE(has_part(asked, "own"));

    // A stream is not gathered.
    lab.send(lab.upstream(),
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
             "9\r\ndata: 1\n\n\r\n");
    CHECK(has_part(lab.take(*inside), "data: 1\n\n"));
    lab.send(lab.upstream(), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    CHECK(has_part(lab.take(*inside), "data: 2\n\n"));

    // Another request has a connection of its own, and the name alone is the upstream's own path.
    lab.send(*inside, "GET /m HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(lab.dialed.size() == 2);
    CHECK(lab.take(lab.upstream()).starts_with("GET /v1 HTTP/1.1\r\n"));
    lab.send(lab.upstream(),
             "HTTP/1.1 302 Found\r\nLocation: https://b.example/\r\nContent-Length: 0\r\n\r\n");
    CHECK(has_part(lab.take(*inside), "Location: https://b.example/\r\n"));
    CHECK(lab.dialed.size() == 2);
}

TEST_CASE("Only the methods and paths of a route pass, and no path that has two readings") {
    EgressRoute route = route_to("https://a.example");
    route.methods = {"GET"};
    route.paths = {"/v1/models", "/v1/files/*"};
    RouteLab lab(route);
    for (const char* line :
         {"POST /m/v1/models", "get /m/v1/models", "GET /m/v1/models/x", "GET /m", "GET /m/v1/files",
          "GET /m/v1/files/../models", "GET /m/v1/files/..;/x", "GET /m/v1/files/%2e%2E/x",
          "GET /m/v1/files/a%2Fb", "GET /m/v1/files//x", "GET /m/v1/files/./x", "GET /m/v1/files/%5cx"}) {
        INFO(line);
        CHECK(lab.status(line) == "HTTP/1.1 403");
    }
    CHECK(lab.dialed.empty());
    // Controls.
    for (const char* line : {"GET /m/v1/models", "GET /m/v1/models?x=//..", "GET /m/v1/files/a..b%20c"}) {
        INFO(line);
        CHECK(lab.status(line).empty());
    }
    CHECK(lab.dialed.size() == 3);
    RouteLab open(route_to("https://a.example"));
    CHECK(open.status("DELETE /m/v1//files/../x").empty());
    CHECK(open.take(open.upstream()).starts_with("DELETE /v1//files/../x HTTP/1.1\r\n"));
    // The path of an upstream is a bound, too.
    RouteLab bound(route_to("https://a.example/team"));
    CHECK(bound.status("GET /m/../other") == "HTTP/1.1 403");
    CHECK(bound.status("GET /m/own").empty());
}

TEST_CASE("There is no way but the routes, and none for TRACE and CONNECT") {
    EgressRoute other = route_to("https://mixed.example", "");
    other.headers.clear();
    other.name = "other";
    EgressRoute shadowed = route_to("https://mixed.example", "");
    RouteLab lab(route_to("https://a.example"), {other, shadowed});
    for (const char* line :
         {"GET /", "GET /none/x", "GET /M/x", "GET /m%2Fx", "GET //m", "GET http://a.example/"}) {
        INFO(line);
        CHECK(lab.status(line) == "HTTP/1.1 404");
    }
    CHECK(lab.status("TRACE /m/x") == "HTTP/1.1 405");
    CHECK(lab.status("CONNECT /m/x") == "HTTP/1.1 405");
    CHECK(lab.dialed.empty());
    // Controls: the operator's is there, too, and the sandbox's own goes before one of its name.
    CHECK(lab.status("GET /other/x").empty());
    CHECK(lab.status("GET /m/x").empty());
    CHECK(lab.dialed == std::vector<std::string>{"192.0.2.3 443", "192.0.2.1 443"});
}

TEST_CASE("Requests that no route passes on wait for their turn, too") {
    RouteLab lab(route_to("https://a.example"));
    for (std::uint32_t i = 0; i < base::k_egress_burst_of_sandbox; ++i)
        lab.bounds->await_turn("box", [](const base::Result<void>&) {});
    for (const std::string line : {"TRACE /m/x", "CONNECT /m/x", "GET /none"}) {
        INFO(line);
        const auto inside = lab.ask(line + " HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK(lab.take(*inside).empty());
        lab.advance(base::k_egress_interval);
        CHECK(lab.take(*inside).starts_with("HTTP/1.1 40"));
    }
}

TEST_CASE("A request that its route refuses is reported with the route, its upstream and the reason") {
    using Lines = std::vector<std::string>;
    const auto reports = std::make_shared<ReportedLines>();
    EgressRoute route = route_to("https://a.example");
    route.methods = {"GET"};
    route.paths = {"/v1/*"};
    RouteLab lab(route, {}, reports);
    const auto told = [&](const std::string& line) {
        CHECK(lab.status(line).starts_with("HTTP/1.1 40"));
        return reports->take();
    };
    CHECK(told("POST /m/v1/x") == Lines{"box/m POST a.example:443 rule"});
    CHECK(told("GET /m/v2") == Lines{"box/m GET a.example:443 rule"});
    CHECK(told("GET /m/v1/%2e%2e/v2") == Lines{"box/m GET a.example:443 rule"});
    CHECK(told("TRACE /m/v1/x") == Lines{"box/m TRACE a.example:443 method_not_allowed"});
    CHECK(told("GET /none/v1/x") == Lines{"box GET :0 not_found"});
    // Control.
    const auto inside = lab.ask("GET /m/v1/x HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::size_t sent = lab.take(lab.upstream()).size();
    constexpr std::string_view k_reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    lab.send(lab.upstream(), k_reply);
    CHECK(lab.take(*inside).ends_with("hi"));
    CHECK(reports->take() == Lines{"box/m GET a.example:443 allowed " + std::to_string(sent) + ' ' +
                                   std::to_string(k_reply.size())});
}

TEST_CASE("Plain HTTP goes only to what the operator opens") {
    RouteLab named(route_to("http://a.example:8080"));
    CHECK(named.status("GET /m/x") == "HTTP/1.1 403");
    CHECK(named.dialed.empty());
    RouteLab opened(route_to("http://172.16.0.9:8080"));
    CHECK(opened.status("GET /m/x").empty());
    CHECK(opened.dialed == std::vector<std::string>{"172.16.0.9 8080"});
    CHECK(opened.secured.empty());
    CHECK(has_part(opened.take(opened.upstream()), "Host: 172.16.0.9:8080\r\n"));
}

TEST_CASE("An upstream whose certificate is not good has no byte of the request") {
    RouteLab lab(route_to("https://a.example"));
    lab.has_bad_certificate = true;
    const auto inside = lab.ask("GET /m/x HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = lab.take(*inside);
    CHECK(answer.starts_with("HTTP/1.1 502 "));
    CHECK(has_part(answer, "certificate has expired"));
    CHECK(lab.take(lab.upstream()).empty());
}

TEST_CASE("A secret that is gone, or of another owner, ends the route before the upstream has a byte") {
    RouteLab lab(route_to("https://a.example"));
    lab.secrets.is_gone = true;
    CHECK(lab.status("GET /m/x") == "HTTP/1.1 502");
    CHECK(lab.take(lab.upstream()).empty());
    lab.secrets.is_gone = false;
    CHECK(lab.status("GET /m/x").empty());
    // A user's key cannot keep what an operator's has set.
    lab.change(settings_of(route_to("https://a.example"), "alice"));
    CHECK(lab.status("GET /m/x") == "HTTP/1.1 502");
    lab.change(settings_of(route_to("https://a.example", "hers"), "alice"));
    CHECK(lab.status("GET /m/x").empty());
    CHECK(has_part(lab.take(lab.upstream()), "value-of-hers"));
}

TEST_CASE("A route of a user in an operator's network has that user's secrets, and no others") {
    EgressSettings mixed = settings_of(route_to("https://a.example", "hers"));
    mixed.of_user = {"alice", {"/m"}};
    RouteLab lab(route_to("https://a.example"));
    lab.change(mixed);
    CHECK(lab.status("GET /m/x").empty());
    CHECK(has_part(lab.take(lab.upstream()), "value-of-hers"));
    CHECK(http::check_routes(lab.parts(), mixed).has_value());
    mixed.routes = {route_to("https://a.example", "mine")};
    lab.change(mixed);
    CHECK(lab.status("GET /m/x") == "HTTP/1.1 502");
    CHECK(http::check_routes(lab.parts(), mixed).error().code() == base::Errc::secret_not_found);
    // The control: the same route of the operator's.
    mixed.of_user = {};
    lab.change(mixed);
    CHECK(lab.status("GET /m/x").empty());
    CHECK(has_part(lab.take(lab.upstream()), "value-of-mine"));
}

TEST_CASE("A change of a route cuts what is open by it, and nothing else") {
    EgressRoute kept = route_to("https://mixed.example", "");
    kept.headers.clear();
    kept.name = "kept";
    RouteLab lab(route_to("https://a.example"), {kept});
    const auto gone = lab.ask("GET /m/x HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto stays = lab.ask("GET /kept/x HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(lab.routes->open() == 2);
    lab.change(settings_of(route_to("https://a.example")));
    lab.advance(base::Millis(1));
    CHECK_FALSE(gone->is_closed());
    EgressRoute narrowed = route_to("https://a.example");
    narrowed.paths = {"/y"};
    lab.change(settings_of(narrowed));
    lab.advance(base::Millis(1));
    CHECK(gone->is_closed());
    CHECK_FALSE(stays->is_closed());
    CHECK(lab.routes->open() == 1);
}

TEST_CASE(
    "Without network egress there are no routes, those of the operator neither, until it is set again") {
    EgressRoute operators = route_to("https://mixed.example", "");
    operators.headers.clear();
    operators.name = "operators";
    RouteLab lab(route_to("https://a.example"), {operators});
    const auto open = lab.ask("GET /operators/x HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(lab.routes->open() == 1);
    lab.routes->change({sandbox::NetworkMode::none, {}});
    lab.advance(base::Millis(1));
    CHECK(open->is_closed());
    CHECK(lab.status("GET /operators/x") == "HTTP/1.1 404");
    lab.change({});
    CHECK(lab.status("GET /operators/x").empty());
}

TEST_CASE("Routes are checked as they are set") {
    RouteLab lab(route_to("https://a.example"));
    const auto code = [&](const EgressRoute& route, const std::string& user_id = "") {
        const auto checked = http::check_routes(lab.parts(), settings_of(route, user_id));
        if (checked.has_error())
            CHECK(checked.error().detail().find("\"m\"") != std::string::npos);
        return checked.has_error() ? std::optional(checked.error().code()) : std::nullopt;
    };
    CHECK_FALSE(code(route_to("https://a.example")));
    CHECK_FALSE(code(route_to("https://a.example", "hers"), "alice"));
    CHECK_FALSE(code(route_to("http://172.16.0.9:8080")));
    CHECK(code(route_to("https://a.example", "far")) == base::Errc::secret_host);
    CHECK(code(route_to("https://b.example")) == base::Errc::secret_host);
    CHECK(code(route_to("https://a.example", "none")) == base::Errc::secret_not_found);
    CHECK(code(route_to("https://a.example"), "alice") == base::Errc::secret_not_found);
    CHECK(code(route_to("http://192.0.2.1:8080")) == base::Errc::network_not_allowed);
}

}  // namespace route_door_test
