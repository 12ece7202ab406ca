// The routes of the API over the real managers and a world of fakes (api_server.hpp).
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <numeric>

#include "core/base/limits.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/api/ownership.hpp"
#include "tests/support/websocket_client.hpp"
#include "tests/unit/http/api_server.hpp"

namespace api_test {

using namespace atl;
using namespace atl::test;
using conversation::EventType;

TEST_CASE("the document tells every route of the table") {
    ApiServer server;
    std::size_t operations = 0;
    for (const auto& [path, item] : server.checker().document()["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            ++operations;
            INFO(method << ' ' << path);
            CHECK(operation.contains("operationId"));
            CHECK_FALSE(operation["summary"].get<std::string>().empty());
            CHECK(operation["responses"].size() > 3);
        }
    }
    CHECK(operations == 66);
    for (const auto& [name, schema] : server.checker().document()["components"]["schemas"].items())
        CHECK_FALSE(schema.empty());
}

TEST_CASE("health and readiness answer without a key, the system with one") {
    ApiServer server;
    HttpClient anyone(server.address);
    CHECK(anyone.request("GET", "/healthz").status == 200);
    CHECK(anyone.request("GET", "/readyz").status == 200);
    CHECK(anyone.request("GET", "/v1/system").status == 401);
    CHECK(anyone.request("GET", "/openapi.json").status == 200);
    CHECK(anyone.request("GET", "/docs/").status == 200);
    const auto system = server.call_json("GET", "/v1/system");
    CHECK(system["version"] == "1.2.3");
    CHECK(system["bubblewrap"] == "0.8.0");
    CHECK(system["codeMode"] == json::array());
    CHECK(system["agents"] == json({"shell", "echo"}));
    CHECK(system["capacity"]["maxSandboxes"] == 2);
    CHECK(system["capacity"]["maxMemoryMb"] == nullptr);
    CHECK(system["warmPause"] == "none");
    CHECK(system["loop"] == nullptr);
    server.on_loop([&] { server.ready = base::Error(base::Errc::storage_failed, "the disk is full"); });
    const auto unready = server.call("GET", "/readyz");
    CHECK(unready.status == 503);
    CHECK(unready.body.find("the disk is full") != std::string::npos);
}

TEST_CASE("a server whose loop is measured tells how late it is") {
    ApiServer server;
    boost::asio::io_context other;
    base::LoopMeter meter(other, base::LoopMeter::Detail::handlers);
    boost::asio::post(other, [&] { meter.stop(); });
    meter.run();
    server.on_loop([&] { server.api().system.loop = &meter; });
    const auto loop = server.call_json("GET", "/v1/system")["loop"];
    CHECK(loop["latenessUs"]["count"] == meter.lateness().count());
    CHECK(loop["handlerCpuUs"]["count"] == meter.handler_cpu().count());
    CHECK(loop["handlerCpuUs"]["max"] == meter.handler_cpu().max().count());
}

TEST_CASE("a conversation is created, read, listed, changed and deleted") {
    ApiServer server;
    const auto made =
        server.call("POST", "/v1/conversations",
                    R"({"agent":"echo","userId":"u","metadata":{"k":1},"limits":{"diskMb":9}})");
    REQUIRE(made.status == 201);
    const auto conversation = json::parse(made.body);
    const std::string path = "/v1/conversations/" + conversation["id"].get<std::string>();
    CHECK(made.header("location") == path);
    CHECK(conversation["agent"] == "echo");
    CHECK(conversation["status"] == "active");
    CHECK(conversation["sandboxStatus"] == "ready");
    CHECK(conversation["sandboxPublicUrl"] == nullptr);
    CHECK(conversation["limits"]["diskMb"] == 9);
    CHECK(conversation["metadata"] == json{{"k", 1}});
    CHECK(server.call_json("GET", path)["id"] == conversation["id"]);

    const auto patched = server.call_json("PATCH", path, R"({"limits":{"memoryMb":64},"idleSeconds":60})");
    CHECK(patched["limits"]["memoryMb"] == 64);
    CHECK(patched["limits"]["diskMb"] == 9);
    CHECK(patched["idleSeconds"] == 60);

    CHECK(server.call_json("GET", "/v1/conversations?userId=u")["conversations"].size() == 1);
    CHECK(server.call_json("GET", "/v1/conversations?userId=other")["conversations"].empty());
    CHECK(server.call_json("GET", "/v1/conversations?status=paused")["conversations"].empty());

    server.time_passes = true;
    CHECK(server.call("DELETE", path).status == 204);
    CHECK(server.code("GET", path) == "not_found");
    CHECK(server.code("DELETE", path) == "not_found");
}

TEST_CASE("a list goes on where its cursor says") {
    ApiServer server;
    const auto first = server.create();
    const auto second = server.create();
    const auto page = server.call_json("GET", "/v1/conversations?limit=1");
    REQUIRE(page["conversations"].size() == 1);
    CHECK(page["conversations"][0]["id"] == second);
    const auto rest =
        server.call_json("GET", "/v1/conversations?limit=1&cursor=" + page["next"].get<std::string>());
    REQUIRE(rest["conversations"].size() == 1);
    CHECK(rest["conversations"][0]["id"] != page["conversations"][0]["id"]);
    CHECK(rest["next"] == nullptr);
    const std::string oldest = "/v1/conversations?order=oldest&limit=1";
    const auto top = server.call_json("GET", oldest);
    REQUIRE(top["conversations"].size() == 1);
    CHECK(top["conversations"][0]["id"] == first);
    const auto below = server.call_json("GET", oldest + "&cursor=" + top["next"].get<std::string>());
    REQUIRE(below["conversations"].size() == 1);
    CHECK(below["conversations"][0]["id"] == second);
    CHECK(below["next"] == nullptr);
    CHECK(server.code("GET", "/v1/conversations?limit=0") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations?limit=10001") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations?limit=x") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations?status=busy") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations?cursor=x") == "invalid_request");
    CHECK(server.code("GET", "/v1/conversations?order=x") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations?statu=active") == "unknown_field");
}

