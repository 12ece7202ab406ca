// Processes that do not die or do not answer: sandboxes that SIGKILL does not end, helpers that stand still,
// zygotes that are gone. Clients get their answers, and no resource is given away before it is free.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/support/api_client.hpp"
#include "tests/support/stuck_processes.hpp"

namespace undying_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

std::string read_all(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<pid_t> all_pids() {
    std::vector<pid_t> pids;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") == std::string::npos)
            pids.push_back(std::stoi(name));
    }
    return pids;
}

/// The number behind `key` in /proc/PID/status.
std::optional<std::uint64_t> status_of(pid_t pid, const std::string& key) {
    std::istringstream status(read_all("/proc/" + std::to_string(pid) + "/status"));
    for (std::string word; status >> word;) {
        std::uint64_t value = 0;
        if (word == key && status >> value)
            return value;
    }
    return std::nullopt;
}

/// The processes of `uid` that still have memory: a zombie only waits for its parent.
std::vector<pid_t> processes_of(uid_t uid) {
    auto pids = all_pids();
    std::erase_if(pids,
                  [uid](pid_t pid) { return status_of(pid, "Uid:") != uid || !status_of(pid, "VmSize:"); });
    return pids;
}

/// Children of the server whose command line has `word` in it.
std::vector<pid_t> children_of(const ServerProcess& server, const std::string& word) {
    auto pids = all_pids();
    std::erase_if(pids, [&](pid_t pid) {
        const std::string command = read_all("/proc/" + std::to_string(pid) + "/cmdline");
        return status_of(pid, "PPid:") != static_cast<std::uint64_t>(server.pid()) ||
               command.find(word) == std::string::npos;
    });
    return pids;
}

fs::path workspace_of(const ServerProcess& server, const std::string& sandbox_id) {
    return server.data_dir() / "workspaces" / sandbox_id;
}

uid_t owner_of(const fs::path& folder) {
    struct stat about {};
    REQUIRE(::stat(folder.c_str(), &about) == 0);
    return about.st_uid;
}

/// Holds all processes of the sandbox, so that no signal ends them.
void hold_all(StuckProcesses& stuck, uid_t uid) {
    const auto pids = processes_of(uid);
    REQUIRE(pids.size() >= 2);  // bwrap and the guest
    for (const pid_t pid : pids)
        stuck.hold(pid);
}

void require_stuck_processes() {
    if (!is_root())
        SKIP("only root can hold processes of another uid");
    if (!StuckProcesses::can_be_made())
        SKIP("no freezer of cgroup v1 on this host that this user may write to");
}

Json system(ApiClient& api) {
    return api.call(200, "GET", "/v1/system");
}

std::string metric(ApiClient& api, const std::string& name) {
    const auto response = api.http().request("GET", "/metrics");
    const std::size_t at = response.body.find("\n" + name + " ");
    REQUIRE(at != std::string::npos);
    return response.body.substr(at + name.size() + 2, 1);
}

}  // namespace

// [serial]: all processes of the host are looked at. Over 5 s: k_kill_deadline is 10 s.
TEST_CASE("A deleted sandbox that does not die is answered for, and keeps its place, uid and workspace",
          "[serial]") {
    require_stuck_processes();
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string id = made["id"];
    const std::string sandbox = made["sandboxId"];
    const fs::path workspace = workspace_of(server, sandbox);
    const uid_t uid = owner_of(workspace);
    StuckProcesses stuck;
    hold_all(stuck, uid);
    api.call(204, "DELETE", "/v1/conversations/" + id);
    api.call(404, "GET", "/v1/conversations/" + id);
    INFO(server.log());
    REQUIRE(eventually([&] { return system(api)["undying"].size() == 1; }));
    const Json told = system(api);
    CHECK(told["undying"][0]["sandboxId"] == sandbox);
    CHECK(told["undying"][0]["generation"] == 1);
    CHECK(told["undying"][0]["since"].is_string());
    CHECK(told["capacity"]["livingSandboxes"] == 1);
    CHECK(metric(api, "atoll_sandboxes_undying") == "1");
    CHECK(fs::exists(workspace));
    CHECK(processes_of(uid).size() >= 2);  // the control: they do live on
    CHECK(server.log().find("evt=sandbox_undying sbx=" + sandbox) != std::string::npos);
    // Others are served, by another uid.
    const Json other = api.create();
    CHECK(owner_of(workspace_of(server, other["sandboxId"])) != uid);
    CHECK(api.message(other["id"], "echo here").output == "here\n");
    stuck.let_go();
    CHECK(eventually([&] { return system(api)["undying"].empty(); }));
    CHECK(eventually([&] { return !fs::exists(workspace); }));
    CHECK(processes_of(uid).empty());
    CHECK(system(api)["capacity"]["livingSandboxes"] == 1);
    CHECK(metric(api, "atoll_sandboxes_undying") == "0");
}

