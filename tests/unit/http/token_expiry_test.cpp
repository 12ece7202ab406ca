// The end of a stream when the token that opened it expires, in time that stands still.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/fake_websocket.hpp"

namespace token_expiry_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

const std::string k_id(20, 'a');

/// An SSE stream. take() returns the bytes that have come since the last call.
struct Stream {
    Stream(FakeSocketServer& of, const std::string& target, const std::string& fields = "")
        : server(of), peer(of.connect()) {
        peer->send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
        server.run();
        // The head waits a moment for the first event.
        server.advance(20ms);
    }
    std::string take() { return server.take(*peer); }

    FakeSocketServer& server;
    std::shared_ptr<FakePeer> peer;
};

std::string stream_target(FakeSocketServer& server, const std::string& kind, std::chrono::seconds ttl,
                          const std::string& more = "") {
    return "/things/" + k_id + "/" + kind + "?token=" + server.token_for(k_id, ttl) + more;
}

void check_ends_at_expiry(const std::string& kind, base::Millis heartbeat) {
    TestSettings settings;
    settings.heartbeat_interval = heartbeat;
    FakeSocketServer server(settings);
    server.publish(3);
    Stream stream(server, stream_target(server, kind, 60s));
    const std::string first = stream.take();
    CHECK(first.find("HTTP/1.1 200") == 0);
    CHECK(first.find("id: 3\n") != std::string::npos);
    server.advance(58s);
    CHECK(stream.take().find("stream_closed") == std::string::npos);
    server.publish();
    CHECK(stream.take().find("id: 4\n") != std::string::npos);
    server.advance(2s);
    const std::string last = stream.take();
    CHECK(last.find(R"(data: {"type":"stream_closed","code":"token_expired","detail":")") !=
          std::string::npos);
    CHECK(last.find(R"("after":4})") != std::string::npos);
    CHECK(last.find("event:") == std::string::npos);
    CHECK(last.find("id:") == std::string::npos);
    CHECK(last.ends_with("0\r\n\r\n"));
    // The connection goes on, and is not cut later.
    server.advance(10s);
    CHECK_FALSE(stream.peer->is_closed());
    stream.peer->send("GET /things/" + k_id + "/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(problem_in(stream.take()) == "401 unauthorized");
    server.publish();
    CHECK(stream.take().empty());
}

Json reason_of(const ServerFrame& frame) {
    REQUIRE(frame.opcode == 0x8);
    return Json::parse(frame.close_reason());
}

}  // namespace

TEST_CASE("A stream of events ends when its token expires, with a word that says so") {
    check_ends_at_expiry("events", 15s);
    check_ends_at_expiry("events", 1h);
}

TEST_CASE("The stream of one turn ends when its token expires") {
    check_ends_at_expiry("turn", 15s);
}

TEST_CASE("A stream that has sent nothing yet ends when its token expires, too") {
    TestSettings settings;
    settings.stream_head_delay = 1h;
    FakeSocketServer server(settings);
    Stream stream(server, stream_target(server, "turn", 2s));
    CHECK(stream.take().empty());
    server.advance(2s);
    const std::string all = stream.take();
    CHECK(all.starts_with("HTTP/1.1 200"));
    CHECK(all.find(R"("code":"token_expired")") != std::string::npos);
}

TEST_CASE("The last word at the expiry has a name where names were asked for") {
    FakeSocketServer server;
    server.publish();
    Stream stream(server, stream_target(server, "events", 5s, "&named=1"));
    CHECK(stream.take().find("id: 1\nevent: text_delta\ndata: {") != std::string::npos);
    server.advance(5s);
    CHECK(stream.take().find("event: stream_closed\ndata: {\"type\":\"stream_closed\"") != std::string::npos);
    CHECK(problem_in(Stream(server, stream_target(server, "events", 5s, "&named=2")).take()) ==
          "422 invalid_field");
}

TEST_CASE("A stream that was opened with a key does not expire, whatever token is beside it") {
    FakeSocketServer server;
    Stream stream(server, stream_target(server, "events", 2s), "X-API-Key: test-key\r\n");
    server.advance(1h);
    server.publish();
    CHECK(stream.take().find("id: 1\n") != std::string::npos);
}