TEST_CASE("bad requests change nothing and have their codes") {
    ApiServer server;
    const std::string path = "/v1/conversations";
    CHECK(server.code("POST", path, "{") == "invalid_json");
    CHECK(server.code("POST", path, "\"\xFF\"") == "invalid_utf8");
    CHECK(server.code("POST", path, std::string(100'000, '[')) == "invalid_json");
    CHECK(server.code("POST", path, R"({"surprise":1})") == "unknown_field");
    CHECK(server.code("POST", path, R"({"agent":1})") == "invalid_field");
    CHECK(server.code("POST", path, R"({"agent":"nobody"})") == "unknown_agent");
    CHECK(server.code("POST", path, R"({"env":{"LD_PRELOAD":"x"}})") == "invalid_env");
    CHECK(server.code("POST", path, R"({"env":{"a-b":"x"}})") == "invalid_env");
    CHECK(server.code("POST", path, R"({"network":"host"})") == "network_not_allowed");
    CHECK(server.call("POST", path, "{}", {{"Content-Type", "text/plain"}}).status == 415);
    for (const std::string& id : {std::string("x"), k_no_id, std::string("..%2f.."), std::string(500, 'a')})
        CHECK(server.code("GET", path + '/' + id) == "not_found");
    CHECK(server.code("PATCH", path + '/' + k_no_id, "{}") == "not_found");
    for (const char* action : {"/interrupt", "/pause", "/resume"})
        CHECK(server.code("POST", path + '/' + k_no_id + action) == "not_found");
    CHECK(server.call_json("GET", path)["conversations"].empty());
}

TEST_CASE("a full server refuses with Retry-After") {
    ApiServer server;
    server.create();
    server.create();
    const auto refused = server.call("POST", "/v1/conversations", "{}");
    CHECK(refused.status == 503);
    CHECK(json::parse(refused.body)["code"] == "capacity");
    CHECK_FALSE(refused.header("retry-after").empty());
}

TEST_CASE("a message starts a turn; a second one has to wait; its key makes a retry safe") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    const HeaderList key{{"Idempotency-Key", "k1"}};
    const auto started = server.call("POST", path + "/messages", R"({"content":"hi"})", key);
    CHECK(started.status == 202);
    const auto ticket = json::parse(started.body);
    CHECK(ticket["turn"] == "t1");
    CHECK(server.code("POST", path + "/messages", R"({"content":"hi"})") == "turn_in_progress");
    CHECK(server.call("POST", path + "/messages", R"({"content":"hi"})", key).body == started.body);
    CHECK(server.call("POST", path + "/messages", R"({"content":"other"})", key).status == 422);
    CHECK(server.call("POST", path + "/messages", R"({"content":"hi"})", {{"Idempotency-Key", ""}}).status ==
          400);
    CHECK(server.call("POST", path + "/interrupt").status == 200);
    CHECK(server.code("POST", path + "/permissions/p1", R"({"optionId":"y"})") == "not_found");
    CHECK(server.code("POST", path + "/permissions/p1", "{}") == "invalid_field");
    server.agent_ends_turn();
    CHECK(server.eventually(
        [&] { return server.world.store.events.rbegin()->second->type == EventType::done; }));
    const auto page = server.call_json("GET", path + "/events");
    CHECK(page["events"].back()["type"] == "done");
    CHECK(server.code("POST", path + "/interrupt") == "no_turn");
}

TEST_CASE(
    "over a store that answers later, a page, a stream and a WebSocket have the whole log, a key one turn") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    const HeaderList key{{"Idempotency-Key", "k1"}};
    server.on_loop([&] {
        server.world.store.later = [&](std::function<void()> answer) {
            server.world.later(std::move(answer));
        };
    });
    const auto started = server.call("POST", path + "/messages", R"({"content":"hi"})", key);
    CHECK(started.status == 202);
    // More than the window keeps.
    for (std::size_t at = 0; at < base::k_live_window_events + 200; ++at)
        server.agent_says("text_delta", R"({"delta":"x"})");
    server.agent_ends_turn();
    REQUIRE(server.eventually(
        [&] { return server.world.store.events.rbegin()->second->type == EventType::done; }));
    const std::uint64_t last =
        server.on_loop([&] { return server.world.store.events.rbegin()->first.second; });
    const auto page = server.call_json("GET", path + "/events?limit=10000");
    CHECK(page["next"] == last);
    REQUIRE(page["events"].size() == last);
    auto client = server.client();
    REQUIRE(client.open_stream("GET", path + "/events").status == 200);
    WebSocketClient socket(server.client(), path + "/ws");
    for (std::uint64_t seq = 1; seq <= last; ++seq) {
        REQUIRE(page["events"][seq - 1]["seq"] == seq);
        REQUIRE(client.next_event()->id == std::to_string(seq) + "-" + k_test_epoch);
        REQUIRE(json::parse(socket.next_text())["seq"] == seq);
    }
    CHECK(server.call("POST", path + "/messages", R"({"content":"hi"})", key).body == started.body);
}

TEST_CASE("a message's own stream has its turn and ends with done") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    auto client = server.client();
    for (int turn = 1; turn <= 2; ++turn) {
        const auto head = client.open_stream("POST", path + "/messages", R"({"content":"hi"})");
        CHECK(head.status == 200);
        CHECK(head.header("content-type") == "text/event-stream");
        server.agent_says("text_delta", R"({"delta":"x"})");
        server.agent_ends_turn();
        std::vector<std::string> types;
        while (const auto event = client.next_event()) {
            types.push_back(event->event);
            CHECK(json::parse(event->data)["turn"] == "t" + std::to_string(turn));
            CHECK(json::parse(event->data)["seq"] == std::stoull(event->id));
        }
        CHECK(types.back() == "done");
        CHECK(std::count(types.begin(), types.end(), "text_delta") == 1);
    }
}

TEST_CASE("a reader that reconnects gets every later event once") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    server.call("POST", path + "/messages", R"({"content":"hi"})");
    for (int i = 0; i < 5; ++i)
        server.agent_says("text_delta", R"({"delta":"x"})");
    auto client = server.client();
    REQUIRE(client.open_stream("GET", path + "/events").status == 200);
    std::uint64_t last = 0;
    for (int i = 0; i < 4; ++i) {
        const auto seq = std::stoull(client.next_event()->id);
        CHECK(seq == last + 1);
        last = seq;
    }
    client.close();
    server.agent_ends_turn();
    // The browser sends the URL that it had and the last id that it saw.
    client.open_stream("GET", path + "/events?after=0", "", {{"Last-Event-ID", std::to_string(last)}});
    for (std::string type; type != "done";) {
        const auto event = client.next_event();
        CHECK(std::stoull(event->id) == ++last);
        type = event->event;
    }
    client.close();
    client.open_stream("GET", path + "/events?after=" + std::to_string(last - 1));
    CHECK(std::stoull(client.next_event()->id) == last);
    CHECK(server.call("GET", path + "/events", "", {{"Accept", "text/event-stream"}, {"Last-Event-ID", "x"}})
              .status == 400);
}

