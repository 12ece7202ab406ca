// WebSockets that are asked for with a bad token: a page reads why in a close frame, and nothing else is
// given.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/api_server.hpp"
#include "tests/unit/http/fake_websocket.hpp"

namespace token_socket_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

const std::string k_id(20, 'a');
const std::string k_other(20, 'b');

constexpr const char* k_foreign = "Origin: https://evil.example\r\n";

std::string target(const std::string& token, const std::string& more = "") {
    return "/things/" + k_id + "/ws?token=" + token + more;
}

struct Closed {
    std::string head;
    ServerFrame frame;
    Json reason;
};

/// The answer to a handshake: a 101 and one close frame.
Closed closed_in(std::string bytes) {
    Closed closed;
    REQUIRE(bytes.starts_with("HTTP/1.1 101 "));
    const auto end = bytes.find("\r\n\r\n") + 4;
    closed.head = bytes.substr(0, end);
    bytes.erase(0, end);
    const auto read = [&bytes](std::size_t size) {
        REQUIRE(bytes.size() >= size);
        const std::string some = bytes.substr(0, size);
        bytes.erase(0, size);
        return some;
    };
    closed.frame = read_frame(read);
    CHECK(bytes.empty());
    CHECK(closed.frame.opcode == 0x8);
    closed.reason = Json::parse(closed.frame.close_reason());
    return closed;
}

/// A server with a WebSocket that was asked for with `token`.
struct Attempt {
    explicit Attempt(const std::string& request, TestSettings settings = {}) : server(settings) {
        ask(request);
    }
    void ask(const std::string& request) {
        peer = server.connect();
        peer->send(request);
        server.run();
    }
    FakeSocketServer server;
    std::shared_ptr<FakePeer> peer;
};

}  // namespace

