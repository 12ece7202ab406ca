// The limits that requests name: their defaults, their ceilings, and that they are kept.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/api_client.hpp"

namespace sandbox_limits_test {

using namespace atl::test;

TEST_CASE("Limits of sockets and open files have defaults and ceilings of the operator's", "[limits]") {
    ServerOptions options;
    options.arguments = {"--default-max-sockets",    "100", "--max-sockets-per-sandbox",    "200",
                         "--default-max-open-files", "300", "--max-open-files-per-sandbox", "400"};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.create();
    CHECK(made["limits"]["maxSockets"] == 100);
    CHECK(made["limits"]["maxOpenFiles"] == 300);
    CHECK(api.message(made["id"], "ulimit -Hn").output == "300\n");
    const std::string path = "/v1/conversations/" + made["id"].get<std::string>();
    const Json patched = api.call(200, "PATCH", path, R"({"limits":{"maxSockets":200,"maxOpenFiles":400}})");
    CHECK(patched["limits"]["maxSockets"] == 200);
    for (const char* limits : {R"({"limits":{"maxSockets":201}})", R"({"limits":{"maxOpenFiles":401}})"}) {
        INFO(limits);
        for (const auto& [method, target] : {std::pair<const char*, std::string>("POST", "/v1/conversations"),
                                             {"POST", "/v1/sandboxes"},
                                             {"PATCH", path}}) {
            INFO(method << " " << target);
            CHECK(api.call(403, method, target, limits)["code"] == "limit_not_allowed");
        }
    }
}

TEST_CASE("Limits of sockets and open files outlive the server", "[limits]") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create({{"limits", {{"maxSockets", 77}, {"maxOpenFiles", 99}}}})["id"];
        api.call(200, "PATCH", "/v1/conversations/" + id, R"({"limits":{"maxOpenFiles":88}})");
        CHECK(server.stop() == 0);
    }
    // Limits above a ceiling that came later stay, and nothing else is refused for them.
    options.arguments = {"--max-open-files-per-sandbox", "64"};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json limits = api.get(id)["limits"];
    CHECK(limits["maxSockets"] == 77);
    CHECK(limits["maxOpenFiles"] == 88);
    CHECK(api.message(id, "ulimit -Hn").output == "88\n");
    const std::string path = "/v1/conversations/" + id;
    CHECK(api.call(200, "PATCH", path, R"({"limits":{"memoryMb":256}})")["limits"]["maxOpenFiles"] == 88);
    api.call(403, "PATCH", path, R"({"limits":{"maxOpenFiles":89}})");
    CHECK(api.create()["limits"]["maxOpenFiles"] == 64);
}

}  // namespace sandbox_limits_test