TEST_CASE("events come in pages") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    server.call("POST", path + "/messages", R"({"content":"hi"})");
    for (int i = 0; i < 5; ++i)
        server.agent_says("text_delta", R"({"delta":"x"})");
    server.agent_ends_turn();
    REQUIRE(server.eventually(
        [&] { return server.world.store.events.rbegin()->second->type == EventType::done; }));
    std::uint64_t after = 0;
    std::string type;
    while (type != "done") {
        const auto page = server.call_json("GET", path + "/events?limit=2&after=" + std::to_string(after));
        REQUIRE_FALSE(page["events"].empty());
        REQUIRE(page["events"].size() <= 2);
        for (const auto& event : page["events"]) {
            CHECK(event["seq"] == ++after);
            type = event["type"];
        }
        CHECK(page["next"] == after);
    }
    const auto end = server.call_json("GET", path + "/events?after=" + std::to_string(after));
    CHECK(end["events"].empty());
    CHECK(end["next"] == after);
    CHECK(server.code("GET", path + "/events?after=-1") == "invalid_field");
    CHECK(server.code("GET", "/v1/conversations/" + k_no_id + "/events") == "not_found");
}

TEST_CASE("a page of events reads no more rows than it has, and few at once") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    server.call("POST", path + "/messages", R"({"content":"hi"})");
    // So many that the first ones are in the store alone.
    constexpr std::size_t k_at_once = base::k_replay_batch_bytes / base::k_least_event_cost_bytes;
    constexpr std::size_t k_stored = 3 * k_at_once;
    REQUIRE(server.eventually([&] { return !server.world.queries.empty(); }));
    server.on_loop([&] {
        for (std::size_t i = 0; i < k_stored + base::k_live_window_events; ++i)
            server.world.queries.front()->observer->on_event({"text_delta", R"({"delta":"x"})"});
    });
    server.agent_ends_turn();
    REQUIRE(server.eventually(
        [&] { return server.world.store.events.rbegin()->second->type == EventType::done; }));
    const auto reads_of = [&](std::size_t limit) {
        server.on_loop([&] { server.world.store.reads.clear(); });
        const auto page = server.call_json("GET", path + "/events?limit=" + std::to_string(limit));
        CHECK(page["events"].size() == limit);
        CHECK(page["next"] == limit);
        return server.on_loop([&] { return server.world.store.reads; });
    };
    CHECK(reads_of(1) == std::vector<std::size_t>{1});
    CHECK(reads_of(10) == std::vector<std::size_t>{10});
    const auto reads = reads_of(k_stored);
    REQUIRE_FALSE(reads.empty());
    CHECK(std::ranges::max(reads) <= k_at_once);
    CHECK(std::accumulate(reads.begin(), reads.end(), std::size_t{0}) == k_stored);
}

