// The routes by which a server and its sandboxes are watched: metrics and logs.
#include "http/server/metrics.hpp"
#include "tests/unit/http/api_server.hpp"

namespace http_watching_test {

using namespace atl;
using namespace atl::test;

TEST_CASE("the metrics are told to the server's key and to no user's") {
    ApiServer server;
    http::Metrics metrics;
    metrics.gauge("boxes", "Boxes.", [] { return 7; });
    server.on_loop([&] { server.api().metrics = &metrics; });
    const auto page = server.call("GET", "/metrics");
    CHECK(page.status == 200);
    CHECK(page.header("content-type") == "text/plain; version=0.0.4; charset=utf-8");
    CHECK(page.body.find("\nboxes 7\n") != std::string::npos);
    CHECK(server.call_as({}, "GET", "/metrics").status == 401);
    const auto refused = server.call_as({{"X-API-Key", "key of alice"}}, "GET", "/metrics");
    CHECK(refused.status == 403);
    CHECK(json::parse(refused.body)["code"] == "key_restricted");
}

TEST_CASE("readers are counted by the way that they took, as long as they read") {
    ApiServer server;
    const auto count = [&](http::SubscriberKind kind) {
        return server.on_loop([&] { return server.api().subscribers.now(kind); });
    };
    const std::string path = "/v1/conversations/" + server.create();
    using Kind = http::SubscriberKind;
    {
        HttpClient reader = server.client();
        reader.open_stream("GET", path + "/events", "", {{"Accept", "text/event-stream"}});
        CHECK(count(Kind::sse) == 1);
        CHECK(count(Kind::turn) == 0);
        HttpClient asker = server.client();
        asker.open_stream("POST", path + "/messages", R"({"content":"hi"})",
                          {{"Accept", "text/event-stream"}});
        CHECK(count(Kind::turn) == 1);
        HttpClient socket = server.client();
        const auto open = socket.open_stream("GET", path + "/ws", "",
                                             {{"Connection", "Upgrade"},
                                              {"Upgrade", "websocket"},
                                              {"Sec-WebSocket-Version", "13"},
                                              {"Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}});
        CHECK(open.status == 101);
        CHECK(count(Kind::websocket) == 1);
        server.agent_ends_turn();
        while (asker.next_event()) {
        }
        CHECK(server.eventually([&] { return server.api().subscribers.now(Kind::turn) == 0; }));
        CHECK(count(Kind::sse) == 1);
    }
    CHECK(server.eventually([&] {
        const auto& readers = server.api().subscribers;
        return readers.now(Kind::sse) == 0 && readers.now(Kind::websocket) == 0;
    }));
}

TEST_CASE("a sandbox's metrics tell what is known, and null for the rest") {
    ApiServer server;
    const std::string id = server.create(R"({"limits":{"memoryMb":100,"diskMb":9,"cpuPercent":50}})");
    const std::string box = server.call_json("GET", "/v1/conversations/" + id)["sandboxId"];
    const std::string path = "/v1/sandboxes/" + box + "/metrics";
    const auto unknown = server.call_json("GET", path);
    CHECK(unknown["status"] == "ready");
    CHECK(unknown["memory"] ==
          json{{"usedBytes", nullptr}, {"limitBytes", 104'857'600}, {"peakBytes", nullptr}});
    CHECK(unknown["processes"] == nullptr);
    CHECK(unknown["sockets"] == nullptr);
    CHECK(unknown["maxSockets"] == 2048);
    CHECK(unknown["disk"] == json{{"usedBytes", nullptr}, {"inodes", nullptr}, {"limitBytes", 9'437'184}});
    CHECK(unknown["pressure"]["cpu"] == nullptr);
    server.on_loop([&] {
        server.world.used.memory_bytes = 5;
        server.world.used.memory_peak_bytes = 6;
        server.world.used.cpu_usec = 7;
        server.world.used.processes = 8;
        server.world.used.cpu_pressure = sandbox::Pressure{9, 10};
        server.world.disk_used = sandbox::DiskUsage{11, 12};
    });
    const auto known = server.call_json("GET", path);
    CHECK(known["memory"] == json{{"usedBytes", 5}, {"limitBytes", 104'857'600}, {"peakBytes", 6}});
    CHECK(known["cpu"] == json{{"usageUs", 7}, {"limitPercent", 50}});
    CHECK(known["processes"] == 8);
    CHECK(known["maxProcesses"] == 64);
    CHECK(known["disk"] == json{{"usedBytes", 11}, {"inodes", 12}, {"limitBytes", 9'437'184}});
    CHECK(known["pressure"]["cpu"] == json{{"someUs", 9}, {"fullUs", 10}});
    // A lower memory limit applies from the next start: until then the kernel's limit is unchanged.
    server.call("PATCH", "/v1/conversations/" + id, R"({"limits":{"memoryMb":50}})");
    CHECK(server.call_json("GET", path)["memory"]["limitBytes"] == 104'857'600);
    server.time_passes = true;
    CHECK(server.call("POST", "/v1/conversations/" + id + "/pause").status == 200);
    const auto paused = server.call_json("GET", path);
    CHECK(paused["status"] == "terminated");
    CHECK(paused["memory"] ==
          json{{"usedBytes", nullptr}, {"limitBytes", 52'428'800}, {"peakBytes", nullptr}});
    CHECK(paused["disk"]["usedBytes"] == nullptr);
    CHECK(server.code("GET", "/v1/sandboxes/" + k_no_id + "/metrics") == "not_found");
    CHECK(server.code("GET", path + "?x=1") == "unknown_field");
}

TEST_CASE("a sandbox's log tells what it wrote and what became of it, also when it is gone") {
    ApiServer server;
    const auto made = server.call_json("POST", "/v1/sandboxes");
    const std::string path = "/v1/sandboxes/" + made["id"].get<std::string>();
    server.on_loop([&] { server.world.processes.begin()->second->on_log("hello\n\xff\x1b[1m\nhal"); });
    const auto log = server.call_json("GET", path + "/logs");
    REQUIRE(log["entries"].size() == 3);
    CHECK(log["entries"][0]["stream"] == "system");
    CHECK(log["entries"][0]["text"].get<std::string>().starts_with("ready after "));
    CHECK(log["entries"][1]["stream"] == "output");
    CHECK(log["entries"][1]["text"] == "hello");
    CHECK(log["entries"][1]["generation"] == 1);
    CHECK(log["entries"][2]["text"] == "\xef\xbf\xbd\x1b[1m");
    CHECK(log["next"] == 3);
    CHECK(server.call_json("GET", path + "/logs?after=3")["entries"].empty());
    CHECK(server.call_json("GET", path + "/logs?stream=output")["entries"].size() == 2);
    CHECK(server.code("GET", path + "/logs?stream=stdin") == "invalid_field");
    CHECK(server.code("GET", path + "/logs?after=x") == "invalid_field");
    server.time_passes = true;
    CHECK(server.call("DELETE", path).status == 204);
    const auto kept = server.call_json("GET", path + "/logs?after=3")["entries"];
    REQUIRE(kept.size() == 2);
    CHECK(kept[0]["text"] == "hal");
    CHECK(kept[1]["text"].get<std::string>().starts_with("ended: stopped"));
    CHECK(server.code("GET", "/v1/sandboxes/" + k_no_id + "/logs") == "not_found");
    // The owner of the removed sandbox is no longer known, so a user's key does not get its log.
    CHECK(server.call_as({{"X-API-Key", "key of alice"}}, "GET", path + "/logs").status == 404);
}

}  // namespace http_watching_test
