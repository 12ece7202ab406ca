// Limits end to end: the end of a sandbox over its limit, the events of its conversation, and that the
// conversation goes on.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <thread>

#include "tests/support/api_client.hpp"

namespace resource_limits_test {

using namespace atl::test;

namespace {

// Holds 100 MB in its own memory.
const char* const k_memory_bomb = "exec dd if=/dev/zero of=/dev/null bs=100M count=1 status=none";

void require_enforced(const Json& conversation, const std::string& limit) {
    if (conversation["enforcement"][limit] == "none")
        SKIP("no cgroup on this host with which this user can limit " << limit);
}

Json event_of(const std::vector<Json>& events, const std::string& type) {
    const auto found = std::ranges::find_if(events, [&](const Json& event) { return event["type"] == type; });
    return found == events.end() ? Json() : (*found)["data"];
}

}  // namespace

TEST_CASE("A sandbox over its memory limit is ended and told why, and the next message goes on", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"memoryMb", 64}}}});
    require_enforced(made, "memory");
    const std::string id = made["id"];
    const std::string neighbour = api.create()["id"];
    api.message(id, "echo kept > file");

    const Turn turn = api.message(id, k_memory_bomb);
    CHECK(turn.errors == std::vector<std::string>{"oom"});
    CHECK(event_of(turn.events, "error")["message"].get<std::string>().find("64 MB") != std::string::npos);
    const Json paused = api.await_status(id, "paused");
    CHECK(paused["statusReason"] == "oom");
    const auto events = api.events(id);
    const Json end = event_of(events, "sandbox_terminated");
    CHECK(end["class"] == "oom");
    CHECK(end["limitBytes"] == 64UL * 1024 * 1024);
    CHECK(end["peakBytes"] > 32UL * 1024 * 1024);
    CHECK(event_of(events, "sandbox_paused")["reason"] == "oom");

    CHECK(api.message(id, "cat file").output == "kept\n");
    CHECK(api.get(id)["generation"] == 2);
    CHECK(api.get(neighbour)["generation"] == 1);
    CHECK(api.message(neighbour, "echo fine").output == "fine\n");
}

TEST_CASE("What is in /tmp counts as memory: a tmpMb above memoryMb is ended by the latter", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"memoryMb", 64}, {"tmpMb", 256}}}});
    require_enforced(made, "memory");
    const std::string id = made["id"];
    const Turn within = api.message(id, "head -c 16777216 /dev/zero > /tmp/file; stat -c %s /tmp/file");
    CHECK(within.errors.empty());
    CHECK(within.output == "16777216\n");
    // There is room for it in /tmp. The kernel kills one process after the other: the turn is not to end
    // meanwhile.
    const Turn turn =
        api.message(id, "head -c 134217728 /dev/zero > /tmp/file; stat -c %s /tmp/file; sleep 1000");
    CHECK(turn.errors == std::vector<std::string>{"oom"});
    CHECK(turn.output.find("134217728") == std::string::npos);
    CHECK(api.await_status(id, "paused")["statusReason"] == "oom");
    CHECK(event_of(api.events(id), "sandbox_terminated")["class"] == "oom");
    // It was of that generation.
    CHECK(api.message(id, "ls /tmp").output.empty());
}

TEST_CASE("A message right after a turn that ran out of memory finds a fresh sandbox", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"memoryMb", 64}}}});
    require_enforced(made, "memory");
    const std::string id = made["id"];
    for (int round = 1; round <= 8; ++round) {
        INFO("round " << round);
        CHECK(api.message(id, k_memory_bomb).errors == std::vector<std::string>{"oom"});
        const Turn next = api.message(id, "echo on");
        CHECK(next.errors.empty());
        CHECK(next.output == "on\n");
        CHECK(api.get(id)["generation"] == round + 1);
    }
}

TEST_CASE("A SIGKILL from inside is no kill for memory", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"limits", {{"memoryMb", 64}}}})["id"];
    const Turn turn = api.message(id, "kill -9 $$");
    CHECK(turn.errors.empty());
    CHECK(turn.exit_code == 137);
    CHECK(api.message(id, "echo on").output == "on\n");
    CHECK(api.get(id)["generation"] == 1);
}

TEST_CASE("A memory limit that is raised while a command runs holds for it", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"memoryMb", 64}}}});
    require_enforced(made, "memory");
    const std::string id = made["id"];
    HttpClient client = api.connect();
    const Json body = {
        {"content", std::string("mkfifo go; echo ready; read -r line < go; ") + k_memory_bomb}};
    client.open_stream("POST", "/v1/conversations/" + id + "/messages", body.dump(),
                       {{"Accept", "text/event-stream"}});
    read_until(client, "text_delta");
    const Json patched = api.call(200, "PATCH", "/v1/conversations/" + id, R"({"limits":{"memoryMb":1024}})");
    CHECK(patched["limits"]["memoryMb"] == 1024);
    // The fifo is in the workspace; a second conversation cannot reach it, so the interrupt is the way on.
    api.call(200, "POST", "/v1/conversations/" + id + "/interrupt");
    read_until(client, "done");
    const Turn turn = api.message(id, k_memory_bomb);
    CHECK(turn.exit_code == 0);
    CHECK(api.get(id)["generation"] == 1);
}

TEST_CASE("A fork bomb ends at its limit, and neither its neighbour nor the server minds", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"maxProcesses", 40}}}});
    require_enforced(made, "processes");
    const std::string id = made["id"];
    const std::string neighbour = api.create()["id"];
    HttpClient client = api.connect();
    client.open_stream("POST", "/v1/conversations/" + id + "/messages",
                       R"({"content":"echo go; f() { f & f; }; f 2>/dev/null"})",
                       {{"Accept", "text/event-stream"}});
    read_until(client, "text_delta");
    for (int i = 0; i < 5; ++i)
        CHECK(api.message(neighbour, "echo fine").output == "fine\n");
    api.remove(id);
    CHECK(api.message(neighbour, "echo fine").output == "fine\n");
}