TEST_CASE("a live stream ends when its conversation is deleted") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    auto client = server.client();
    client.open_stream("GET", path + "/events");
    server.time_passes = true;
    CHECK(server.call("DELETE", path).status == 204);
    std::string last;
    while (const auto event = client.next_event())
        last = event->event;
    CHECK(last == "stream_closed");
}

TEST_CASE("a conversation is paused and resumed") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    server.time_passes = true;
    const auto paused = server.call_json("POST", path + "/pause");
    CHECK(paused["status"] == "paused");
    CHECK(paused["statusReason"] == "user");
    server.time_passes = false;
    const auto resumed = server.call_json("POST", path + "/resume");
    CHECK(resumed["status"] == "active");
    CHECK(resumed["generation"] == 2);
}

TEST_CASE("a conversation is paused warm and goes on as the same generation") {
    ApiServer server;
    const std::string path = "/v1/conversations/" + server.create();
    const auto paused = server.call_json("POST", path + "/pause", R"({"mode":"warm"})");
    CHECK(paused["status"] == "paused");
    CHECK(paused["sandboxStatus"] == "frozen");
    const auto resumed = server.call_json("POST", path + "/resume");
    CHECK(resumed["status"] == "active");
    CHECK(resumed["sandboxStatus"] == "ready");
    CHECK(resumed["generation"] == 1);
    CHECK(server.code("POST", path + "/pause", R"({"mode":"hot"})") == "invalid_field");
    CHECK(server.code("POST", path + "/pause", R"({"warm":true})") == "unknown_field");
    CHECK(server.call("POST", path + "/messages", R"({"content":"hi"})").status == 202);
    CHECK(server.code("POST", path + "/pause", R"({"mode":"warm"})") == "turn_in_progress");
}

