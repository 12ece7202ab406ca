// The limits that requests name: their defaults, their ceilings, and that they are kept.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

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

TEST_CASE("The size of /tmp is a limit of its own, for the next start, and kept with the conversation",
          "[limits]") {
    ServerOptions options;
    options.arguments = {"--max-tmp-mb-per-sandbox", "300"};
    const ServerProcess server(options);
    ApiClient api(server);
    constexpr const char* k_size = "df -m --output=size /tmp | tail -n 1 | tr -d ' '";
    const Json plain = api.create();
    CHECK(plain["limits"]["tmpMb"] == 256);
    CHECK(plain["enforcement"]["tmp"] == "tmpfs");
    CHECK(api.message(plain["id"], k_size).output == "256\n");
    const Json made = api.create({{"limits", {{"tmpMb", 8}}}});
    const std::string id = made["id"];
    CHECK(made["limits"]["tmpMb"] == 8);
    CHECK(api.message(id, k_size).output == "8\n");
    const std::string full =
        api.message(id, "head -c 9000000 /dev/zero > /tmp/file; stat -c %s /tmp/file").output;
    CHECK(full.find("No space left on device") != std::string::npos);
    const std::string path = "/v1/conversations/" + id;
    CHECK(api.call(403, "PATCH", path, R"({"limits":{"tmpMb":301}})")["code"] == "limit_not_allowed");
    CHECK(api.call(422, "PATCH", path, R"({"limits":{"tmpMb":0}})")["code"] == "invalid_field");
    CHECK(api.call(200, "PATCH", path, R"({"limits":{"tmpMb":20}})")["limits"]["tmpMb"] == 20);
    CHECK(api.message(id, k_size).output == "8\n");
    api.call(200, "POST", path + "/pause");
    CHECK(api.message(id, k_size).output == "20\n");
    CHECK(api.get(id)["limits"]["tmpMb"] == 20);
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

TEST_CASE("A sandbox without a conversation is changed, and the changes outlast the server") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path() / "data";
    std::filesystem::create_directory(options.data_dir);
    std::string path;
    {
        const ServerProcess server(options);
        ApiClient api(server);
        path = "/v1/sandboxes/" + api.call(201, "POST", "/v1/sandboxes", "{}")["id"].get<std::string>();
        const Json changed = api.call(200, "PATCH", path,
                                      R"({"preview":{"access":"private","ports":[3000,8080]},)"
                                      R"("limits":{"maxProcesses":32},"ttlSeconds":3600})");
        CHECK(changed["preview"] == Json{{"access", "private"}, {"wake", true}, {"ports", {3000, 8080}}});
        CHECK(changed["limits"]["maxProcesses"] == 32);
        CHECK(changed["limits"]["memoryMb"] == 2048);
        CHECK(api.call(200, "PATCH", path, "{}")["limits"]["maxProcesses"] == 32);
        // There is no next start for which they would count.
        for (const char* limits : {R"({"limits":{"tmpMb":20}})", R"({"limits":{"maxOpenFiles":88}})"})
            CHECK(api.call(422, "PATCH", path, limits)["code"] == "invalid_field");
        CHECK(api.call(422, "PATCH", path, R"({"env":{}})")["code"] == "unknown_field");
        CHECK(api.call(422, "PATCH", path, R"({"preview":{"ports":[0]}})")["code"] == "invalid_field");
        const Json owned = api.create({{"agent", "echo"}});
        const std::string of_conversation = "/v1/sandboxes/" + owned["sandboxId"].get<std::string>();
        CHECK(api.call(409, "PATCH", of_conversation, R"({"ttlSeconds":9})")["code"] == "sandbox_in_use");
        CHECK(api.call(404, "PATCH", "/v1/sandboxes/" + std::string(20, 'a'), "{}")["code"] == "not_found");
        const Json shortly = api.call(201, "POST", "/v1/sandboxes", "{}");
        const std::string brief = "/v1/sandboxes/" + shortly["id"].get<std::string>();
        api.call(200, "PATCH", brief, R"({"ttlSeconds":1})");
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (api.http().request("GET", brief).status != 404)
            REQUIRE(std::chrono::steady_clock::now() < until);
    }
    const ServerProcess again(options);
    ApiClient api(again);
    const Json kept = api.call(200, "GET", path);
    CHECK(kept["preview"]["ports"] == Json{3000, 8080});
    CHECK(kept["limits"]["maxProcesses"] == 32);
}

}  // namespace sandbox_limits_test
