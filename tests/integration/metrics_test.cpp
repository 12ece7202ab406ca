// The server as Prometheus and its operators see it: the page of metrics, read by a strict parser, follows
// the events; the usage and the log of a sandbox are correct.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>

#include "tests/support/api_client.hpp"
#include "tests/support/paths.hpp"

namespace integration_metrics_test {

using namespace atl;
using namespace atl::test;

namespace {

/// The samples of a page, once the checker has nothing to complain of.
Json parse_page(const std::string& page) {
    const TempDir dir;
    const auto file = dir.path() / "page";
    std::ofstream(file) << page;
    const std::string command = "/usr/bin/python3 " +
                                test::source_path("tests/integration/check_metrics.py") + " < " +
                                file.string() + " 2>&1 1>" + (dir.path() / "samples").string();
    const std::unique_ptr<FILE, int (*)(FILE*)> checker(::popen(command.c_str(), "r"), ::pclose);
    REQUIRE(checker);
    std::string complaints;
    char line[512];
    while (std::fgets(line, sizeof line, checker.get()) != nullptr)
        complaints += line;
    INFO(complaints << page);
    CHECK(complaints.empty());
    std::ifstream samples(dir.path() / "samples");
    return Json::parse(samples);
}

class Watched {
  public:
    explicit Watched(ServerOptions options = {}) : server(std::move(options)), api(server) {}

    Json samples() {
        const auto page = api.http().request("GET", "/metrics");
        REQUIRE(page.status == 200);
        return parse_page(page.body);
    }
    double value(const std::string& series) {
        const Json all = samples();
        INFO(series);
        REQUIRE(all.contains(series));
        return all[series];
    }
    /// Waits until the sample is as `wanted` says.
    bool eventually(const std::string& series, const std::function<bool(double)>& wanted) {
        const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
        while (std::chrono::steady_clock::now() < deadline) {
            if (wanted(value(series)))
                return true;
        }
        return false;
    }
    std::string sandbox_of(const std::string& conversation) { return api.get(conversation)["sandboxId"]; }
    Json usage(const std::string& sandbox) {
        return api.call(200, "GET", "/v1/sandboxes/" + sandbox + "/metrics");
    }