TEST_CASE("a sandbox without a conversation is created, listed and deleted") {
    ApiServer server;
    const auto made = server.call("POST", "/v1/sandboxes", R"({"metadata":{"a":1}})");
    REQUIRE(made.status == 201);
    const auto box = json::parse(made.body);
    CHECK(box["conversationId"] == nullptr);
    CHECK(box["status"] == "ready");
    const std::string path = "/v1/sandboxes/" + box["id"].get<std::string>();
    CHECK(server.call_json("GET", path)["metadata"] == json{{"a", 1}});
    const auto owned =
        server.call_json("GET", "/v1/conversations/" + server.create())["sandboxId"].get<std::string>();
    CHECK(server.call_json("GET", "/v1/sandboxes")["sandboxes"].size() == 2);
    CHECK(server.code("DELETE", "/v1/sandboxes/" + owned) == "sandbox_in_use");
    CHECK(server.code("POST", "/v1/sandboxes", R"({"agent":"shell"})") == "unknown_field");
    server.time_passes = true;
    CHECK(server.call("DELETE", path).status == 204);
    CHECK(server.code("GET", path) == "not_found");
}

TEST_CASE("every route of a conversation answers another user as if there were none") {
    ApiServer server;
    const HeaderList alice{{"X-API-Key", "key of alice"}};
    const HeaderList bob{{"X-API-Key", "key of bob"}};
    const auto made = server.call_as(alice, "POST", "/v1/conversations", "{}");
    REQUIRE(made.status == 201);
    const auto hers = json::parse(made.body);
    CHECK(hers["userId"] == "alice");
    std::size_t walked = 0;
    for (const auto& [pattern, item] : server.checker().document()["paths"].items()) {
        const auto at = pattern.find("/{id}");
        if (at == std::string::npos)
            continue;
        const std::string id = pattern.starts_with("/v1/sandboxes") ? hers["sandboxId"] : hers["id"];
        for (const auto& [method, operation] : item.items()) {
            ++walked;
            std::string name = method;
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return std::toupper(c); });
            const std::string tail = pattern.substr(at + 5);
            const auto ask = [&](const std::string& which) {
                const std::string body = method == "get" || method == "delete" ? "" : "{}";
                auto answer = json::parse(
                    server.call_as(bob, name, pattern.substr(0, at + 1) + which + tail, body).body);
                answer.erase("requestId");
                return answer;
            };
            INFO(name << ' ' << pattern);
            CHECK(ask(id)["code"] == "not_found");
            CHECK(ask(id) == ask(k_no_id));
        }
    }
    CHECK(walked >= 11);
    const std::string path = "/v1/conversations/" + hers["id"].get<std::string>();
    CHECK(server.call_as(alice, "GET", path).status == 200);
    CHECK(server.call_as(alice, "GET", path + "/events").status == 200);
    CHECK(server.call_as(alice, "POST", path + "/messages", R"({"content":"hi"})").status == 202);
    for (const std::string tail : {"", "/metrics", "/logs"})
        CHECK(server.call_as(alice, "GET", "/v1/sandboxes/" + hers["sandboxId"].get<std::string>() + tail)
                  .status == 200);
    CHECK(server.call("GET", path).status == 200);
}

