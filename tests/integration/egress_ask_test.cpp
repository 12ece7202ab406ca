// A host that no rule lists, and the person who decides on it.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/integration/asked_host.hpp"
#include "tests/integration/route_walk.hpp"

namespace egress_ask_test {

using namespace atl::test;
using namespace atl::test::routes;

TEST_CASE("A request waits for a person, whose rule is kept") {
    const ServerProcess server(asking_server());
    ApiClient api(server);
    AskedHost asked(api);
    HttpClient client = api.connect();
    const auto decide = [&](const std::string& word) {
        return client.request("POST", asked.route() + "/egress/" + asked.request,
                              R"({"decision":")" + word + "\"}");
    };
    const auto ending = [&] {
        std::string text;
        for (const Json& event : read_until(asked.follower, "done"))
            text += event.dump();
        return text;
    };
    CHECK(decide("perhaps").status == 422);
    CHECK(decide("deny").status == 204);
    CHECK(ending().find("status 403") != std::string::npos);
    CHECK(decide("once").status == 404);

    // Let through, it finds nobody who listens.
    asked.ask(api);
    CHECK(decide("once").status == 204);
    CHECK(ending().find("status 50") != std::string::npos);
    CHECK(api.get(asked.conversation)["network"]["allow"].empty());

    asked.ask(api);
    CHECK(decide("always").status == 204);
    CHECK(ending().find("status 50") != std::string::npos);
    CHECK(api.get(asked.conversation)["network"]["allow"] == Json::array({"127.0.0.1:9"}));
    CHECK(api.get(asked.conversation)["network"]["ask"] == true);
}

TEST_CASE("A request is denied at once where nobody follows the conversation") {
    const ServerProcess server(asking_server());
    ApiClient api(server);
    const Json made = api.create({{"network", {{"mode", "egress"}, {"ask", true}}}});
    const Json refused =
        api.call(200, "POST", "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/exec",
                 R"({"command":"curl -s -o /dev/null -w '%{http_code}' --noproxy '' )"
                 R"(-x http://127.0.0.1:3128 http://127.0.0.1:9/"})");
    CHECK(refused["stdout"] == "403");
    for (const Json& event : api.events(made["id"]))
        CHECK(event["type"] != "egress_request");
}

TEST_CASE("Nobody is asked in a sandbox without a conversation") {
    const ServerProcess server(asking_server());
    ApiClient api(server);
    HttpClient keyed = api.connect();
    const HttpResponse refused =
        keyed.request("POST", "/v1/sandboxes", R"({"network":{"mode":"egress","allow":[],"ask":true}})");
    CHECK(refused.status == 422);
    CHECK(code_of(refused) == "invalid_field");
}

}  // namespace egress_ask_test
