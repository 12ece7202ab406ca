#include "http/api/websocket_session.hpp"

#include <catch2/catch_test_macros.hpp>

#include "http/websocket/handshake.hpp"
#include "tests/support/websocket_client.hpp"
#include "tests/unit/http/fake_websocket.hpp"
#include "tests/unit/http/socket_server.hpp"

namespace websocket_session_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

std::uint64_t seq_of(const std::string& text) {
    return Json::parse(text)["seq"];
}

Json rejection(WebSocketClient& client) {
    Json frame = Json::parse(client.next_text());
    CHECK(frame["type"] == "rejected");
    CHECK_FALSE(frame.contains("seq"));
    CHECK_FALSE(frame["detail"].get<std::string>().empty());
    return frame;
}

}  // namespace

TEST_CASE("A WebSocket gets what comes after its cursor, then what happens, in order and once") {
    SocketServer server;
    server.publish(5);
    auto client = server.open("/ws?after=2");
    for (const std::uint64_t seq : {3, 4, 5})
        CHECK(seq_of(client.next_text()) == seq);
    for (std::uint64_t seq = 6; seq < 40; ++seq) {
        server.publish();
        CHECK(seq_of(client.next_text()) == seq);
    }
}

TEST_CASE("A long replay comes in pieces that leave the loop to others") {
    SocketServer server;
    server.publish(300, 10'000);
    auto client = server.open();
    for (std::uint64_t seq = 1; seq <= 300; ++seq)
        REQUIRE(seq_of(client.next_text()) == seq);
    CHECK(server.on_loop([&] { return server.script.most_pulled; }) <= base::k_replay_batch_bytes + 11'000);
}

TEST_CASE("Answers to permissions arrive, with an option or cancelled") {
    SocketServer server;
    auto client = server.open();
    client.send_text(R"({"type":"permission","permissionId":"p1","optionId":"yes","id":"a"})");
    const auto accepted = nlohmann::json::parse(client.next_text());
    CHECK(accepted["type"] == "accepted");
    CHECK(accepted["id"] == "a");
    client.send_text(R"({"type":"permission","permissionId":"p2","outcome":"cancelled","id":"b"})");
    CHECK(nlohmann::json::parse(client.next_text())["type"] == "accepted");
    for (const char* wrong :
         {R"({"type":"permission","permissionId":"p1"})", R"({"type":"permission","optionId":"yes"})",
          R"({"type":"permission","permissionId":"p1","optionId":""})",
          R"({"type":"permission","permissionId":"p1","outcome":"allowed"})",
          R"({"type":"permission","permissionId":"p1","optionId":"yes","outcome":"cancelled"})"}) {
        INFO(wrong);
        client.send_text(wrong);
        CHECK(nlohmann::json::parse(client.next_text())["code"] == "invalid_field");
    }
    server.on_loop([&] { CHECK(server.permissions == std::vector<std::string>{"p1=yes", "p2="}); });
}

TEST_CASE("Messages and interrupts of the client arrive, in order") {
    SocketServer server;
    auto client = server.open();
    client.send_text(R"({"type":"message","content":"one"})");
    client.send_text(R"({"type":"message","content":[{"type":"text","text":"two"}],"idempotencyKey":"k"})");
    client.send_text(R"({"type":"interrupt"})");
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
    server.on_loop([&] {
        CHECK(server.contents == std::vector<std::string>{"one", "two"});
        CHECK(server.keys == std::vector<std::string>{"", "k"});
    });
    server.publish();
    CHECK(seq_of(client.next_text()) == 1);
}

TEST_CASE("A frame that is refused is answered with its reason and changes nothing") {
    SocketServer server;
    auto client = server.open();
    const auto refused = [&](const std::string& text) {
        client.send_text(text);
        return rejection(client)["code"].get<std::string>();
    };
    CHECK(refused("{") == "invalid_json");
    CHECK(refused("") == "invalid_json");
    CHECK(refused(std::string(1000, '[')) == "invalid_json");
    CHECK(refused("17") == "invalid_field");
    CHECK(refused("{}") == "invalid_field");
    CHECK(refused(R"({"type":"dance"})") == "invalid_field");
    CHECK(refused(R"({"type":17})") == "invalid_field");
    CHECK(refused(R"({"type":"message"})") == "invalid_field");
    CHECK(refused(R"({"type":"message","content":17})") == "invalid_field");
    CHECK(refused(R"({"type":"message","content":"x","more":1})") == "unknown_field");
    CHECK(refused(R"({"type":"interrupt","content":"x"})") == "unknown_field");
    CHECK(refused(R"({"type":"interrupt","type":"interrupt"})") == "invalid_json");
    server.on_loop([&] { server.refusal = base::Error(base::Errc::turn_in_progress); });
    CHECK(refused(R"({"type":"message","content":"x"})") == "turn_in_progress");
    CHECK(refused(R"({"type":"interrupt"})") == "turn_in_progress");
    server.on_loop([&] {
        CHECK(server.contents.size() == 1);
        server.refusal.reset();
    });
    server.publish();
    CHECK(seq_of(client.next_text()) == 1);
}

TEST_CASE("A frame with an id is answered with it, whether it is accepted or refused") {
    SocketServer server;
    auto client = server.open();
    const auto answer = [&](const std::string& text) {
        client.send_text(text);
        return Json::parse(client.next_text());
    };
    CHECK(answer(R"({"type":"message","content":"x","id":"m-1"})") ==
          Json{{"type", "accepted"}, {"id", "m-1"}, {"turn", "t7"}, {"after", 41}});
    CHECK(answer(R"({"type":"interrupt","id":-3})") ==
          Json{{"type", "accepted"}, {"id", -3}, {"turn", "t7"}, {"after", 41}});
    server.on_loop([&] {
        // A message is stored before the client is told that it is accepted.
        CHECK(server.whens.back() == conversation::MessageReply::committed);
        server.refusal = base::Error(base::Errc::turn_in_progress);
    });
    for (const char* text : {R"({"type":"message","content":"x","id":0})", R"({"type":"interrupt","id":0})",
                             R"({"type":"dance","id":0})", R"({"id":0})", R"({"id":0,"type":"message"})"}) {
        const Json refused = answer(text);
        CHECK(refused["type"] == "rejected");
        CHECK(refused["id"] == 0);
        CHECK_FALSE(refused.contains("seq"));
    }
    CHECK(answer(R"({"type":"interrupt","id":0})")["code"] == "turn_in_progress");
    CHECK(answer(R"({"type":"dance","id":"\u00e9\""})")["id"] == "\u00e9\"");
    const std::size_t before = server.on_loop([&] { return server.contents.size(); });
    for (const std::string& id : {std::string("null"), std::string("true"), std::string("1.5"),
                                  std::string("\"\""), std::string("[1]"), std::string("{}"),
                                  std::string("9007199254740992"), std::string("-9007199254740992"),
                                  std::string("18446744073709551615"), '"' + std::string(129, 'i') + '"'}) {
        const Json refused = answer(R"({"type":"message","content":"x","id":)" + id + "}");
        INFO(id);
        CHECK(refused["code"] == "invalid_field");
        CHECK_FALSE(refused.contains("id"));
    }
    CHECK(server.on_loop([&] { return server.contents.size(); }) == before);
    for (const std::string& id : {std::string("9007199254740991"), std::string("-9007199254740991"),
                                  '"' + std::string(128, 'i') + '"'})
        CHECK(answer(R"({"type":"interrupt","id":)" + id + "}")["id"] == Json::parse(id));
}

TEST_CASE("A frame without an id is accepted silently") {
    SocketServer server;
    auto client = server.open();
    client.send_text(R"({"type":"message","content":"x"})");
    client.send_text(R"({"type":"interrupt"})");
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
    server.publish();
    CHECK(seq_of(client.next_text()) == 1);
    server.on_loop([&] { CHECK(server.whens.back() == conversation::MessageReply::at_once); });
}

TEST_CASE("Who sends a message without an id hears once that the store does not take its turn") {
    FakeSocketServer server;
    auto sender = server.open();
    auto reader = server.open();
    const auto stall = [&](bool stalled) {
        server.script.stalled = stalled;
        server.publish(0);
    };
    sender.send({.payload = R"({"type":"message","content":"x"})"});
    stall(true);
    const Json frame = Json::parse(sender.next()->payload);
    CHECK(frame["type"] == "rejected");
    CHECK(frame["code"] == "storage_failed");
    CHECK(frame["detail"].get<std::string>().find("the turn t7: it runs") != std::string::npos);
    CHECK_FALSE(frame.contains("id"));
    stall(true);
    CHECK_FALSE(sender.next());
    CHECK_FALSE(reader.next());
    // A sender that has had an event of its turn waits for the rest as other readers do.
    stall(false);
    server.ticket.turn = 1;
    sender.send({.payload = R"({"type":"message","content":"y"})"});
    server.publish();
    CHECK(seq_of(sender.next()->payload) == 1);
    stall(true);
    CHECK_FALSE(sender.next());
}

TEST_CASE("Who sends a message again without an id hears nothing of a store that stalls later") {
    FakeSocketServer server;
    auto sender = server.open();
    const std::string message = R"({"type":"message","content":"x","idempotencyKey":"k"})";
    // The turn is over, and its events are in the store.
    server.ticket.replayed = true;
    sender.send({.payload = message});
    server.script.stalled = true;
    server.publish(0);
    CHECK_FALSE(sender.next());
    // The control: of a turn that the same message begins it does.
    server.ticket.replayed = false;
    sender.send({.payload = message});
    server.publish(0);
    CHECK(Json::parse(sender.next()->payload)["code"] == "storage_failed");
}

TEST_CASE("A frame over the limit is refused with its id, unless it is long") {
    SocketServer server;
    auto client = server.open();
    server.on_loop([&] { server.frames_left = 0; });
    client.send_text(R"({"type":"message","content":"x","id":"one"})");
    CHECK(rejection(client)["id"] == "one");
    client.send_text(R"({"type":"message","content":")" + std::string(base::k_searched_frame_bytes, 'x') +
                     R"(","id":"two"})");
    CHECK_FALSE(rejection(client).contains("id"));
    client.send_text("no json");
    CHECK(rejection(client)["code"] == "too_many_requests");
}