TEST_CASE("A bad token gets the WebSocket and a close frame that says why, in one write") {
    FakeSocketServer server;
    server.publish(3);
    const std::string good = server.token_for(k_id, 10s);
    const std::string of_other = server.token_for(k_other, 10s);
    const auto ask = [&](const std::string& token, const std::string& more = "") {
        const auto peer = server.connect();
        peer->send(token_handshake(target(token, more), "Sec-WebSocket-Extensions: permessage-deflate\r\n"));
        Closed closed = closed_in(server.take(*peer));
        CHECK(peer->writes() == 1);
        CHECK(closed.head.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") != std::string::npos);
        CHECK(closed.head.find("Sec-WebSocket-Extensions") == std::string::npos);
        CHECK(server.script.wakes.empty());  // there is no reader
        return closed;
    };
    for (const std::string& bad : {std::string("x"), std::string(), good + "0", std::string(5000, '.')}) {
        const auto closed = ask(bad);
        CHECK(closed.frame.close_code() == 4401);
        CHECK(closed.reason["code"] == "invalid_token");
        CHECK(closed.reason["after"] == 0);
    }
    CHECK(ask("x", "&after=17").reason["after"] == 17);
    CHECK(ask("x", "&after=9223372036854775807").reason["after"] == INT64_MAX);
    CHECK(ask("x", "&after=9223372036854775808").reason["after"] == 0);
    CHECK(ask("x", "&after=-1").reason["after"] == 0);
    const auto mismatched = ask(of_other, "&after=9223372036854775807");
    CHECK(mismatched.frame.close_code() == 4403);
    CHECK(mismatched.reason["code"] == "token_mismatch");
    CHECK_FALSE(mismatched.reason["detail"].get<std::string>().empty());
    server.advance(10s);
    const auto expired = ask(good);
    CHECK(expired.frame.close_code() == 4401);
    CHECK(expired.reason["code"] == "token_expired");
    CHECK(ask(of_other).frame.close_code() == 4403);
    // A bad token beside an unknown parameter or a second token is still a bad token.
    CHECK(ask("x", "&more=1").frame.close_code() == 4401);
    CHECK(ask("x", "&token=" + server.token_for(k_id, 10s)).frame.close_code() == 4401);
}

TEST_CASE("Without credentials, with a wrong key, or without a WebSocket's handshake there is a 401") {
    FakeSocketServer server;
    const auto ask = [&](const std::string& request) {
        const auto peer = server.connect();
        peer->send(request);
        return problem_in(server.take(*peer));
    };
    CHECK(ask(token_handshake("/things/" + k_id + "/ws")) == "401 unauthorized");
    CHECK(ask(token_handshake("/things/" + k_id + "/ws?after=3")) == "401 unauthorized");
    CHECK(ask(token_handshake(target("x"), "X-API-Key: wrong\r\n")) == "401 invalid_key");
    CHECK(ask(token_handshake(target(server.token_for(k_id, 10s)), "X-API-Key: wrong\r\n")) ==
          "401 invalid_key");
    const std::string plain = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK(ask("GET " + target("x") + plain) == "401 invalid_token");
    CHECK(ask("GET /things/" + k_id + "/events?token=x" + plain) == "401 invalid_token");
    CHECK(ask("GET /things/" + k_id + "/events?token=" + server.token_for(k_other, 10s) + plain) ==
          "403 token_mismatch");
    CHECK(ask(token_handshake("/things/" + k_id + "/events?token=x")) == "401 invalid_token");
    // The positive control.
    const auto peer = server.connect();
    peer->send(token_handshake(target(server.token_for(k_id, 10s))));
    CHECK(server.take(*peer).starts_with("HTTP/1.1 101 "));
    CHECK(server.script.wakes.size() == 1);
}

TEST_CASE("A good token for another scope is closed as one for something else, and opens its own route") {
    FakeSocketServer server;
    const auto ask = [&](const std::string& path, http::Scope scope) {
        const auto peer = server.connect();
        peer->send(
            token_handshake("/things/" + k_id + path + "?token=" + server.token_for(k_id, 10s, scope)));
        return server.take(*peer);
    };
    using http::Scope;
    for (const auto& [path, scope] : {std::pair{"/ws", Scope::files},
                                      {"/ws", Scope::terminal},
                                      {"/shell", Scope::files},
                                      {"/shell", Scope::read},
                                      {"/shell", Scope::chat}}) {
        const auto closed = closed_in(ask(path, scope));
        CHECK(closed.frame.close_code() == 4403);
        CHECK(closed.reason["code"] == "token_scope");
    }
    const auto peer = server.connect();
    peer->send("GET /things/" + k_id + "/events?token=" + server.token_for(k_id, 10s, Scope::files) +
               " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(problem_in(server.take(*peer)) == "403 token_scope");
    CHECK(server.script.wakes.empty());
    CHECK(ask("/shell", Scope::terminal).starts_with("HTTP/1.1 101 "));
    CHECK(ask("/ws", Scope::read).starts_with("HTTP/1.1 101 "));
    CHECK(server.script.wakes.size() == 2);
}

TEST_CASE("Host, Origin and the limit on failed logins come before the close frame") {
    TestSettings settings;
    settings.limits.failed_logins_per_minute = 3;
    FakeSocketServer server(settings);
    const auto ask = [&](std::string request) {
        const auto peer = server.connect();
        peer->send(request);
        return server.take(*peer);
    };
    std::string rebound = token_handshake(target("x"));
    rebound.replace(rebound.find("localhost"), 9, "evil.test");
    for (int i = 0; i < 5; ++i) {
        CHECK(problem_in(ask(rebound)) == "421 host_not_allowed");
        const auto foreign = closed_in(ask(token_handshake(target("x"), k_foreign)));
        CHECK(foreign.reason["code"] == "origin_not_allowed");
    }
    // Each bad token counts, an expired one as well.
    const std::string short_lived = server.token_for(k_id, 1s);
    server.advance(1s);
    CHECK(closed_in(ask(token_handshake(target("x")))).frame.close_code() == 4401);
    CHECK(closed_in(ask(token_handshake(target(short_lived)))).frame.close_code() == 4401);
    CHECK(closed_in(ask(token_handshake(target(server.token_for(k_other, 9s))))).frame.close_code() == 4403);
    for (const std::string& token : {std::string("x"), short_lived, server.token_for(k_other, 9s)})
        CHECK(problem_in(ask(token_handshake(target(token)))) == "429 too_many_requests");
    CHECK(problem_in(ask(token_handshake(target("x"), "X-API-Key: wrong\r\n"))) == "429 too_many_requests");
    // A good token works, whatever came before.
    CHECK(ask(token_handshake(target(server.token_for(k_id, 9s)))).starts_with("HTTP/1.1 101 "));
}

TEST_CASE("A page of an origin that is not allowed gets 4403, whatever it may open otherwise") {
    FakeSocketServer server;
    const auto ask = [&](const std::string& request) {
        const auto peer = server.connect();
        peer->send(request);
        return server.take(*peer);
    };
    const std::string good = server.token_for(k_id, 60s);
    const std::string shell = server.token_for(k_id, 60s, http::Scope::terminal);
    const std::string key = std::string("X-API-Key: ") + k_test_key + "\r\n";
    const std::string of_shell = "/things/" + k_id + "/shell?token=" + shell;
    for (const auto& [path, fields] : {std::pair{target(good), std::string()},
                                       {target("x"), std::string()},
                                       {of_shell, std::string()},
                                       {"/things/" + k_id + "/ws", std::string()},
                                       {"/things/" + k_id + "/ws", key}}) {
        const auto closed = closed_in(ask(token_handshake(path, fields + k_foreign)));
        CHECK(closed.frame.close_code() == 4403);
        CHECK(closed.reason["code"] == "origin_not_allowed");
        CHECK(closed.reason["after"] == 0);
        CHECK(closed.reason["detail"].get<std::string>().find("--allowed-origin") != std::string::npos);
    }
    const auto last = closed_in(ask(token_handshake(target("x", "&after=9223372036854775807"), k_foreign)));
    CHECK(last.reason["after"] == INT64_MAX);
    CHECK(last.reason.contains("detail"));
    // They reached no handler, and they keep no connection.
    CHECK(server.script.wakes.empty());
    CHECK(server.connections() == 6);
    server.advance(2s);
    CHECK(server.connections() == 0);
    // A request that is no handshake of a WebSocket gets the refusal as a response.
    std::string broken = token_handshake(target(good), k_foreign);
    broken.replace(broken.find("Sec-WebSocket-Version: 13"), 25, "Sec-WebSocket-Version: 12");
    CHECK(problem_in(ask(broken)) == "403 origin_not_allowed");
    const std::string events = "/things/" + k_id + "/events?token=" + good;
    CHECK(problem_in(ask(token_handshake(events, k_foreign))) == "403 origin_not_allowed");
    CHECK(problem_in(ask("GET " + events + " HTTP/1.1\r\nHost: localhost\r\n" + k_foreign + "\r\n")) ==
          "403 origin_not_allowed");
    // The positive control: a page of the server itself.
    CHECK(ask(token_handshake(target(good), "Origin: http://localhost\r\n")).starts_with("HTTP/1.1 101 "));
    CHECK(ask(token_handshake(of_shell, "Origin: http://localhost\r\n")).starts_with("HTTP/1.1 101 "));
    CHECK(server.script.wakes.size() == 2);
}

TEST_CASE("A client with a bad token is gone once it has answered, and after 2 s whatever it does") {
    const std::string request = token_handshake(target("x"));
    {
        Attempt answers(request);
        CHECK(answers.server.connections() == 1);
        answers.peer->send(close_frame_bytes(4401));
        answers.server.run();
        CHECK(answers.server.connections() == 0);
    }
    {
        Attempt leaves(request);
        leaves.peer->end_sending();
        leaves.server.run();
        CHECK(leaves.server.connections() == 0);
    }
    {
        Attempt is_silent(request);
        is_silent.server.advance(1999ms);
        CHECK(is_silent.server.connections() == 1);
        is_silent.server.advance(1ms);
        CHECK(is_silent.server.connections() == 0);
        CHECK(is_silent.peer->was_reset());
    }
    {
        Attempt goes_on(request);
        for (int i = 0; i < 20; ++i) {
            CHECK(goes_on.server.connections() == 1);
            goes_on.peer->send(frame_bytes({.payload = R"({"type":"interrupt"})"}));
            goes_on.peer->send(frame_bytes({.first = 0x89, .payload = std::string(100, 'p')}));
            goes_on.server.advance(100ms);
        }
        CHECK(goes_on.server.connections() == 0);
        CHECK(goes_on.server.interrupts == 0);
    }
    {
        FakeSocketServer server;
        const auto does_not_read = server.connect();
        does_not_read->take_only(0);
        does_not_read->send(request);
        server.advance(2s);
        CHECK(server.connections() == 0);
        CHECK(does_not_read->was_reset());
    }
}

TEST_CASE("A WebSocket of another conversation is closed alike, whether that one exists or not") {
    ApiServer server;
    const std::string mine = server.create();
    const std::string other = server.create();
    const auto token = k_tokens.issue(mine, http::Scope::chat, 60s).token;
    const auto ask = [&](const std::string& id, const std::string& with) {
        const std::string socket = "/v1/conversations/" + id + "/ws?after=3&token=" + with;
        return WebSocketClient(HttpClient(server.address), socket).next();
    };
    const auto existing = ask(other, token);
    CHECK(existing.close_code() == 4403);
    CHECK(ask(k_no_id, token).payload == existing.payload);
    CHECK(ask("no-id", token).payload == existing.payload);
    CHECK(ask("%FF", token).payload == existing.payload);
    CHECK(ask(other, "x").payload == ask(k_no_id, "x").payload);
    const auto expired = k_tokens.issue(mine, http::Scope::read, -1s).token;
    CHECK(ask(mine, expired).close_code() == 4401);
    server.on_loop([&] { CHECK(server.api().subscribers.now(http::SubscriberKind::websocket) == 0); });
    // The conversation of a good token was removed meanwhile.
    server.time_passes = true;
    CHECK(server.call("DELETE", "/v1/conversations/" + mine).status == 204);
    const auto removed = ask(mine, token);
    CHECK(removed.close_code() == 4404);
    CHECK(Json::parse(removed.close_reason())["code"] == "conversation_ended");
}

}  // namespace token_socket_test
