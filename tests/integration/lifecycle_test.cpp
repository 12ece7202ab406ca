// Warm and cold pauses, their ends, and the choice of the evicted sandbox when no place is left.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/support/api_client.hpp"

namespace lifecycle_test {

using namespace atl::test;

namespace {

std::string path_of(const std::string& id, const std::string& action = "") {
    return "/v1/conversations/" + id + action;
}

Json pause_warm(ApiClient& api, const std::string& id) {
    return api.call(200, "POST", path_of(id, "/pause"), R"({"mode":"warm"})");
}

void require_freezer(ApiClient& api) {
    if (api.call(200, "GET", "/v1/system")["warmPause"] == "none")
        SKIP("no cgroup freezer on this host that this user may write to");
}

Json last_of(const std::vector<Json>& events, const std::string& type) {
    const auto found = std::find_if(events.rbegin(), events.rend(),
                                    [&](const Json& event) { return event["type"] == type; });
    return found == events.rend() ? Json() : (*found)["data"];
}

/// Waits until the conversation's sandbox has this status; the conversation.
Json await_sandbox(ApiClient& api, const std::string& id, const std::string& status) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    Json now;
    do {
        now = api.get(id);
    } while (now["sandboxStatus"] != status && std::chrono::steady_clock::now() < deadline);
    CHECK(now["sandboxStatus"] == status);
    return now;
}

ServerOptions with(std::vector<std::string> arguments) {
    ServerOptions options;
    options.arguments = std::move(arguments);
    return options;
}

}  // namespace

TEST_CASE("A conversation that is paused warm goes on where it was, with a message or a resume") {
    const ServerProcess server;
    ApiClient api(server);
    require_freezer(api);
    const std::string id = api.create()["id"];
    // Files in /tmp do not outlive the sandbox.
    api.message(id, "echo kept > /tmp/file");
    const Json paused = pause_warm(api, id);
    CHECK(paused["status"] == "paused");
    CHECK(paused["statusReason"] == "user");
    CHECK(paused["sandboxStatus"] == "frozen");
    CHECK(last_of(api.events(id), "sandbox_paused")["mode"] == "warm");
    CHECK(api.call(200, "GET", "/v1/system")["capacity"]["livingSandboxes"] == 1);
    CHECK(pause_warm(api, id)["sandboxStatus"] == "frozen");

    CHECK(api.message(id, "cat /tmp/file").output == "kept\n");
    CHECK(api.get(id)["generation"] == 1);
    CHECK(last_of(api.events(id), "sandbox_resumed") == Json{{"generation", 1}, {"mode", "warm"}});

    pause_warm(api, id);
    const Json resumed = api.call(200, "POST", path_of(id, "/resume"));
    CHECK(resumed["status"] == "active");
    CHECK(resumed["sandboxStatus"] == "ready");
    CHECK(resumed["generation"] == 1);
    CHECK(api.message(id, "cat /tmp/file").output == "kept\n");

    pause_warm(api, id);
    const Json cold = api.call(200, "POST", path_of(id, "/pause"), R"({"mode":"cold"})");
    CHECK(cold["sandboxStatus"] == "terminated");
    CHECK(last_of(api.events(id), "sandbox_paused")["mode"] == "cold");
    CHECK(api.message(id, "ls /tmp").output == "");
    CHECK(api.get(id)["generation"] == 2);
}

TEST_CASE("A cold resume starts a new sandbox on the same workspace") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    api.message(id, "echo kept > file");
    api.call(200, "POST", path_of(id, "/pause"));
    const Json resumed = api.call(200, "POST", path_of(id, "/resume"));
    CHECK(resumed["status"] == "active");
    CHECK(resumed["generation"] == 2);
    CHECK(last_of(api.events(id), "sandbox_resumed") == Json{{"generation", 2}, {"mode", "cold"}});
    CHECK(api.message(id, "cat file").output == "kept\n");
}