TEST_CASE("A frame with more JSON than the server parses is refused, and its values count") {
    SocketServer server;
    auto client = server.open();
    std::string text = R"({"type":"message","content":[)";
    for (std::size_t i = 0; i < base::k_max_json_nodes; ++i)
        text += "0,";
    client.send_text(text + "0]}");
    CHECK(rejection(client)["code"] == "body_too_large");
    CHECK(server.on_loop([&] { return server.frame_nodes; }) == base::k_max_json_nodes + 1);
    client.send_text(R"({"type":"message","content":"x"})");
    CHECK(server.eventually([&] { return server.contents.size() == 1; }));
    CHECK(server.on_loop([&] { return server.frame_nodes; }) == base::k_max_json_nodes + 4);
}

TEST_CASE("A frame that is one too many is refused by name, and who goes on is cut off") {
    SocketServer server;
    auto client = server.open();
    const std::string message = R"({"type":"message","content":"hi"})";
    server.on_loop([&] { server.frames_left = 2; });
    for (int i = 0; i < 3; ++i)
        client.send_text(message);
    CHECK(rejection(client)["code"] == "too_many_requests");
    CHECK(server.on_loop([&] { return server.contents.size(); }) == 2);
    // Within the limit again: the earlier refusals do not count.
    server.on_loop([&] { server.frames_left = 1; });
    client.send_text(message);
    client.send({0x89, "ping"});  // counts, and gets no answer
    for (std::size_t i = 0; i < base::k_max_frames_over_limit; ++i)
        client.send_text(message);
    CHECK(rejection(client)["code"] == "too_many_requests");
    const auto end = client.await_close();
    CHECK(end.close_code() == 1008);
    CHECK(Json::parse(end.close_reason())["code"] == "too_many_requests");
    CHECK(server.on_loop([&] { return server.contents.size(); }) == 3);
}

