// Long messages of WebSockets share the budget of body_budget.hpp.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/fake_websocket.hpp"
#include "tests/unit/http/socket_server.hpp"

namespace websocket_memory_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

TEST_CASE("A long message waits until there is memory for all of it; short ones do not") {
    constexpr std::size_t k_long = 90'000;
    TestSettings settings;
    settings.body_budget_bytes = 100'000;
    SocketServer server(settings);
    const auto becomes = [&](std::size_t used, std::size_t waiting) {
        return server.eventually([&] {
            return server.bodies_now().used_bytes() == used && server.bodies_now().waiting() == waiting;
        });
    };
    const auto message_of = [](std::size_t length, char fill) {
        const std::string empty = R"({"type":"message","content":""})";
        return R"({"type":"message","content":")" + std::string(length - empty.size(), fill) + R"("})";
    };
    const std::string bytes = frame_bytes({.payload = message_of(k_long, 'a')});
    auto first = server.open();
    first.send_raw(std::string_view(bytes).substr(0, bytes.size() / 2));
    REQUIRE(becomes(k_long, 0));
    auto whole = server.open();
    whole.send_text(message_of(k_long, 'b'));
    REQUIRE(becomes(k_long, 1));
    auto fragmented = server.open();
    const std::string text = message_of(50'000, 'c');
    fragmented.send({.first = 0x01, .payload = text.substr(0, 25'000)});
    fragmented.send({.first = 0x80, .payload = text.substr(25'000)});
    REQUIRE(becomes(k_long, 2));

    auto small = server.open();
    small.send_text(message_of(base::k_free_body_bytes - 100, 's'));
    CHECK(server.eventually([&] { return server.contents.size() == 1; }));
    CHECK(becomes(k_long, 2));

    first.send_raw(std::string_view(bytes).substr(bytes.size() / 2));
    CHECK(server.eventually([&] { return server.contents.size() == 4; }));
    server.on_loop([&] {
        CHECK(server.contents[1].front() == 'a');
        CHECK(server.contents[2].front() == 'b');
        CHECK(server.contents[3].front() == 'c');
    });
    CHECK(becomes(0, 0));
    {
        auto gone = server.open();
        gone.send_raw(std::string_view(bytes).substr(0, bytes.size() / 2));
        REQUIRE(becomes(k_long, 0));
    }
    CHECK(becomes(0, 0));
}

TEST_CASE("A WebSocket whose message waits for memory is not taken for dead") {
    TestSettings settings;
    settings.body_budget_bytes = 100'000;
    settings.body_deadline = 1h;
    FakeSocketServer server(settings);
    auto first = server.open();
    first.send({.first = 0x01, .payload = R"({"type":"message","content":")" + std::string(50'000, 'a')});
    REQUIRE(server.bodies().used_bytes() == 100'000);
    auto second = server.open();
    second.send({.payload = R"({"type":"message","content":")" + std::string(90'000, 'b') + R"("})"});
    REQUIRE(server.bodies().waiting() == 1);
    for (int i = 0; i < 5; ++i) {
        server.advance(base::k_heartbeat_interval);
        REQUIRE(first.next_opcode() == 0x9);
        first.send({.first = 0x8a});
        // Its pong would lie behind the unread message.
        REQUIRE(second.next_opcode() == 0x9);
    }
    first.send({.first = 0x80, .payload = R"("})"});
    CHECK(server.contents.size() == 2);
}

TEST_CASE("A message that waits for memory for too long ends its WebSocket") {
    TestSettings settings;
    settings.body_budget_bytes = 100'000;
    settings.heartbeat_interval = 1h;
    FakeSocketServer server(settings);
    const std::string bytes = frame_bytes({.payload = std::string(90'000, 'a')});
    const auto end_of = [](FakeWebSocket& client) {
        const auto frame = client.next();
        return frame ? std::to_string(frame->close_code()) + ' ' +
                           Json::parse(frame->close_reason())["code"].get<std::string>()
                     : "none";
    };
    const auto begin_message = [&] {
        auto client = server.open();
        client.send_raw(std::string_view(bytes).substr(0, bytes.size() / 2));
        server.advance(1s);
        return client;
    };
    auto first = begin_message();
    auto second = begin_message();
    server.advance(20s);
    auto third = begin_message();
    CHECK(server.bodies().waiting() == 2);
    // The second gets the place of the first, and has its whole time from then on; the third waits too long.
    server.advance(base::k_body_deadline - 22s);
    first.peer().end_sending();
    CHECK(end_of(first) == "1008 request_timeout");
    CHECK(end_of(second) == "none");
    CHECK(server.bodies().waiting() == 1);
    server.advance(22s);
    CHECK(end_of(third) == "1013 capacity");
    CHECK(end_of(second) == "none");
    server.advance(8s);
    CHECK(end_of(second) == "1008 request_timeout");
    CHECK(server.bodies().used_bytes() == 0);
}

}  // namespace websocket_memory_test