TEST_CASE("An open turn is not frozen: a warm pause is refused and the turn goes on") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    HttpClient client = api.connect();
    client.open_stream("POST", path_of(id, "/messages"),
                       R"({"content":"mkfifo fifo; echo up; read -r line < fifo"})",
                       {{"Accept", "text/event-stream"}});
    read_until(client, "text_delta");
    CHECK(api.call(409, "POST", path_of(id, "/pause"), R"({"mode":"warm"})")["code"] == "turn_in_progress");
    CHECK(api.get(id)["status"] == "active");
    CHECK(api.call(422, "POST", path_of(id, "/pause"), R"({"mode":"hot"})")["code"] == "invalid_field");
    api.call(200, "POST", path_of(id, "/interrupt"));
    CHECK(summarise(read_until(client, "done")).exit_code.value_or(0) == 130);
}

TEST_CASE("A frozen sandbox can be deleted, and nothing of it is left") {
    const ServerProcess server;
    ApiClient api(server);
    require_freezer(api);
    const std::string id = api.create()["id"];
    api.message(id, "sleep 1000 >/dev/null 2>&1 &");
    const auto processes = open_pidfds(descendants(server.pid()));
    pause_warm(api, id);
    api.remove(id);
    CHECK(std::filesystem::is_empty(server.data_dir() / "workspaces"));
    CHECK(api.call(200, "GET", "/v1/system")["capacity"]["livingSandboxes"] == 0);
    const std::string other = api.create()["id"];
    CHECK(api.message(other, "echo fine").output == "fine\n");
}

TEST_CASE("A frozen sandbox does not outlive its server, killed or stopped, and its conversation goes on") {
    const TempDir data;
    std::string id;
    std::vector<atl::base::UniqueFd> killed;
    for (const bool hard : {true, false}) {
        ServerOptions options;
        options.data_dir = data.path();
        ServerProcess server(options);
        ApiClient api(server);
        require_freezer(api);
        CHECK(await_gone(killed, k_client_deadline));
        if (id.empty()) {
            id = api.create()["id"];
        } else {
            CHECK(api.get(id)["status"] == "paused");
            CHECK(api.get(id)["statusReason"] == "user");
            CHECK(api.get(id)["sandboxStatus"] == "terminated");
        }
        CHECK(api.message(id, "echo alive").output == "alive\n");
        pause_warm(api, id);
        killed = open_pidfds(descendants(server.pid()));
        if (hard)
            server.kill_hard();
        else
            CHECK(server.stop() == 0);
    }
    CHECK(await_gone(killed, k_client_deadline));
}

TEST_CASE("A warm pause ends when its time is over, and the conversation stays paused for its reason") {
    const ServerProcess server(with({"--warm-limit", "1"}));
    ApiClient api(server);
    require_freezer(api);
    const std::string id = api.create()["id"];
    pause_warm(api, id);
    const Json cold = await_sandbox(api, id, "terminated");
    // It lasts a second, in which a slow client sees nothing of it.
    const auto events = api.events(id);
    CHECK(std::ranges::any_of(events, [](const Json& event) {
        return event["type"] == "sandbox_paused" && event["data"]["mode"] == "warm";
    }));
    CHECK(cold["status"] == "paused");
    CHECK(cold["statusReason"] == "user");
    CHECK(api.message(id, "echo back").output == "back\n");
    CHECK(api.get(id)["generation"] == 2);
}

TEST_CASE("Without warm pauses every pause ends the sandbox") {
    const ServerProcess server(with({"--warm-limit", "0"}));
    ApiClient api(server);
    CHECK(api.call(200, "GET", "/v1/system")["warmPause"] == "none");
    const std::string id = api.create()["id"];
    CHECK(pause_warm(api, id)["sandboxStatus"] == "terminated");
    CHECK(last_of(api.events(id), "sandbox_paused")["mode"] == "cold");
}

TEST_CASE("An idle conversation is paused warm, its time to live goes on") {
    const ServerProcess server;
    ApiClient api(server);
    require_freezer(api);
    const std::string id = api.create({{"idleSeconds", 1}})["id"];
    const Json idle = await_sandbox(api, id, "frozen");
    CHECK(idle["status"] == "paused");
    CHECK(idle["statusReason"] == "idle");
    CHECK(api.message(id, "echo back").output == "back\n");
    CHECK(api.get(id)["generation"] == 1);
    await_sandbox(api, id, "frozen");
    api.call(200, "PATCH", path_of(id), R"({"ttlSeconds":1})");
    api.await_status(id, "ended");
}