TEST_CASE("While a message waits for its reply events go on and later frames wait") {
    SocketServer server;
    auto client = server.open();
    server.on_loop([&] { server.hold_replies = true; });
    client.send_text(R"({"type":"message","content":"slow"})");
    client.send_text(R"({"type":"interrupt"})");
    REQUIRE(server.eventually([&] { return server.contents.size() == 1; }));
    server.publish();
    CHECK(seq_of(client.next_text()) == 1);
    CHECK(server.on_loop([&] { return server.interrupts; }) == 0);
    server.on_loop([&] { server.held(base::Error(base::Errc::capacity)); });
    CHECK(rejection(client)["code"] == "capacity");
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
}

TEST_CASE("An interrupt whose reply comes later is answered with its turn, and later frames wait for it") {
    SocketServer server;
    auto client = server.open();
    server.on_loop([&] { server.hold_replies = true; });
    client.send_text(R"({"type":"interrupt","id":1})");
    client.send_text(R"({"type":"message","content":"next"})");
    REQUIRE(server.eventually([&] { return server.interrupts == 1; }));
    server.publish();
    CHECK(seq_of(client.next_text()) == 1);
    CHECK(server.on_loop([&] { return server.contents.size(); }) == 0);
    server.on_loop([&] { server.held(server.ticket); });
    const Json told = Json::parse(client.next_text());
    CHECK(told["type"] == "accepted");
    CHECK(told["id"] == 1);
    CHECK(told["turn"] == "t7");
    CHECK(server.eventually([&] { return server.contents.size() == 1; }));
    server.on_loop([&] { server.held(base::Error(base::Errc::capacity)); });
    CHECK(rejection(client)["code"] == "capacity");
}

