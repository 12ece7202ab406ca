// Cursors that say which log they are of, on every route that takes one.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/websocket_client.hpp"
#include "tests/unit/http/api_server.hpp"

namespace log_cursor_test {

using namespace atl;
using namespace atl::test;

namespace {

/// A conversation whose log has ended for now.
struct Log {
    Log() {
        server.call("POST", path + "/messages", R"({"content":"hi"})");
        server.agent_ends_turn();
        REQUIRE(server.eventually([&] {
            return server.world.store.events.rbegin()->second->type == conversation::EventType::done;
        }));
        last = server.call_json("GET", path)["lastSeq"];
    }
    std::string events(const std::string& after) const { return path + "/events?after=" + after; }
    json page(const std::string& after) { return server.call_json("GET", events(after)); }

    ApiServer server;
    std::string id = server.create();
    std::string path = "/v1/conversations/" + id;
    std::uint64_t last = 0;
    const std::string epoch = k_test_epoch;
};

}  // namespace

TEST_CASE("the epoch of a log is on its conversation, its pages and its session_start") {
    Log log;
    CHECK(log.server.call_json("GET", log.path)["logEpoch"] == log.epoch);
    CHECK(log.server.call_json("GET", "/v1/conversations")["conversations"][0]["logEpoch"] == log.epoch);
    const json page = log.page("0");
    CHECK(page["logEpoch"] == log.epoch);
    CHECK(page["events"][0]["type"] == "session_start");
    CHECK(page["events"][0]["data"]["logEpoch"] == log.epoch);
    CHECK(page["next"].is_number());
    // It is not stored: the next epoch has the same events.
    CHECK(log.server.world.store.events.begin()->second->json.find("logEpoch") == std::string::npos);
}

TEST_CASE("a page after a cursor of this log, or after 0 of any, is the log's") {
    Log log;
    const std::string end = std::to_string(log.last);
    for (const std::string& after : {std::string("1"), "1-" + log.epoch}) {
        const json page = log.page(after);
        CHECK(page["events"][0]["seq"] == 2);
        CHECK(page["next"] == log.last);
    }
    for (const std::string& after : {end, end + "-" + log.epoch})
        CHECK(log.page(after)["events"].empty());
    for (const char* after : {"0", "0-other"})
        CHECK(log.page(after)["events"][0]["seq"] == 1);
}

TEST_CASE("a page after a cursor of another log, or beyond the end, is refused with what is there") {
    Log log;
    const std::string beyond = std::to_string(log.last + 1);
    for (const std::string& after :
         {std::string("1-other"), beyond, beyond + "-" + log.epoch, std::string("9223372036854775807")}) {
        CAPTURE(after);
        const auto refused = log.server.call("GET", log.events(after));
        CHECK(refused.status == 410);
        const json problem = json::parse(refused.body);
        CHECK(problem["code"] == "log_replaced");
        CHECK(problem["logEpoch"] == log.epoch);
        CHECK(problem["firstSeq"] == 1);
    }
}

TEST_CASE("a cursor of another form is refused, and its length is bounded") {
    Log log;
    for (const std::string& after : {std::string("1-"), std::string("-1"), std::string("1-A"),
                                     std::string("1-a-b"), std::string("x-a"), "1-" + std::string(33, 'a')}) {
        CAPTURE(after);
        CHECK(log.server.code("GET", log.events(after)) == "invalid_field");
        CHECK(log.server
                  .call("GET", log.path + "/events", "",
                        {{"Accept", "text/event-stream"}, {"Last-Event-ID", after}})
                  .status == 400);
    }
    CHECK(log.page("1-" + std::string(32, 'a'))["code"] == "log_replaced");
}

TEST_CASE("the ids of Server-Sent Events say which log they are of, and are taken back") {
    Log log;
    auto client = log.server.client();
    REQUIRE(client.open_stream("GET", log.events("0")).status == 200);
    const auto first = client.next_event();
    CHECK(first->id == "1-" + log.epoch);
    client.close();
    client.open_stream("GET", log.events("0"), "", {{"Last-Event-ID", first->id}});
    CHECK(client.next_event()->id == "2-" + log.epoch);
    client.close();
}

TEST_CASE("a stream from a cursor of another log opens, says so and where to begin, and ends") {
    Log log;
    const auto check = [&](const std::string& after, const HeaderList& headers) {
        auto client = log.server.client();
        REQUIRE(client.open_stream("GET", log.events(after), "", headers).status == 200);
        const auto last_word = client.next_event();
        CHECK(last_word->id.empty());
        CHECK(last_word->data.starts_with(R"({"logEpoch":")" + log.epoch + R"(","type":"stream_closed")"));
        const json told = json::parse(last_word->data);
        CHECK(told["code"] == "log_replaced");
        CHECK(told["after"] == 0);
        CHECK_FALSE(client.next_event());
    };
    check("1-other", {});
    check(std::to_string(log.last + 1), {});
    check("0", {{"Last-Event-ID", "1-other"}});
}

TEST_CASE("a WebSocket from a cursor of another log is closed with 4410, one of this log goes on") {
    Log log;
    const auto open = [&](const std::string& after) {
        return WebSocketClient(
            HttpClient(log.server.address),
            log.path + "/ws?after=" + after +
                "&token=" + k_tokens.issue(log.id, http::Scope::read, std::chrono::seconds(600)).token);
    };
    for (const std::string& after : {std::string("1-other"), std::to_string(log.last + 1)}) {
        const auto closed = open(after).await_close();
        CHECK(closed.close_code() == 4410);
        const json reason = json::parse(closed.close_reason());
        CHECK(reason["code"] == "log_replaced");
        CHECK(reason["logEpoch"] == log.epoch);
        CHECK(reason["after"] == 0);
    }
    CHECK(json::parse(open("1-" + log.epoch).next_text())["seq"] == 2);
    CHECK(json::parse(open("0-other").next_text())["data"]["logEpoch"] == log.epoch);
}

}  // namespace log_cursor_test