TEST_CASE("a user's key creates and lists for that user") {
    ApiServer server;
    const HeaderList alice{{"X-API-Key", "key of alice"}};
    const auto code = [&](const std::string& method, const std::string& path, const std::string& body) {
        const auto response = server.call_as(alice, method, path, body);
        CHECK(response.status == 403);
        return json::parse(response.body)["code"];
    };
    server.create(R"({"userId":"bob"})");
    CHECK(code("POST", "/v1/conversations", R"({"userId":"bob"})") == "user_not_allowed");
    CHECK(code("GET", "/v1/conversations?userId=bob", "") == "user_not_allowed");
    CHECK(code("POST", "/v1/sandboxes", R"({"userId":"bob"})") == "user_not_allowed");
    CHECK(code("GET", "/v1/sandboxes?userId=bob", "") == "user_not_allowed");
    const auto made = server.call_as(alice, "POST", "/v1/conversations", R"({"userId":"alice"})");
    CHECK(made.status == 201);
    const auto page = json::parse(server.call_as(alice, "GET", "/v1/conversations").body)["conversations"];
    REQUIRE(page.size() == 1);
    CHECK(page[0]["userId"] == "alice");
    base::Share shares[2];
    server.on_loop([&] {
        shares[0] = *server.budgets.exec.take(base::ShareHolder::user("alice"), 5);
        shares[1] = *server.budgets.exec.take(base::ShareHolder::user("bob"), 7);
    });
    const auto own = json::parse(server.call_as(alice, "GET", "/v1/system").body)["budgets"][0];
    CHECK(own["used"] == nullptr);
    CHECK(own["own"] == 5);
    CHECK(server.call_json("GET", "/v1/system")["budgets"][0]["used"] == 12);
    server.on_loop([&] {
        shares[0] = {};
        shares[1] = {};
    });
}

TEST_CASE("a route that is not of anybody's and says nothing of user keys is refused to them") {
    ApiServer server;
    server.on_loop([&] {
        http::Route route;
        route.pattern = "/v1/conversations-of-all";
        http::guard_route(server.api(), route);
        http::Request request;
        const bool aborted = false;
        http::RequestContext context(request, nullptr, aborted);
        REQUIRE(route.guard);
        // It waits for nothing.
        const auto guarded = [&] {
            base::Result<void> answer;
            boost::asio::io_context loop;
            boost::asio::co_spawn(loop.get_executor(), route.guard(context),
                                  [&](std::exception_ptr, base::Result<void> told) { answer = told; });
            loop.run();
            return answer;
        };
        CHECK(guarded().has_value());
        context.principal.user_id = "alice";
        CHECK(guarded().error().code() == base::Errc::key_restricted);
        context.principal.user_id.reset();
        context.principal.scope = http::Scope::read;
        CHECK(guarded().error().code() == base::Errc::key_restricted);
    });
}

TEST_CASE("a token is made for a conversation and opens its events") {
    ApiServer server;
    const std::string id = server.create();
    const std::string path = "/v1/conversations/" + id;
    const auto made = server.call("POST", path + "/tokens", R"({"ttlSeconds":60,"scope":"chat"})");
    REQUIRE(made.status == 201);
    const auto token = json::parse(made.body)["token"].get<std::string>();
    CHECK(k_tokens.verify(token, id)->scope == http::Scope::chat);
    const auto plain = server.call_json("POST", path + "/tokens");
    CHECK(k_tokens.verify(plain["token"].get<std::string>(), id)->scope == http::Scope::read);
    CHECK(server.call_as({}, "GET", path + "/events?token=" + token).status == 200);
    const auto expired = k_tokens.issue(id, http::Scope::read, std::chrono::seconds{-1}).token;
    const auto refused = server.call_as({}, "GET", path + "/events?token=" + expired);
    CHECK(refused.status == 401);
    CHECK(json::parse(refused.body)["code"] == "token_expired");
    const auto other = "/v1/conversations/" + server.create();
    const auto code_of = [&](const std::string& target) {
        return json::parse(server.call_as({}, "GET", target).body)["code"].get<std::string>();
    };
    CHECK(code_of(other + "/events?token=" + token) == "token_mismatch");
    CHECK(code_of(path + "?token=" + token) == "token_scope");
    CHECK(code_of(path + "/events?token=" + token + "0") == "invalid_token");
    CHECK(server.call_as({}, "GET", path + "/events?token=" + token + "&token=" + token).status == 400);
    CHECK(server.call_as({}, "GET", path + "/events").status == 401);
    CHECK(server.code("POST", path + "/tokens", R"({"ttlSeconds":86401})") == "invalid_field");
    CHECK(server.code("POST", path + "/tokens", R"({"scope":"full"})") == "invalid_field");
    CHECK(server.code("POST", "/v1/conversations/" + k_no_id + "/tokens") == "not_found");
}