TEST_CASE("A reply that comes after the client has gone is dropped") {
    SocketServer server;
    {
        auto client = server.open();
        server.on_loop([&] { server.hold_replies = true; });
        client.send_text(R"({"type":"message","content":"slow"})");
        REQUIRE(server.eventually([&] { return server.contents.size() == 1; }));
    }
    REQUIRE(server.eventually([&] { return server.connections_now() == 0; }));
    server.on_loop([&] {
        server.held(base::Error(base::Errc::capacity));
        server.held = nullptr;
    });
}

TEST_CASE("Pings are answered, also between fragments") {
    SocketServer server;
    auto client = server.open();
    client.send({.first = 0x01, .payload = R"({"type":)"});
    client.send({.first = 0x89, .payload = "are you there"});
    const auto pong = client.next();
    CHECK(pong.opcode == 0xa);
    CHECK(pong.payload == "are you there");
    client.send({.first = 0x8a, .payload = "unasked"});
    client.send({.first = 0x80, .payload = R"("interrupt"})"});
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
}

TEST_CASE("A client that answers pings stays, one that does not is cut off") {
    FakeSocketServer server;
    auto client = server.open();
    for (int i = 0; i < 5; ++i) {
        server.advance(base::k_heartbeat_interval);
        const auto ping = client.next();
        REQUIRE(ping);
        REQUIRE(ping->opcode == 0x9);
        CHECK_FALSE(client.next());
        client.send({.first = 0x8a, .payload = ping->payload});
    }
    server.publish();
    CHECK(seq_of(client.next()->payload) == 1);
    // No answer from here on.
    server.advance(base::k_heartbeat_interval);
    CHECK(client.next_opcode() == 0x9);
    CHECK_FALSE(client.peer().is_closed());
    server.advance(base::k_heartbeat_interval);
    CHECK(client.peer().is_closed());
    CHECK(server.connections() == 0);
}