// Over 5 s: the pause and the end of the server wait for k_kill_deadline, 10 s, each.
TEST_CASE("A sandbox that does not die starts again only when it has, also after the server's end") {
    require_stuck_processes();
    TempDir data;
    ServerOptions options;
    options.data_dir = data.path();
    std::optional<ServerProcess> server;
    server.emplace(options);
    std::optional<ApiClient> api;
    api.emplace(*server);
    const Json made = api->create();
    const std::string id = made["id"];
    const std::string sandbox = made["sandboxId"];
    const std::string path = "/v1/conversations/" + id;
    api->message(id, "echo kept > file");
    const uid_t uid = owner_of(workspace_of(*server, sandbox));
    StuckProcesses stuck;
    hold_all(stuck, uid);
    try {
        api->call(200, "POST", path + "/pause");
    } catch (const std::runtime_error&) {  // refused once the sandbox is known not to die
    }
    api.emplace(*server);
    REQUIRE(eventually([&] { return system(*api)["undying"].size() == 1; }));
    CHECK(api->get(id)["status"] == "paused");
    const auto refused = [&] {
        const Json problem = api->call(503, "POST", path + "/resume");
        CHECK(problem["code"] == "sandbox_failed");
        CHECK(problem["detail"].get<std::string>().find("have not died yet") != std::string::npos);
    };
    refused();
    const auto ends = api->events(id);
    CHECK(std::count_if(ends.begin(), ends.end(), [](const Json& event) {
              return event["type"] == "sandbox_terminated" && event["data"]["class"] == "lost";
          }) == 1);
    // Neither the end of the server nor its start waits for ever.
    CHECK(server->stop() == 0);
    CHECK(processes_of(uid).size() >= 2);
    server.emplace(options);
    api.emplace(*server);
    INFO(server->log());
    REQUIRE(system(*api)["undying"].size() == 1);
    CHECK(system(*api)["undying"][0]["sandboxId"] == sandbox);
    CHECK(system(*api)["capacity"]["livingSandboxes"] == 1);
    refused();
    CHECK(owner_of(workspace_of(*server, api->create()["sandboxId"])) != uid);
    stuck.let_go();
    REQUIRE(eventually([&] { return system(*api)["undying"].empty(); }));
    CHECK(processes_of(uid).empty());
    CHECK(api->message(id, "cat file").output == "kept\n");
    CHECK(owner_of(workspace_of(*server, sandbox)) == uid);
}

TEST_CASE("A delete is answered while the helper that removes files stands still") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const fs::path workspace = workspace_of(server, made["sandboxId"]);
    const auto helpers = children_of(server, "atoll-helper");
    REQUIRE(helpers.size() == 5);
    for (const pid_t pid : helpers)
        REQUIRE(::kill(pid, SIGSTOP) == 0);
    // They stand still until this is answered.
    api.call(204, "DELETE", "/v1/conversations/" + made["id"].get<std::string>());
    CHECK_FALSE(fs::exists(workspace));
    CHECK_FALSE(fs::is_empty(server.data_dir() / "trash"));  // the control: the helper did stand still
    api.call(404, "GET", "/v1/conversations/" + made["id"].get<std::string>());
    for (const pid_t pid : helpers)
        ::kill(pid, SIGCONT);
    CHECK(eventually([&] { return fs::is_empty(server.data_dir() / "trash"); }));
}

// [serial]: it has to end processes before others are made.
TEST_CASE("A create succeeds whichever of the processes that wait for one have died", "[serial]") {
    const ServerProcess server;
    ApiClient api(server);
    const auto waiting = [&] { return children_of(server, "atoll-zygote"); };
    (void)api.create();  // those that are made ahead are there soon after it
    if (waiting().empty())
        SKIP("without cgroup v1 no process waits for a sandbox");
    REQUIRE(eventually([&] { return waiting().size() >= 4; }));
    // Waits until they are dead: a dying process may still take a request.
    const auto end = [](const std::vector<pid_t>& pids) {
        for (const pid_t pid : pids)
            ::kill(pid, SIGKILL);
        REQUIRE(eventually([&] {
            return std::ranges::none_of(pids,
                                        [](pid_t pid) { return status_of(pid, "VmSize:").has_value(); });
        }));
    };
    auto pids = waiting();
    pids.pop_back();
    end(pids);
    CHECK(api.message(api.create()["id"], "echo one").output == "one\n");
    for (int round = 0; round < 3; ++round) {
        end(waiting());
        CHECK(api.message(api.create()["id"], "echo all").output == "all\n");
    }
}

}  // namespace undying_test