    ServerProcess server;
    ApiClient api;
};

std::function<bool(double)> is(double wanted) {
    return [wanted](double value) { return value == wanted; };
}
std::function<bool(double)> above(double least) {
    return [least](double value) { return value > least; };
}

}  // namespace

TEST_CASE("The metrics of a new server are all there and fit the conventions") {
    Watched watched;
    const Json all = watched.samples();
    CHECK(all["atoll_ready"] == 1);
    CHECK(all["atoll_sandboxes{state=\"ready\"}"] == 0);
    // The server takes as many as it has descriptors enough for, 4096 at most.
    CHECK(all["atoll_sandboxes_max"] ==
          watched.api.call(200, "GET", "/v1/system")["capacity"]["maxSandboxes"]);
    CHECK(all["atoll_limit_enforced{by=\"bubblewrap\",limit=\"filesystem\"}"] == 1);
    CHECK(all["process_resident_memory_bytes"] > 4e6);
    CHECK(all["process_open_fds"] > 5);
    CHECK(all["process_open_fds"] < all["process_max_fds"]);
    CHECK(all["process_start_time_seconds"] > 1.6e9);
    CHECK(all["atoll_disk_free_bytes"] > 0);
    std::size_t infos = 0;
    for (const auto& [series, value] : all.items())
        infos += series.starts_with("atoll_build_info{version=") && value == 1 ? 1 : 0;
    CHECK(infos == 1);
    HttpClient nobody("127.0.0.1:" + std::to_string(watched.server.port()));
    CHECK(nobody.request("GET", "/metrics").status == 401);
    CHECK(watched.server.stop() == 0);
}

TEST_CASE("A create for which the kernel has no memory for filters says so, and is counted by its reason") {
    const TempDir dir;
    const std::filesystem::path bwrap = dir.path() / "bwrap";
    const std::filesystem::path used_up = dir.path() / "used-up";
    std::ofstream(bwrap) << "#!/bin/sh\n"
                         << "[ ! -e " << used_up.string() << " ] || {\n"
                         << "echo 'bwrap: prctl(PR_SET_SECCOMP): Unknown error 524' >&2; exit 1; }\n"
                         << "exec /usr/bin/bwrap \"$@\"\n";
    std::filesystem::permissions(bwrap, std::filesystem::perms(0755));
    Watched watched({.arguments = {"--bwrap", bwrap.string()}});
    constexpr const char* k_refused = "atoll_launch_failures_total{reason=\"filters_refused\"}";
    CHECK(watched.value(k_refused) == 0);
    watched.api.create();
    std::ofstream(used_up) << "yes";
    const auto answer = watched.api.http().request("POST", "/v1/conversations", "{}");
    INFO(answer.body);
    CHECK(answer.status >= 500);
    CHECK(answer.body.find("net.core.bpf_jit_limit") != std::string::npos);
    CHECK(watched.value(k_refused) == 1);
    CHECK(watched.value("atoll_launch_failures_total{reason=\"other\"}") == 0);
    std::filesystem::remove(used_up);
    watched.api.create();
    CHECK(watched.value(k_refused) == 1);
}

TEST_CASE("A conversation's life moves the metrics that tell of it") {
    Watched watched;
    const std::string id = watched.api.create()["id"];
    Json all = watched.samples();
    CHECK(all["atoll_conversations{status=\"active\"}"] == 1);
    CHECK(all["atoll_sandboxes{state=\"ready\"}"] == 1);
    CHECK(all["atoll_sandboxes_living"] == 1);
    CHECK(all["atoll_sandbox_start_duration_seconds_count"] == 1);
    CHECK(all["atoll_sandbox_start_duration_seconds_sum"] > 0.0005);
    CHECK(all["atoll_conversation_create_duration_seconds_count"] == 1);
    CHECK(all["atoll_http_responses_total{code=\"201\"}"] == 1);
    CHECK(all["atoll_events_total{type=\"session_start\"}"] == 1);
    CHECK(all["atoll_turns_started_total"] == 0);
    const double bytes = all["atoll_event_bytes_total"];

    CHECK(watched.api.message(id, "printf %01000d 0").output.size() == 1000);
    all = watched.samples();
    CHECK(all["atoll_turns_started_total"] == 1);
    CHECK(all["atoll_turn_duration_seconds_count"] == 1);
    CHECK(all["atoll_events_total{type=\"text_delta\"}"] >= 1);
    CHECK(all["atoll_events_total{type=\"done\"}"] == 1);
    CHECK(all["atoll_event_bytes_total"] > bytes + 1000);
    CHECK(all["atoll_store_commit_duration_seconds_count"] > 1);
    CHECK(watched.eventually("atoll_helper_task_duration_seconds_count{task=\"measure\"}", above(0)));
    CHECK(watched.eventually("atoll_loop_lateness_seconds_count", above(5)));

    watched.api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    all = watched.samples();
    CHECK(all["atoll_conversations{status=\"active\"}"] == 0);
    CHECK(all["atoll_conversations{status=\"paused\"}"] == 1);
    CHECK(all["atoll_sandboxes{state=\"terminated\"}"] == 1);
    CHECK(all["atoll_sandboxes_living"] == 0);
    CHECK(all["atoll_sandbox_exits_total{class=\"stopped\"}"] == 1);
    watched.api.remove(id);
    // A removal that takes long is answered before it is done.
    CHECK(watched.eventually("atoll_helper_task_duration_seconds_count{task=\"remove\"}", is(1)));
    CHECK(watched.eventually("atoll_sandboxes{state=\"terminated\"}", is(0)));
    CHECK(watched.samples()["atoll_conversations{status=\"paused\"}"] == 0);
}

TEST_CASE("A reader counts as one from its first event to its end") {
    Watched watched;
    const std::string id = watched.api.create()["id"];
    {
        HttpClient reader = watched.api.connect();
        reader.open_stream("GET", "/v1/conversations/" + id + "/events", "",
                           {{"Accept", "text/event-stream"}});
        CHECK(watched.value("atoll_subscribers{kind=\"sse\"}") == 1);
        CHECK(watched.value("atoll_http_connections") >= 2);
    }
    CHECK(watched.eventually("atoll_subscribers{kind=\"sse\"}", is(0)));
}

TEST_CASE("A kill for memory and one for disk are counted as what they are") {
    Watched watched;
    const Json made = watched.api.create({{"limits", {{"memoryMb", 64}}}});
    if (made["enforcement"]["memory"] == "none")
        SKIP("no cgroup on this host with which this user can limit memory");
    const std::string id = made["id"];
    watched.api.message(id, "x=$(yes | head -c 300000000); echo ${#x}");
    watched.api.await_status(id, "paused");
    Json all = watched.samples();
    CHECK(all["atoll_sandbox_exits_total{class=\"oom\"}"] == 1);
    CHECK(all["atoll_sandbox_exits_total{class=\"disk_limit\"}"] == 0);
    CHECK(all["atoll_events_total{type=\"sandbox_terminated\"}"] == 1);

    const std::string other = watched.api.create({{"limits", {{"diskMb", 16}}}})["id"];
    watched.api.message(other, "for i in $(seq 1000); do head -c 1000000 /dev/zero > f$i; done");
    watched.api.await_status(other, "paused");
    all = watched.samples();
    CHECK(all["atoll_sandbox_exits_total{class=\"oom\"}"] == 1);
    CHECK(all["atoll_sandbox_exits_total{class=\"disk_limit\"}"] == 1);
}

TEST_CASE("What a sandbox uses is told as it takes it") {
    ServerOptions options;
    options.arguments = {"--disk-period", "1"};
    Watched watched(options);
    const Json made = watched.api.create();
    for (const char* limit : {"memory", "cpu", "processes"}) {
        if (made["enforcement"][limit] == "none")
            SKIP("no cgroup on this host with which this user can limit " << limit);
    }
    const std::string id = made["id"];
    const std::string box = made["sandboxId"];
    const Json idle = watched.usage(box);
    CHECK(idle["status"] == "ready");
    CHECK(idle["memory"]["usedBytes"] > 0);
    CHECK(idle["memory"]["limitBytes"] == 2048UL * 1024 * 1024);
    CHECK(idle["cpu"]["limitPercent"] == 100);
    const std::uint64_t idle_processes = idle["processes"];

    HttpClient client = watched.api.connect();
    // Holds 50 MB in memory and as much on the disk, with three processes, until it is interrupted.
    const Json body = {
        {"content",
         "head -c 50000000 /dev/zero > file; x=$(yes | head -c 50000000); sleep 1000 & sleep 1000 & "
         "echo go; wait"}};
    client.open_stream("POST", "/v1/conversations/" + id + "/messages", body.dump(),
                       {{"Accept", "text/event-stream"}});
    read_until(client, "text_delta");
    const Json busy = watched.usage(box);
    CHECK(busy["memory"]["usedBytes"] > 50'000'000);
    CHECK(busy["memory"]["peakBytes"] >= busy["memory"]["usedBytes"]);
    CHECK(busy["cpu"]["usageUs"] > idle["cpu"]["usageUs"]);
    CHECK(busy["processes"] >= idle_processes + 3);
    CHECK(busy["at"] > idle["at"]);
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    Json disk;
    do {
        disk = watched.usage(box)["disk"];
    } while ((disk["usedBytes"] == nullptr || disk["usedBytes"] < 50'000'000) &&
             std::chrono::steady_clock::now() < deadline);
    CHECK(disk["usedBytes"] >= 50'000'000);
    CHECK(disk["inodes"] >= 2);
    watched.api.call(200, "POST", "/v1/conversations/" + id + "/interrupt");
    read_until(client, "done");
}

TEST_CASE("What an agent writes to stderr is in its sandbox's log, which outlives the sandbox") {
    const TempDir dir;
    const Json agents = {
        {"agents",
         {{{"name", "talker"},
           {"argv",
            {"bash", "-c", R"(echo '{"ev":"ready","data":{}}'; echo from inside >&2; cat > /dev/null)"}}}}}};
    std::ofstream(dir.path() / "agents.json") << agents.dump();
    ServerOptions options;
    options.arguments = {"--agents-file", (dir.path() / "agents.json").string(), "--default-agent", "talker"};
    Watched watched(options);
    const std::string id = watched.api.create()["id"];
    const std::string path = "/v1/sandboxes/" + watched.sandbox_of(id) + "/logs";
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    Json output;
    do {
        output = watched.api.call(200, "GET", path + "?stream=output")["entries"];
    } while (output.empty() && std::chrono::steady_clock::now() < deadline);
    REQUIRE_FALSE(output.empty());
    CHECK(output.back()["text"] == "from inside");
    const Json system = watched.api.call(200, "GET", path + "?stream=system")["entries"];
    REQUIRE(system.size() == 1);
    CHECK(system[0]["text"].get<std::string>().starts_with("ready after "));
    watched.api.remove(id);
    const Json kept = watched.api.call(200, "GET", path)["entries"];
    REQUIRE(kept.size() >= 3);
    CHECK(kept.back()["text"].get<std::string>().starts_with("ended: stopped"));
    // A browser that is led to it shows nothing of it.
    const auto answer = watched.api.http().request("GET", path);
    CHECK(answer.header("content-security-policy") == "sandbox; default-src 'none'");
    CHECK(answer.header("cross-origin-resource-policy") == "same-origin");
    CHECK(answer.header("content-disposition") == "attachment; filename=\"log.json\"");
}

}  // namespace integration_metrics_test