// [serial]: how far it gets between two looks at the disk.
TEST_CASE(
    "A sandbox that fills its workspace is ended near its limit, and its files are there to be cleaned up",
    "[limits][serial]") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"limits", {{"diskMb", 64}}}})["id"];
    CHECK(api.get(id)["enforcement"]["disk"] != "none");
    if (api.get(id)["enforcement"]["disk"] == "quota")
        return;  // then no sandbox is ended: quota_test.cpp
    const std::string neighbour = api.create()["id"];
    // Many files: one alone is stopped by the kernel at the limit's size.
    const Turn turn =
        api.message(id, "for i in $(seq 250); do head -c 4000000 /dev/zero > f$i; done; echo all");
    CHECK(turn.output.find("all") == std::string::npos);
    CHECK(turn.errors == std::vector<std::string>{"disk_limit"});
    CHECK(api.await_status(id, "paused")["statusReason"] == "disk");
    const Json end = event_of(api.events(id), "sandbox_terminated");
    CHECK(end["class"] == "disk_limit");
    CHECK(end["limitBytes"] == 64UL * 1024 * 1024);
    CHECK(end["peakBytes"] > 64UL * 1024 * 1024);
    // How far it comes until somebody looks is a matter of speed.
    if (checks_bounds())
        CHECK(end["peakBytes"] < 128UL * 1024 * 1024);

    CHECK(api.message(id, "ls | wc -l; rm -f f*; echo cleaned").output.ends_with("cleaned\n"));
    CHECK(api.message(id, "head -c 1000000 /dev/zero > f; ls").output == "f\n");
    CHECK(api.get(id)["generation"] == 2);
    CHECK(api.get(neighbour)["generation"] == 1);
}

TEST_CASE("A single file cannot grow beyond the disk limit", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"limits", {{"diskMb", 16}}}})["id"];
    const Turn turn = api.message(id, "head -c 100000000 /dev/zero > file; stat -c %s file");
    CHECK(turn.output.find("16777216\n") != std::string::npos);
    // Nor take room beyond its end, to which the limit of a file's size does not apply.
    CHECK(api.message(id,
                      "rm file; touch far; fallocate -n -l 64M far 2>&1; stat -c %b far; fallocate -l 1M "
                      "near; stat -c %b near")
              .output.ends_with("unsupported\n0\n2048\n"));
}

// [serial]: processor time beside passed time.
TEST_CASE("A processor limit holds beside a neighbour", "[limits][serial]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"cpuPercent", 20}}}});
    require_enforced(made, "cpu");
    const std::string id = made["id"];
    // It asks for a whole processor until it has had 0.4 s of one; a fifth of one is given.
    const Turn turn =
        api.message(id, "TIMEFORMAT='%R %U %S'; time perl -e 'while ((times)[0] + (times)[1] < 0.4) {}'");
    double passed = 0;
    double user = 0;
    double system = 0;
    REQUIRE(std::sscanf(turn.output.c_str(), "%lf %lf %lf", &passed, &user, &system) == 3);
    CHECK(user + system < passed / 2);
    CHECK(user + system > 0.3);
}

// [serial]: what is left on the host is looked for.
TEST_CASE("What a killed server leaves is gone after the next start, processes and groups",
          "[limits][serial]") {
    const TempDir data;
    ServerOptions options;
    options.data_dir = data.path();
    std::string id;
    std::string sandbox;
    std::vector<atl::base::UniqueFd> left;
    {
        ServerProcess server(options);
        ApiClient api(server);
        const Json made = api.create();
        id = made["id"];
        sandbox = made["sandboxId"];
        CHECK(api.message(id, "setsid sleep 1000 & echo kept > file").errors.empty());
        left = open_pidfds(descendants(server.pid()));
        CHECK(left.size() > 3);
        server.kill_hard();
    }
    const ServerProcess server(options);
    ApiClient api(server);
    CHECK(await_gone(left, k_client_deadline));
    std::string instance;
    std::ifstream(data.path() / "instance-id") >> instance;
    REQUIRE_FALSE(instance.empty());
    // Where root has it on cgroup v2; elsewhere the group has gone with its folder's name or with its scope.
    CHECK_FALSE(std::filesystem::exists("/sys/fs/cgroup/atoll-" + instance + "/" + sandbox + "-1"));
    CHECK(api.message(id, "cat file").output == "kept\n");
    CHECK(api.get(id)["generation"] == 2);
}

TEST_CASE("A sandbox that holds most of its memory is warned before it is ended for it") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"memoryMb", 128}}}});
    require_enforced(made, "memory");
    const std::string id = made["id"];
    HttpClient client = api.connect();
    client.open_stream("GET", "/v1/conversations/" + id + "/events", "", {{"Accept", "text/event-stream"}});
    api.call(202, "POST", "/v1/conversations/" + id + "/messages",
             R"({"content":"while :; do (head -c 112000000 /dev/zero; sleep 2) | tail > /dev/null; done"})");
    const Json warning = read_until(client, "resource_warning").back()["data"];
    CHECK(warning["resource"] == "memory");
    CHECK(warning["limit"] == 128UL * 1024 * 1024);
    CHECK(warning["used"] > 100UL * 1024 * 1024);
    api.call(200, "POST", "/v1/conversations/" + id + "/interrupt");
    read_until(client, "done");
    CHECK(api.get(id)["status"] == "active");
    CHECK(api.get(id)["generation"] == 1);
}

}  // namespace resource_limits_test