TEST_CASE("A full server ends the sandbox that was idle for longest, and its conversation comes back") {
    const ServerProcess server(with({"--max-sandboxes", "2", "--evict-idle", "0"}));
    ApiClient api(server);
    const std::string oldest = api.create()["id"];
    const std::string middle = api.create()["id"];
    api.message(oldest, "echo kept > file");
    api.message(middle, "true");
    const std::string newest = api.create()["id"];
    const Json evicted = api.get(oldest);
    CHECK(evicted["status"] == "paused");
    CHECK(evicted["statusReason"] == "evicted");
    CHECK(api.get(middle)["status"] == "active");
    CHECK(last_of(api.events(oldest), "sandbox_paused")["reason"] == "evicted");
    // Its next message evicts the next sandbox.
    CHECK(api.message(oldest, "cat file").output == "kept\n");
    CHECK(api.get(middle)["statusReason"] == "evicted");
    CHECK(api.get(newest)["status"] == "active");
    // So do sandboxes without a conversation; they themselves are never evicted.
    api.call(201, "POST", "/v1/sandboxes", "{}");
    api.call(201, "POST", "/v1/sandboxes", "{}");
    CHECK(api.call(503, "POST", "/v1/conversations", "{}")["code"] == "capacity");
    CHECK(api.call(503, "POST", path_of(oldest, "/resume"))["code"] == "capacity");
    CHECK(api.call(503, "POST", path_of(oldest, "/messages"), R"({"content":"x"})")["code"] == "capacity");
    CHECK(api.get(oldest)["status"] == "paused");
}

TEST_CASE("Whoever works, is followed, or was active a moment ago keeps the sandbox") {
    const ServerProcess server(with({"--max-sandboxes", "2", "--evict-idle", "0"}));
    ApiClient api(server);
    const std::string working = api.create()["id"];
    const std::string followed = api.create()["id"];
    HttpClient worker = api.connect();
    worker.open_stream("POST", path_of(working, "/messages"), R"({"content":"echo up; sleep 1000"})",
                       {{"Accept", "text/event-stream"}});
    read_until(worker, "text_delta");
    HttpClient follower = api.connect();
    follower.open_stream("GET", path_of(followed, "/events"), "", {{"Accept", "text/event-stream"}});
    read_until(follower, "sandbox_ready");
    const auto full = api.http().request("POST", "/v1/conversations", "{}");
    CHECK(full.status == 503);
    CHECK(Json::parse(full.body)["code"] == "capacity");
    CHECK_FALSE(full.header("retry-after").empty());
    CHECK(api.get(working)["status"] == "active");
    CHECK(api.get(followed)["status"] == "active");

    const ServerProcess patient(with({"--max-sandboxes", "1", "--evict-idle", "1000"}));
    ApiClient other(patient);
    const std::string recent = other.create()["id"];
    const auto later = other.http().request("POST", "/v1/conversations", "{}");
    CHECK(later.status == 503);
    CHECK(std::stoi(std::string(later.header("retry-after"))) > 5);
    CHECK(std::stoi(std::string(later.header("retry-after"))) <= 1000);
}

TEST_CASE("A frozen sandbox makes room first, however short it was idle") {
    const ServerProcess server(with({"--max-sandboxes", "2", "--evict-idle", "1000"}));
    ApiClient api(server);
    require_freezer(api);
    const std::string running = api.create()["id"];
    const std::string frozen = api.create()["id"];
    pause_warm(api, frozen);
    api.create();
    CHECK(api.get(running)["status"] == "active");
    CHECK(api.get(frozen)["statusReason"] == "evicted");
    CHECK(api.get(frozen)["sandboxStatus"] == "terminated");
}

TEST_CASE("The memory limits of all sandboxes together have a bound") {
    const ServerProcess server(with({"--max-memory-mb", "200", "--evict-idle", "1000"}));
    ApiClient api(server);
    const Json asks = {{"limits", {{"memoryMb", 128}}}};
    const std::string first = api.create(asks)["id"];
    const Json capacity = api.call(200, "GET", "/v1/system")["capacity"];
    CHECK(capacity["memoryMb"] == 128);
    CHECK(capacity["maxMemoryMb"] == 200);
    CHECK(api.call(503, "POST", "/v1/conversations", asks.dump())["code"] == "capacity");
    api.create({{"limits", {{"memoryMb", 64}}}});
    api.remove(first);
    api.create(asks);
}

}  // namespace lifecycle_test