TEST_CASE("A clock that is set does not move the end of an open stream") {
    FakeSocketServer server;
    Stream stream(server, stream_target(server, "events", 60s));
    for (const auto ahead : {base::Millis(2h), base::Millis(-4h)}) {
        server.set_wall_clock(ahead);
        server.advance(20s);
        server.publish();
        CHECK(stream.take().find("stream_closed") == std::string::npos);
    }
    server.advance(20s);
    CHECK(stream.take().find(R"("code":"token_expired")") != std::string::npos);
}

TEST_CASE("A client that does not read is cut off 2 s after the end of its token, whatever its stream") {
    for (const std::string kind : {"events", "turn", "ws"}) {
        INFO(kind);
        TestSettings settings;
        settings.heartbeat_interval = 1h;
        settings.write_deadline = 1h;
        FakeSocketServer server(settings);
        const auto peer = server.connect();
        const auto target = stream_target(server, kind, 60s);
        peer->send(kind == "ws" ? token_handshake(target)
                                : "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
        server.publish(1);
        CHECK_FALSE(server.take(*peer).empty());
        peer->take_only(0);
        server.publish(10, 100'000);
        server.advance(60s);
        CHECK_FALSE(peer->is_closed());
        server.advance(2s);
        CHECK(peer->was_reset());
        CHECK(server.connections() == 0);
        CHECK(server.script.wakes.empty());
    }
}

TEST_CASE("A WebSocket ends with 4401 when its token expires, and obeys nothing from then on") {
    FakeSocketServer server;
    server.publish(2);
    auto client = server.open_with(token_handshake(stream_target(server, "ws", 20s)));
    CHECK(client.next_opcode() == 0x1);
    CHECK(client.next_opcode() == 0x1);
    for (int i = 0; i < 18; ++i) {
        server.advance(1s);
        client.send({.first = 0x8a});  // answers pings
        while (const auto frame = client.next())
            CHECK(frame->opcode == 0x9);
    }
    client.send({.payload = R"({"type":"interrupt"})"});
    CHECK(server.interrupts == 1);
    server.advance(2s);
    const auto end = client.next();
    REQUIRE(end);
    CHECK(end->close_code() == 4401);
    CHECK(reason_of(*end)["code"] == "token_expired");
    CHECK(reason_of(*end)["after"] == 2);
    CHECK_FALSE(reason_of(*end)["detail"].get<std::string>().empty());
    client.send({.payload = R"({"type":"interrupt"})"});
    server.publish();
    CHECK(server.interrupts == 1);
    CHECK_FALSE(client.next());
    client.send_raw(close_frame_bytes(4401));
    CHECK(client.peer().input_ended());
    client.peer().end_sending();
    server.run();
    CHECK(server.connections() == 0);
}

TEST_CASE("A frame that comes with the end of the token is not obeyed") {
    FakeSocketServer server;
    const auto peer = server.connect();
    peer->send(token_handshake(stream_target(server, "ws", 5s)));
    server.run();
    server.take(*peer);
    server.hold_replies = true;
    peer->send(frame_bytes({.payload = R"({"type":"message","content":"one","id":1})"}));
    server.run();
    peer->send(frame_bytes({.payload = R"({"type":"interrupt"})"}));  // waits for the reply to the message
    server.run();
    REQUIRE(server.contents.size() == 1);
    server.advance(5s);
    server.held(server.ticket);
    const std::string last = server.take(*peer);
    CHECK(last.find("token_expired") != std::string::npos);
    CHECK(server.interrupts == 0);
}

TEST_CASE("A client that does not answer the close frame at the end of its token is gone after 2 s") {
    FakeSocketServer server;
    auto client = server.open_with(token_handshake(stream_target(server, "ws", 5s)));
    server.advance(5s);
    CHECK(client.next_opcode() == 0x8);
    for (int i = 0; i < 19; ++i) {
        client.send({.first = 0x89, .payload = "still here"});
        server.advance(100ms);
        CHECK(server.connections() == 1);
    }
    server.advance(100ms);
    CHECK(server.connections() == 0);
    CHECK(client.peer().is_closed());
}

}  // namespace token_expiry_test
