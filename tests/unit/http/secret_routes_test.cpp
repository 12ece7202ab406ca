// The routes of secrets: what goes in, whose it is, and that no value comes out.
#include "tests/support/api_client.hpp"
#include "tests/unit/http/api_server.hpp"

namespace secret_routes_test {

using namespace atl;
using namespace atl::test;

namespace {

const std::string k_body = R"({"value":"sk-live-42424242","hosts":["API.example.com"]})";
const std::string k_path = "/v1/secrets/KEY";
const HeaderList k_alice{{"X-API-Key", "key of alice"}};
const HeaderList k_bob{{"X-API-Key", "key of bob"}};

}  // namespace

TEST_CASE("a secret is stored, replaced, shown without its value, listed and removed") {
    ApiServer server;
    CHECK(server.call_json("GET", "/v1/secrets")["secrets"] == json::array());
    const auto made = server.call("PUT", k_path, k_body);
    CHECK(made.status == 201);
    const json secret = json::parse(made.body);
    CHECK(secret["name"] == "KEY");
    CHECK(secret["hosts"] == json({"api.example.com"}));
    CHECK(secret["userId"] == nullptr);
    CHECK(secret["usable"] == true);
    CHECK(server.call("PUT", k_path, k_body).status == 200);
    const auto shown = server.call("GET", k_path);
    const auto listed = server.call("GET", "/v1/secrets");
    CHECK(json::parse(shown.body)["name"] == "KEY");
    CHECK(json::parse(listed.body)["secrets"] == json::array({json::parse(shown.body)}));
    for (const auto& answer : {made, shown, listed})
        CHECK(answer.body.find("sk-live") == std::string::npos);
    const auto value = server.on_loop(
        [&] { return std::string(server.api().secrets->open("KEY", "", "api.example.com").value().text()); });
    CHECK(value == "sk-live-42424242");
    CHECK(server.call("DELETE", k_path).status == 204);
    CHECK(server.call("GET", k_path).status == 404);
    CHECK(server.call("DELETE", k_path).status == 404);
}

TEST_CASE("a key with a user has that user's secrets alone") {
    ApiServer server;
    CHECK(server.call("PUT", k_path, k_body).status == 201);
    CHECK(server.call_as(k_bob, "GET", k_path).status == 404);
    CHECK(server.call_as(k_alice, "PUT", k_path, k_body).status == 201);
    CHECK(json::parse(server.call_as(k_alice, "GET", k_path).body)["userId"] == "alice");
    CHECK(json::parse(server.call_as(k_alice, "GET", "/v1/secrets").body)["secrets"].size() == 1);
    CHECK(server.call_as(k_bob, "GET", k_path).status == 404);
    CHECK(server.call_as(k_bob, "DELETE", k_path).status == 404);
    CHECK(json::parse(server.call_as(k_bob, "GET", "/v1/secrets").body)["secrets"].empty());
    for (const char* const method : {"GET", "DELETE"})
        CHECK(code_of(server.call_as(k_bob, method, k_path + "?userId=alice")) == "user_not_allowed");
    CHECK(code_of(server.call_as(k_bob, "GET", "/v1/secrets?userId=alice")) == "user_not_allowed");
    CHECK(code_of(server.call_as(k_bob, "PUT", k_path,
                                 R"({"value":"v","hosts":["a.example"],"userId":"alice"})")) ==
          "user_not_allowed");
    // An operator's key has its own without `userId`, and each user's with it.
    CHECK(server.call_json("GET", k_path)["userId"] == nullptr);
    CHECK(server.call_json("GET", k_path + "?userId=alice")["userId"] == "alice");
    CHECK(server.call("PUT", "/v1/secrets/OTHER", R"({"value":"v","hosts":["a.example"],"userId":"alice"})")
              .status == 201);
    CHECK(server.call_json("GET", "/v1/secrets?userId=alice")["secrets"].size() == 2);
    CHECK(server.call("DELETE", "/v1/conversations?userId=alice").status == 200);
    CHECK(server.call_json("GET", "/v1/secrets?userId=alice")["secrets"].empty());
    CHECK(server.call("GET", k_path).status == 200);
}

TEST_CASE("a refused secret is not repeated in the refusal") {
    ApiServer server;
    for (const char* const body :
         {R"({"value":"sk-live-1\n","hosts":["a.example"]})", R"({"value":"sk-live-1","hosts":["a:1"]})",
          R"({"value":["sk-live-1"],"hosts":["a.example"]})", R"({"value":"sk-live-1","hosts":"a.example"})",
          R"({"value":"sk-live-1","hosts":[1]})", R"({"value":"sk-live-1"})",
          R"({"vaule":"sk-live-1","hosts":["a.example"]})",
          R"({"value":"sk-live-1","hosts":["a.example"],"userId":""})",
          R"({"value":"sk-live-1","hosts":["192.0.2.1"]})"}) {
        INFO(body);
        const auto refused = server.call("PUT", k_path, body);
        CHECK(refused.status == 422);
        CHECK(refused.body.find("sk-live") == std::string::npos);
    }
    CHECK(code_of(server.call("PUT", "/v1/secrets/-a", k_body)) == "invalid_field");
    CHECK(code_of(server.call("PUT", k_path, R"({"value":"sk-live-1",)")) == "invalid_json");
    CHECK(server.call_json("GET", "/v1/secrets")["secrets"].empty());
    // The control: it is the body that was refused.
    CHECK(server.call("PUT", k_path, k_body).status == 201);
}

}  // namespace secret_routes_test