TEST_CASE("a token for files or a terminal is one of a sandbox, also when a conversation makes it") {
    ApiServer server;
    const std::string id = server.create();
    const std::string path = "/v1/conversations/" + id;
    const auto sandbox = server.call_json("GET", path)["sandboxId"].get<std::string>();
    const auto of = "/v1/sandboxes/" + sandbox + "/tokens";
    for (const auto& [word, scope] :
         {std::pair{"files", http::Scope::files}, std::pair{"terminal", http::Scope::terminal}}) {
        const std::string body = json{{"scope", word}}.dump();
        for (const auto& maker : {path + "/tokens", of}) {
            INFO(maker << ' ' << word);
            const auto token = server.call_json("POST", maker, body)["token"].get<std::string>();
            const auto principal = k_tokens.verify(token, sandbox);
            REQUIRE(principal.has_value());
            CHECK(principal->scope == scope);
            CHECK(principal->sandbox_id == sandbox);
            CHECK_FALSE(principal->conversation_id);
            CHECK(k_tokens.verify(token, id).error().code() == base::Errc::token_mismatch);
            const auto elsewhere = server.call_as({}, "GET", path + "/events?token=" + token);
            CHECK(elsewhere.status == 403);
            const auto problem = json::parse(elsewhere.body);
            CHECK(problem["code"] == "token_scope");
            CHECK(problem["detail"] ==
                  "The token is of the scope `" + std::string(word) + "`; this route needs one of `read`.");
        }
    }
    CHECK(server.code("POST", of, "{}") == "invalid_field");
    CHECK(server.code("POST", of, R"({"scope":"read"})") == "invalid_field");
    CHECK(server.code("POST", of, R"({"scope":"chat"})") == "invalid_field");
    CHECK(server.code("POST", of, R"({"scope":"files","ttlSeconds":0})") == "invalid_field");
    CHECK(server.code("POST", "/v1/sandboxes/" + k_no_id + "/tokens", R"({"scope":"files"})") == "not_found");
}

TEST_CASE("a route takes the tokens of its own scope alone, and none that changes what is there takes any") {
    ApiServer server;
    server.on_loop([&] {
        const http::Router router = http::make_router(server.api());
        for (const http::Route& route : router.routes()) {
            INFO(route.name);
            if (route.auth != http::Auth::token_or_key)
                continue;
            const bool is_of_conversation = route.pattern.starts_with("/v1/conversations/{id}/");
            const bool is_of_sandbox = route.pattern.starts_with("/v1/sandboxes/{id}/");
            const bool is_of_execution = route.pattern.starts_with("/v1/executions/{id}/");
            CHECK((is_of_conversation || is_of_sandbox || is_of_execution));
            CHECK(route.method != http::Method::patch);
            CHECK(route.method != http::Method::delete_);
            CHECK_FALSE(route.pattern.ends_with("/exec"));
            CHECK_FALSE(route.pattern.ends_with("/execute"));
            CHECK(route.pattern.find("/tools") == std::string_view::npos);
            CHECK(route.pattern.find("/tokens") == std::string_view::npos);
            if (is_of_conversation)
                CHECK(route.token_scope ==
                      (route.method == http::Method::post ? http::Scope::chat : http::Scope::read));
            else if (is_of_execution)
                CHECK(route.token_scope ==
                      (route.pattern.ends_with("/ws") ? http::Scope::chat : http::Scope::read));
            else if (route.token_scope == http::Scope::files)
                CHECK(route.method == http::Method::get);
            else
                CHECK((route.token_scope == http::Scope::terminal &&
                       route.pattern.starts_with("/v1/sandboxes/{id}/processes")));
        }
    });
}

TEST_CASE("a lease that ended before its first use refuses operations with what ended it") {
    ApiServer server;
    const auto state = std::make_shared<conversation::LeaseState>();
    state->phase = conversation::LeaseState::Phase::over;
    state->why = base::Error(base::Errc::conversation_ended);
    const conversation::Lease lease(state);
    CHECK(http::operations_of(server.api(), lease).error().code() == base::Errc::conversation_ended);
}

}  // namespace api_test
