// The warm pool end to end: which conversations get a sandbox from it, and the end of unclaimed sandboxes.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <set>

#include "tests/support/api_client.hpp"

namespace pool_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

std::size_t ready(ApiClient& api) {
    return api.call(200, "GET", "/v1/system")["pool"][0]["ready"];
}

void await_ready(ApiClient& api, std::size_t wanted) {
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (ready(api) != wanted)
        REQUIRE(std::chrono::steady_clock::now() < until);
}

std::set<std::string> workspaces(const ServerProcess& server) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(server.data_dir() / "workspaces"))
        names.insert(entry.path().filename());
    return names;
}

ServerOptions with_pool(const std::string& pool) {
    ServerOptions options;
    options.arguments = {"--pool", pool};
    return options;
}

}  // namespace

TEST_CASE("A ceiling below the default leaves the pool of use: its sandboxes have the lowered limits") {
    ServerOptions options = with_pool("shell=1");
    options.arguments.insert(options.arguments.end(), {"--max-memory-mb-per-sandbox", "1024"});
    const ServerProcess server(options);
    ApiClient api(server);
    await_ready(api, 1);
    const auto made_ahead = workspaces(server);
    const Json made = api.create();
    CHECK(made["limits"]["memoryMb"] == 1024);
    CHECK(made_ahead.contains(made["sandboxId"].get<std::string>()));
}

TEST_CASE("A conversation from the pool is as any other, and its sandbox was never anyone else's") {
    const ServerProcess server(with_pool("shell=2"));
    ApiClient api(server);
    await_ready(api, 2);
    const auto made_ahead = workspaces(server);
    REQUIRE(made_ahead.size() == 2);
    CHECK(api.call(200, "GET", "/v1/sandboxes")["items"].empty());
    std::set<std::string> sandboxes;
    std::set<uid_t> owners;
    for (int i = 0; i < 2; ++i) {
        const Json made = api.create({{"userId", "alice"}, {"metadata", {{"n", i}}}});
        const std::string id = made["id"];
        const std::string sandbox = made["sandboxId"];
        CHECK(made["status"] == "active");
        CHECK(made["generation"] == 1);
        CHECK(made["userId"] == "alice");
        CHECK(made_ahead.contains(sandbox));
        CHECK(sandboxes.insert(sandbox).second);
        const Turn turn = api.message(id, "echo $ASH_SESSION_ID $ASH_SANDBOX_ID; ls -A; touch mine");
        CHECK(turn.output == id + " " + sandbox + "\n");
        struct stat workspace {};
        REQUIRE(::stat((server.data_dir() / "workspaces" / sandbox).c_str(), &workspace) == 0);
        owners.insert(workspace.st_uid);
        const auto events = api.events(id);
        REQUIRE(events.size() > 2);
        CHECK(events[0]["type"] == "session_start");
        CHECK(events[1]["type"] == "sandbox_ready");
        CHECK(api.call(200, "GET", "/v1/sandboxes/" + sandbox)["conversationId"] == id);
    }
    if (is_root())
        CHECK(owners.size() == 2);
    // Claimed sandboxes are replaced.
    await_ready(api, 2);
    for (const std::string& name : workspaces(server))
        CHECK((sandboxes.contains(name) || !made_ahead.contains(name)));
}

TEST_CASE("A request that differs from the pool's sandboxes gets one of its own") {
    const ServerProcess server(with_pool("shell=1"));
    ApiClient api(server);
    await_ready(api, 1);
    const std::string pooled = *workspaces(server).begin();
    CHECK(api.create({{"env", {{"A", "b"}}}})["sandboxId"] != pooled);
    CHECK(api.create({{"limits", {{"diskMb", 77}}}})["sandboxId"] != pooled);
    CHECK(api.create({{"agent", "echo"}})["sandboxId"] != pooled);
    CHECK(ready(api) == 1);
    CHECK(api.create()["sandboxId"] == pooled);
}

TEST_CASE("A pool gives way where the server is full") {
    ServerOptions options = with_pool("shell=2");
    options.arguments.insert(options.arguments.end(), {"--max-sandboxes", "2"});
    const ServerProcess server(options);
    ApiClient api(server);
    await_ready(api, 2);
    const std::string first = api.create({{"agent", "echo"}})["id"];
    CHECK(api.create({{"agent", "echo"}})["status"] == "active");
    CHECK(ready(api) == 0);
    CHECK(api.call(503, "POST", "/v1/conversations", "{}")["code"] == "capacity");
    // The place that gets free is the pool's again.
    api.remove(first);
    await_ready(api, 1);
}

TEST_CASE("A sandbox of the pool that dies is replaced and never given out") {
    const ServerProcess server(with_pool("shell=1"));
    ApiClient api(server);
    await_ready(api, 1);
    const auto before = workspaces(server);
    // Besides its helpers, the server has only processes of the pool: kill each bwrap.
    for (const pid_t pid : descendants(server.pid())) {
        std::error_code ignored;
        const auto name = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", ignored).filename();
        if (name == "bwrap")
            ::kill(pid, SIGKILL);
    }
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (workspaces(server) == before || ready(api) != 1)
        REQUIRE(std::chrono::steady_clock::now() < until);
    const Json made = api.create();
    CHECK_FALSE(before.contains(made["sandboxId"]));
    CHECK(api.message(made["id"], "echo fine").output == "fine\n");
}

TEST_CASE("Nothing of an unclaimed sandbox survives its server, however that ends") {
    const TempDir dir;
    ServerOptions options = with_pool("shell=2");
    options.data_dir = dir.path();
    std::string kept;
    std::set<std::string> unclaimed;
    {
        ServerProcess server(options);
        ApiClient api(server);
        await_ready(api, 2);
        kept = api.create()["sandboxId"];
        await_ready(api, 2);
        unclaimed = workspaces(server);
        unclaimed.erase(kept);
        const auto processes = open_pidfds(descendants(server.pid()));
        server.kill_hard();
        CHECK(await_gone(processes, k_client_deadline));
    }
    ServerProcess server(options);
    ApiClient api(server);
    await_ready(api, 2);
    auto now = workspaces(server);
    CHECK(now.contains(kept));
    for (const std::string& id : unclaimed)
        CHECK_FALSE(now.contains(id));
    CHECK(server.stop() == 0);
    CHECK(workspaces(server) == std::set<std::string>{kept});
}

TEST_CASE("A pool for an agent that is not configured is refused at the start") {
    const auto run = run_server({"--pool", "nobody=1"});
    CHECK(run.status != 0);
    CHECK(run.output.find("--pool names nobody") != std::string::npos);
}

}  // namespace pool_test
