// A list of hosts over the life of a sandbox: pauses, a crash of the server, a change while it rests.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace isolation_egress_life_test {

using namespace atl::test;

namespace {

Json listing(const std::string& rule) {
    return {{"network", {{"mode", "egress"}, {"allow", {rule}}}}};
}

std::string route_of(const std::string& id, const std::string& action = "") {
    return "/v1/conversations/" + id + action;
}

}  // namespace

TEST_CASE("A list holds over pauses and a crash of the server, and for a sandbox without a conversation") {
    const HostServices services;
    const TempDir data;
    const std::string rule = "127.0.0.1:" + services.port();
    ServerOptions options;
    options.arguments = {"--egress-private", "127.0.0.1/32:" + services.port()};
    options.data_dir = data.path();
    const std::string fetch =
        "curl --silent --max-time 60 --noproxy '' --proxy http://127.0.0.1:3128 http://" + rule + "/";
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create(listing(rule))["id"];
        CHECK(api.message(id, fetch).output == "answer");
        for (const char* mode : {R"({"mode":"warm"})", R"({"mode":"cold"})"}) {
            INFO(mode);
            api.call(200, "POST", route_of(id, "/pause"), mode);
            CHECK(api.message(id, fetch).output == "answer");
        }
        server.kill_hard();
    }
    ServerProcess server(options);
    ApiClient api(server);
    CHECK(api.message(id, fetch).output == "answer");
    api.call(200, "POST", route_of(id, "/pause"));
    api.call(200, "PATCH", route_of(id), R"({"network":"none"})");
    // Nobody listens there: curl could not connect.
    CHECK(api.message(id, fetch + "; echo $?").output == "7\n");

    const std::string alone = api.call(201, "POST", "/v1/sandboxes", listing(rule).dump())["id"];
    const Json command{{"command", fetch}};
    const Json ran = api.call(200, "POST", "/v1/sandboxes/" + alone + "/exec", command.dump());
    CHECK(ran["stdout"] == "answer");
}

}  // namespace isolation_egress_life_test