TEST_CASE("What a client may not send ends the WebSocket with a code that says why") {
    SocketServer server;
    const auto closed_for = [&](const std::string& bytes) {
        auto client = server.open();
        client.send_raw(bytes);
        const auto frame = client.await_close();
        const Json reason = Json::parse(frame.close_reason());
        CHECK(reason["after"] == 0);
        return std::to_string(frame.close_code()) + ' ' + reason["code"].get<std::string>();
    };
    CHECK(closed_for(frame_bytes({.payload = "x", .masked = false})) == "1002 protocol_error");
    CHECK(closed_for(frame_bytes({.first = 0x82, .payload = "x"})) == "1003 unsupported_data");
    CHECK(closed_for(frame_bytes({.payload = "\xff"})) == "1007 invalid_payload");
    CHECK(closed_for(frame_bytes({.payload = std::string(100'001, 'x')})) == "1009 message_too_big");
    // The positive control: the same path, nothing wrong.
    auto client = server.open();
    client.send_text(std::string(100'000, ' '));
    CHECK(rejection(client)["code"] == "invalid_json");
}

TEST_CASE("The server ends its side only once the client has answered its close frame, or did not in time") {
    FakeSocketServer server;
    auto client = server.open();
    const std::string message = frame_bytes({.payload = std::string(100'001, 'x')});
    client.send_raw(message.substr(0, 50'000));
    CHECK(client.next()->close_code() == 1009);
    const auto linger = http::WireSettings().linger_deadline;
    server.advance(linger - 1ms);
    // The client finishes its message, as a client behind a proxy must be able to.
    CHECK_FALSE(client.peer().input_ended());
    client.send_raw(message.substr(50'000) + frame_bytes({.payload = "{}"}));
    CHECK_FALSE(client.peer().input_ended());
    client.send_raw(close_frame_bytes(1009));
    CHECK(client.peer().input_ended());
    client.peer().end_sending();
    server.run();
    CHECK(client.peer().is_closed());
    auto silent = server.open();
    silent.send({.first = 0x82, .payload = "x"});
    CHECK(silent.next()->close_code() == 1003);
    server.advance(linger - 1ms);
    CHECK_FALSE(silent.peer().is_closed());
    server.advance(1ms);
    CHECK(silent.peer().is_closed());
}

TEST_CASE("A client's close is answered with its code, and the server then ends the connection") {
    SocketServer server;
    for (const std::string& bytes : {close_frame_bytes(1000, "bye"), close_frame_bytes(4321)}) {
        auto client = server.open();
        client.send_raw(bytes);
        const auto frame = client.await_close();
        CHECK(frame.payload.size() == 2);
        CHECK((frame.close_code() == 1000 || frame.close_code() == 4321));
    }
    auto client = server.open();
    client.send({.first = 0x88, .payload = ""});
    CHECK(client.await_close().payload.empty());
    // Frames after a close are not looked at.
    auto other = server.open();
    other.send_raw(close_frame_bytes(1000) + frame_bytes({.payload = R"({"type":"interrupt"})"}));
    other.await_close();
    CHECK(server.on_loop([&] { return server.interrupts; }) == 0);
}

TEST_CASE("The end of a conversation, of its log and of the server say what to do next") {
    const auto check = [](WebSocketClient& client, int code, const std::string& word) {
        const auto frame = client.await_close();
        const Json reason = Json::parse(frame.close_reason());
        CHECK(frame.close_code() == code);
        CHECK(reason["code"] == word);
        CHECK(reason["after"] == 2);
    };
    SocketServer server;
    server.publish(2);
    auto gone = server.open("/ws?after=1");
    CHECK(seq_of(gone.next_text()) == 2);
    server.change([&] { server.script.gone = true; });
    check(gone, 4404, "conversation_ended");
    server.on_loop([&] {
        server.script.gone = false;
        server.script.failure = base::Error(base::Errc::seq_expired, "it begins at 9");
    });
    auto expired = server.open("/ws?after=2");
    check(expired, 4410, "seq_expired");
    server.on_loop([&] { server.script.failure = base::Error(base::Errc::storage_failed); });
    auto broken = server.open("/ws?after=2");
    check(broken, 1011, "storage_failed");
    server.on_loop([&] { server.script.failure.reset(); });
    auto last = server.open("/ws?after=2");
    REQUIRE(server.eventually([&] { return server.connections_now() == 1; }));
    server.begin_stop(60s);
    check(last, 1001, "shutting_down");
}

TEST_CASE("A client that does not read is cut off and costs others nothing") {
    TestSettings settings;
    settings.heartbeat_interval = 1h;
    FakeSocketServer server(settings);
    auto deaf = server.open();
    deaf.peer().take_only(100'000);
    auto good = server.open();
    server.publish(200, 10'000);
    for (std::uint64_t seq = 1; seq <= 200; ++seq)
        REQUIRE(seq_of(good.next()->payload) == seq);
    server.advance(base::k_write_deadline - 1ms);
    CHECK(server.connections() == 2);
    server.advance(1ms);
    CHECK(deaf.peer().was_reset());
    server.publish();
    CHECK(seq_of(good.next()->payload) == 201);
}

TEST_CASE("A client that only half-closes is gone, too, after what it had sent") {
    SocketServer server;
    auto client = server.open();
    for (int i = 0; i < 300; ++i)
        client.send({.first = 0x89, .payload = "ping"});
    client.send_text(R"({"type":"interrupt"})");
    client.http().shutdown_send();
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
    CHECK(server.eventually([&] { return server.connections_now() == 0; }));
}

TEST_CASE("A message that is never finished ends the WebSocket, one that goes on in time does not") {
    TestSettings settings;
    settings.heartbeat_interval = 1h;
    FakeSocketServer server(settings);
    auto client = server.open();
    client.send({.first = 0x01, .payload = R"({"type":)"});
    server.publish();
    CHECK(seq_of(client.next()->payload) == 1);
    server.advance(base::k_body_deadline - 1ms);
    client.send({.first = 0x80, .payload = R"("interrupt"})"});
    CHECK(server.interrupts == 1);
    client.send({.first = 0x01, .payload = "{"});
    server.advance(base::k_body_deadline - 1ms);
    CHECK_FALSE(client.next());
    server.advance(1ms);
    const auto frame = client.next();
    REQUIRE(frame);
    CHECK(frame->close_code() == 1008);
    CHECK(Json::parse(frame->close_reason())["code"] == "request_timeout");
}

TEST_CASE(
    "A client that always has a part of its next message under way stays, if each is complete in time") {
    TestSettings settings;
    settings.heartbeat_interval = 1h;
    FakeSocketServer server(settings);
    auto client = server.open();
    const std::string begin = frame_bytes({.first = 0x01, .payload = R"({"type":)"});
    const std::string end = frame_bytes({.first = 0x80, .payload = R"("interrupt"})"});
    client.send_raw(begin);
    for (std::size_t messages = 1; messages < 10; ++messages) {
        server.advance(base::k_body_deadline / 3);
        client.send_raw(end + begin);
        CHECK(server.interrupts == messages);
    }
    server.advance(base::k_body_deadline - 1ms);
    CHECK_FALSE(client.next());
    server.advance(1ms);
    const auto frame = client.next();
    REQUIRE(frame);
    CHECK(frame->close_code() == 1008);
}

TEST_CASE("An offer of permessage-deflate is declined, and a compressed frame ends the WebSocket") {
    SocketServer server;
    server.publish(1, 10'000);
    WebSocketClient client(server.client(), "/ws", Offer::deflate);
    CHECK(client.extensions().empty());
    CHECK(seq_of(client.next_text()) == 1);
    client.send_text(R"({"type":"interrupt"})");
    REQUIRE(server.eventually([&] { return server.interrupts == 1; }));
    // RFC 7692 section 7.2.3.1: "Hello".
    client.send({.first = 0xc1, .payload = std::string("\xf2\x48\xcd\xc9\xc9\x07\x00", 7)});
    const auto frame = client.await_close();
    CHECK(frame.close_code() == 1002);
    CHECK(Json::parse(frame.close_reason())["code"] == "protocol_error");
}

TEST_CASE("Frames that come with the handshake are not lost") {
    SocketServer server;
    auto client = server.client();
    client.send_raw(handshake("", "") + frame_bytes({.payload = R"({"type":"interrupt"})"}));
    CHECK(client.read_response().status == 101);
    CHECK(server.eventually([&] { return server.interrupts == 1; }));
}

TEST_CASE("An opening handshake that is not one is refused with what to send") {
    SocketServer server;
    const auto status_of = [&](const std::string& bytes) {
        auto client = server.client();
        client.send_raw(bytes);
        const auto response = client.read_response();
        CHECK(Json::parse(response.body)["status"] == response.status);
        return response.status;
    };
    CHECK(status_of(handshake("Upgrade", "")) == 426);
    CHECK(status_of(handshake("Upgrade", "h2c")) == 426);
    CHECK(status_of(handshake("Sec-WebSocket-Version", "")) == 426);
    CHECK(status_of(handshake("Sec-WebSocket-Version", "8")) == 426);
    CHECK(status_of(handshake("Connection", "keep-alive")) == 400);
    CHECK(status_of(handshake("Sec-WebSocket-Key", "")) == 400);
    CHECK(status_of(handshake("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ")) == 400);
    CHECK(status_of(handshake("Sec-WebSocket-Key", "dGhlIHNhbXBsZS*ub25jZQ==")) == 400);
    std::string old = handshake("", "");
    CHECK(status_of(old.replace(old.find("1.1"), 3, "1.0")) == 400);
    auto client = server.client();
    const auto plain = client.request("GET", "/ws");
    CHECK(plain.status == 426);
    CHECK(plain.header("sec-websocket-version") == "13");
    CHECK(plain.header("upgrade") == "websocket");
    CHECK(client.request("HEAD", "/ws", "", k_websocket_headers).status == 426);
}

}  // namespace websocket_session_test
