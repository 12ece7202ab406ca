// The network `egress` as clients set it: what is refused, what is shown, and what a user may list.
#include <catch2/catch_test_macros.hpp>

#include "tests/integration/route_walk.hpp"
#include "tests/support/api_client.hpp"

namespace egress_settings_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

std::string listing(const std::string& rules) {
    return R"({"network":{"mode":"egress","allow":[)" + rules + "]}}";
}

ServerOptions with_ceilings() {
    ServerOptions options;
    options.arguments = {"--egress-allow", "*.example.org", "--egress-private", "127.0.0.1/32:8080"};
    return options;
}

/// The status, and the code of a problem.
std::string answer_of(HttpClient& client, const std::string& method, const std::string& target,
                      const std::string& body) {
    const HttpResponse response = client.request(method, target, body);
    return std::to_string(response.status) + (response.status >= 400 ? ' ' + code_of(response) : "");
}

}  // namespace

TEST_CASE("Without a flag of the operator's nobody gets egress, and the refusal names one") {
    const ServerProcess server;
    ApiClient api(server);
    for (const char* route : {"/v1/conversations", "/v1/sandboxes"}) {
        const HttpResponse refused = api.http().request("POST", route, listing(R"("a.example.org")"));
        CHECK(refused.status == 403);
        CHECK(code_of(refused) == "network_not_allowed");
        CHECK(refused.body.find("--egress-allow") != std::string::npos);
    }
    const std::string id = api.create()["id"];
    CHECK(answer_of(api.http(), "PATCH", "/v1/conversations/" + id, listing("")) ==
          "403 network_not_allowed");
}

TEST_CASE("The network of a conversation is set and shown as a whole, and has what none has") {
    const ServerProcess server(with_ceilings());
    ApiClient api(server);
    const Json made = api.call(201, "POST", "/v1/conversations",
                               listing(R"("A.Example.", "*.example.net:443", "127.0.0.1:8080")"));
    CHECK(made["network"] == Json::parse(R"({"mode":"egress","allow":["a.example","*.example.net:443",)"
                                         R"("127.0.0.1:8080"],"routes":[],"ask":false})"));
    CHECK(made["enforcement"]["network"] == "egress");
    CHECK(made["enforcement"]["sockets"] == "count");
    CHECK(made["sandboxPublicUrl"].is_string());
    const std::string route = "/v1/conversations/" + made["id"].get<std::string>();
    const Json patched = api.call(200, "PATCH", route, listing(R"("b.example")"));
    CHECK(patched["network"]["allow"] == Json::array({"b.example"}));
    CHECK(answer_of(api.http(), "PATCH", route, listing(R"("10.0.0.1:80")")) == "403 network_not_allowed");
    CHECK(answer_of(api.http(), "PATCH", route, listing(R"("127.0.0.1:8081")")) == "403 network_not_allowed");
    CHECK(answer_of(api.http(), "PATCH", route, listing(R"("@nobody")")).starts_with("422 "));
    CHECK(api.get(made["id"])["network"]["allow"] == Json::array({"b.example"}));
    // The mode counts from the next start on.
    const Json off = api.call(200, "PATCH", route, R"({"network":"none"})");
    CHECK(off["network"] == "none");
    CHECK(off["enforcement"]["network"] == "egress");
    CHECK(answer_of(api.http(), "PATCH", route, R"({"preview":{"ports":[3128]}})").starts_with("422 "));
}

TEST_CASE("A sandbox without a conversation has a list that changes, and keeps its mode") {
    const ServerProcess server(with_ceilings());
    ApiClient api(server);
    const std::string id = api.call(201, "POST", "/v1/sandboxes", listing(R"("a.example")"))["id"];
    const std::string route = "/v1/sandboxes/" + id;
    CHECK(api.call(200, "PATCH", route, listing(R"("b.example")"))["network"]["allow"] ==
          Json::array({"b.example"}));
    CHECK(answer_of(api.http(), "PATCH", route, R"({"network":"none"})").starts_with("422 "));
    const std::string closed = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    CHECK(answer_of(api.http(), "PATCH", "/v1/sandboxes/" + closed, listing(R"("a.example")"))
              .starts_with("422 "));
}

TEST_CASE("A key with a user lists what the operator's patterns match, and no address") {
    const ServerProcess server(with_ceilings());
    HttpClient alice = client_with(server, add_key(server, {"web", "--user-id", "alice"}).secret);
    const auto create = [&](const std::string& rules) {
        return answer_of(alice, "POST", "/v1/conversations", listing(rules));
    };
    CHECK(create(R"("a.example.org", "*.b.example.org:443")") == "201");
    for (const char* rules : {R"("elsewhere.example")", R"("a.example.org:22")", R"("a.example.org:443/tcp")",
                              R"("*")", R"("127.0.0.1:8080")", R"("1.1.1.1")"}) {
        INFO(rules);
        CHECK(create(rules) == "403 network_not_allowed");
    }
    ApiClient api(server);
    const Json wide = api.call(201, "POST", "/v1/conversations", R"({"network":"none","userId":"alice"})");
    const std::string route = "/v1/conversations/" + wide["id"].get<std::string>();
    api.call(200, "PATCH", route, listing(R"("elsewhere.example")"));
    CHECK(answer_of(alice, "PATCH", route, listing(R"("elsewhere.example")")) == "403 network_not_allowed");
    CHECK(answer_of(alice, "PATCH", route, listing(R"("a.example.org")")) == "200");
}

}  // namespace egress_settings_test
