// Bodies of requests that a handler reads as they come, and those of responses that are read as they are
// sent.
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "http/wire/body_reader.hpp"
#include "http/wire/json_reader.hpp"
#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/streaming_server.hpp"
#include "tests/unit/http/test_tls.hpp"

namespace body_stream_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

std::string head(std::string_view path, std::string_view fields) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n" +
           std::string(fields) + "\r\n";
}

const std::string k_chunked = "Transfer-Encoding: chunked\r\n";
// A whole request, and the answer "ok" to it.
const std::string k_next = head("/echo", "Content-Length: 2\r\n") + "ok";
const std::string k_get_scripted = "GET /scripted HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

std::string code_in_body(const HttpResponse& response) {
    return http::parse_json(response.body).value()["code"].get<std::string>();
}

void read_to(HttpClient& client, std::string_view end) {
    std::string seen;
    while (!seen.ends_with(end))
        seen += client.read_raw(1);
}

// The body has more to come; its handler reads it already.
void begin_body(StreamingServer& server, HttpClient& client, std::string_view path) {
    client.send_raw(head(path, "Content-Length: 100\r\n") + "part");
    if (path == "/echo")
        REQUIRE(client.read_response(HttpClient::Body::none).status == 200);
    else
        REQUIRE(server.eventually([&] { return server.begun == 1; }));
}

bool has_input(const HttpClient& client) {
    pollfd entry{client.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

// How the connection ends, after whatever comes before that: 0 for an orderly end, else an errno.
int end_of(const HttpClient& client) {
    pollfd entry{client.fd(), POLLIN, 0};
    char byte = 0;
    for (;;) {
        if (::poll(&entry, 1, k_client_deadline_ms) != 1)
            return ETIMEDOUT;
        const auto count = ::recv(client.fd(), &byte, 1, 0);
        if (count <= 0)
            return count == 0 ? 0 : errno;
    }
}

}  // namespace

TEST_CASE("a streamed body is echoed while it is read, and the next request is answered") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/echo", "Content-Length: 5\r\n") + "hello" + k_next);
    const auto whole = client.read_response();
    CHECK(whole.status == 200);
    CHECK(whole.header("content-length") == "5");
    CHECK(whole.body == "hello");
    CHECK(client.read_response().body == "ok");

    client.send_raw(head("/echo", k_chunked) + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n" + k_next);
    const auto chunked = client.read_response();
    CHECK(chunked.header("transfer-encoding") == "chunked");
    CHECK(chunked.body == "abcde");
    CHECK(client.read_response().body == "ok");

    client.send_raw(head("/echo", "") + head("/echo", "Content-Length: 0\r\n") + k_next);
    CHECK(client.read_response().body.empty());
    CHECK(client.read_response().body.empty());
    CHECK(client.read_response().body == "ok");
    CHECK(server.connections() == 1);
}

TEST_CASE("a piece of a streamed body is handed on before more of it comes, however short it is") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/echo", k_chunked) + "1\r\na\r\n");
    read_to(client, "1\r\na\r\n");
    for (const char c : std::string("bcd")) {
        const std::string chunk = std::string("1\r\n") + c + "\r\n";
        client.send_raw(chunk);
        CHECK(client.read_raw(chunk.size()) == chunk);
    }
    client.send_raw("0\r\n\r\n");
    CHECK(client.read_raw(5) == "0\r\n\r\n");
}

TEST_CASE("a streamed body may be longer than any that is collected") {
    TestSettings settings;
    settings.max_body_bytes = 10;
    StreamingServer server(settings);
    auto client = server.client();
    const std::string large(3'000'000, 'x');
    CHECK(client.request("POST", "/count", large).body == "3000000");
    client.send_raw(head("/count", k_chunked) + "2dc6c0\r\n" + large + "\r\n0\r\n\r\n");
    CHECK(client.read_response().body == "3000000");
    CHECK(server.connections() == 1);
}

TEST_CASE("the handler's first read sends 100 Continue, and nothing else does") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/hold", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
    REQUIRE(server.eventually([&] { return static_cast<bool>(server.held); }));
    CHECK_FALSE(has_input(client));
    server.let_go();
    CHECK(client.read_response().status == 100);
    client.send_raw("body");
    CHECK(client.read_response().body == "4");

    client.send_raw(head("/echo", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
    CHECK(client.read_response().status == 100);
    client.send_raw("body");
    CHECK(client.read_response().body == "body");

    // The body is there already: the client waits for no word.
    client.send_raw(head("/count", "Content-Length: 4\r\nExpect: 100-continue\r\n") + "body");
    CHECK(client.read_response().status == 200);
}

TEST_CASE("an expectation that is not honoured ends the connection after the answer") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/ignore", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
    const auto response = client.read_response();
    CHECK(response.status == 200);
    CHECK(response.header("connection") == "close");
    CHECK(server.eventually([&] { return server.connections_now() == 0; }));
}

TEST_CASE("an answer before the end of a body arrives, and ends the connection unless the rest is there") {
    StreamingServer server(TestSettings().lingering());
    const char* path = GENERATE("/ignore", "/first");
    auto client = server.client();
    client.send_raw(head(path, "Content-Length: 100\r\n") + std::string(100, 'x') + k_next);
    CHECK(client.read_response().header("connection").empty());
    CHECK(client.read_response().body == "ok");
    client.send_raw(head(path, k_chunked) + "5\r\nhello\r\n0\r\n\r\n" + k_next);
    CHECK(client.read_response().header("connection").empty());
    CHECK(client.read_response().body == "ok");

    // Far more than the socket buffers hold: only a server that reads on lets the client get to its answer.
    client.send_raw(head(path, "Content-Length: 8000000\r\n") + std::string(8'000'000, 'x'));
    const auto early = client.read_response();
    CHECK(early.status == 200);
    CHECK(early.header("connection") == "close");
}

TEST_CASE("who is not admitted has no body read") {
    StreamingServer server;
    HttpClient client(server.address);
    client.send_raw(
        "POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        "Expect: 100-continue\r\n\r\n");
    CHECK(client.read_response().status == 401);
    CHECK(server.on_loop([&] { return server.begun; }) == 0);
}

TEST_CASE("a bad chunk in the middle of a streamed body is an error that stays") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/count", k_chunked) + "5\r\nhello\r\nzz\r\nworld");
    const auto refused = client.read_response();
    CHECK(refused.status == 400);
    CHECK(code_in_body(refused) == "invalid_request");
    CHECK(refused.header("connection") == "close");
    server.on_loop([&] {
        REQUIRE(server.failures.size() == 2);
        CHECK(server.failures[0].code() == base::Errc::invalid_request);
        CHECK(server.failures[1].detail() == server.failures[0].detail());
    });

    client.send_raw(head("/count", k_chunked) + "5;" + std::string(40'000, 'a'));
    CHECK(code_in_body(client.read_response()) == "header_too_large");

    // The response has begun: its end must not look like one.
    client.send_raw(head("/echo", k_chunked) + "5\r\nhello\r\n");
    read_to(client, "5\r\nhello\r\n");
    client.send_raw("zz\r\nworld");
    CHECK(client.read_until_close().find("0\r\n\r\n") == std::string::npos);
}

TEST_CASE("a client that goes away in the middle of a body is noticed") {
    StreamingServer server;
    const std::string path = GENERATE("/count", "/echo");
    auto client = server.client();
    begin_body(server, client, path);
    SECTION("by a close") {
        client.close();
        CHECK(server.eventually([&] { return server.connections_now() == 0; }));
    }
    SECTION("by the end of its sending side") {
        client.shutdown_send();
        if (path == "/count")
            CHECK(client.read_response().status == 400);
        else
            client.read_until_close();
        client.close();
        CHECK(server.eventually([&] { return server.connections_now() == 0; }));
    }
}

TEST_CASE("a client that ends its sending side with its body is answered") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/echo", "Content-Length: 4\r\n") + "body");
    client.shutdown_send();
    CHECK(client.read_response().body == "body");
}

TEST_CASE("a body that trickles in is cut off, one that keeps its pace is not") {
    StreamingRoutes routes;
    FakeServer server({}, routes.routes());
    const auto silent = server.connect();
    silent->send(head("/count", "Content-Length: 100\r\n") + "a");
    server.advance(base::k_body_deadline - 1ms);
    CHECK(server.take(*silent).empty());
    server.advance(1ms);
    CHECK(problem_in(server.take(*silent)) == "408 request_timeout");

    // Each byte comes in time; 64 KiB of them would not.
    const auto slow = server.connect();
    slow->send(head("/echo", "Content-Length: 1000000\r\n") + "x");
    int seconds = 0;
    for (; seconds < 100 && !slow->is_closed(); ++seconds) {
        server.advance(1s);
        slow->send("x");
    }
    CHECK(seconds == base::k_body_deadline.count());

    const std::string slice(base::k_body_slice_bytes, 'x');
    const auto steady = server.connect();
    steady->send(head("/echo", "Content-Length: 100000000000\r\n"));
    for (int i = 0; i < 5; ++i) {
        steady->send(slice);
        server.advance(base::k_body_deadline - 1ms);
        REQUIRE(server.take(*steady).ends_with(slice));
    }
    server.advance(1ms);
    CHECK(steady->is_closed());
}

TEST_CASE("the time in which the handler does not read is not the client's") {
    StreamingRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->send(head("/hold", "Content-Length: 8\r\n") + "half");
    server.advance(1h);
    peer->send("more");
    REQUIRE(routes.held != nullptr);
    routes.held(std::string());
    CHECK(server.take(*peer).ends_with("\r\n\r\n8"));
}

TEST_CASE("a wait for a silent client ends when nobody wants the rest of its body") {
    StreamingRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->send(head("/until", "Content-Length: 8\r\n") + "half");
    REQUIRE(server.take(*peer).empty());
    const bool is_over = GENERATE(true, false);
    routes.is_over = is_over;
    routes.wake();
    if (is_over) {
        CHECK(problem_in(server.take(*peer)) == "408 request_timeout");
        CHECK(routes.failures.size() == 2);
        return;
    }
    // A wake for nothing.
    CHECK(server.take(*peer).empty());
    peer->send("more");
    CHECK(server.take(*peer).ends_with("\r\n\r\n8"));
}

TEST_CASE("a client that sends all before it reads is cut off, and holds up nobody") {
    StreamingRoutes routes;
    FakeServer server({}, routes.routes());
    const auto greedy = server.connect();
    greedy->take_only(1'000'000);
    greedy->send(head("/echo", "Content-Length: 10000000\r\n") + std::string(10'000'000, 'x'));
    const auto other = server.connect();
    other->send(head("/echo", "Content-Length: 5\r\n") + "short");
    CHECK(server.take(*other).ends_with("short"));
    server.advance(base::k_write_deadline - 1ms);
    CHECK_FALSE(greedy->is_closed());
    server.advance(1ms);
    CHECK(greedy->was_reset());
    CHECK(greedy->take().size() == 1'000'000);
    CHECK(server.connections() == 1);
}

TEST_CASE("a server that stops cuts a body off after its grace") {
    StreamingServer server;
    auto client = server.client();
    const std::string path = GENERATE("/count", "/echo");
    begin_body(server, client, path);
    server.stop(10ms);
    CHECK(server.is_stopped());
    if (path == "/count") {
        REQUIRE(server.failures.size() == 2);
        CHECK(server.failures[1].code() == base::Errc::shutting_down);
    }
}

TEST_CASE("a server that stops lets a body end within its grace") {
    StreamingServer server;
    auto client = server.client();
    client.send_raw(head("/echo", "Content-Length: 8\r\n") + "half");
    client.read_response(HttpClient::Body::none);
    server.begin_stop(60s);
    client.send_raw("more");
    CHECK(client.read_raw(8) == "halfmore");
    CHECK(client.closes());
}

TEST_CASE("a source of known length is sent with Content-Length") {
    StreamingServer server;
    server.script.text = std::string(100'000, 'a') + 'b';
    server.script.step = 1000;
    server.promised = server.script.text.size();
    auto client = server.client();
    for (int i = 0; i < 2; ++i) {
        const auto response = client.request("GET", "/scripted");
        CHECK(response.header("content-length") == "100001");
        CHECK(response.body == server.script.text);
    }
    server.script.reads = 0;
    const auto only_head = client.request("HEAD", "/scripted");
    CHECK(only_head.header("content-length") == "100001");
    CHECK(only_head.body.empty());
    CHECK(server.on_loop([&] { return server.script.reads; }) == 0);
    CHECK(server.connections() == 1);
}

TEST_CASE("a source that yields less or more than it promised cuts the connection") {
    StreamingServer server;
    server.script.text = std::string(50, 'a');
    server.promised = GENERATE(49U, 51U, 45U, 5U, 0U);
    auto client = server.client();
    client.send_raw(k_get_scripted);
    const auto seen = client.read_until_close();
    const auto body = seen.substr(std::min(seen.find("\r\n\r\n"), seen.size()));
    CHECK(static_cast<std::size_t>(std::count(body.begin(), body.end(), 'a')) <
          std::max<std::size_t>(1, *server.promised));
}

TEST_CASE("a source of unknown length is sent in chunks, or to the end of the connection") {
    StreamingServer server;
    server.script.text = std::string(100, 'a');
    auto client = server.client();
    const auto chunked = client.request("GET", "/scripted");
    CHECK(chunked.header("transfer-encoding") == "chunked");
    CHECK(chunked.body == server.script.text);
    client.send_raw("GET /scripted HTTP/1.0\r\nX-API-Key: test-key\r\nConnection: keep-alive\r\n\r\n");
    const auto old = client.read_until_close();
    CHECK(old.find("Connection: close") != std::string::npos);
    CHECK(old.ends_with("\r\n\r\n" + server.script.text));
    CHECK(client.request("HEAD", "/scripted").header("transfer-encoding") == "chunked");
}

TEST_CASE("a source that tells its end with the first piece is sent with Content-Length") {
    StreamingServer server;
    server.script.tells_end = true;
    auto client = server.client();
    for (const std::string& text : {std::string("short"), std::string()}) {
        server.script.text = text;
        const auto whole = client.request("GET", "/scripted");
        CHECK(whole.status == 200);
        CHECK(whole.header("content-length") == std::to_string(text.size()));
        CHECK(whole.body == text);
    }
    server.script.text = std::string(100, 'a');
    const auto chunked = client.request("GET", "/scripted");
    CHECK(chunked.header("transfer-encoding") == "chunked");
    CHECK(chunked.body == server.script.text);
}

TEST_CASE("a source that fails before its first byte is an error response, later it cuts the connection") {
    using End = SourceScript::End;
    StreamingServer server;
    server.script.end = GENERATE(End::fail, End::fail_by_exception);
    auto client = server.client();
    const auto refused = client.request("GET", "/scripted");
    const bool is_defect = server.script.end == End::fail_by_exception;
    CHECK(refused.status == (is_defect ? 500 : 409));
    CHECK(refused.body.find("secret") == std::string::npos);
    CHECK(server.connections() == 1);

    server.script.text = std::string(50, 'a');
    client.send_raw(k_get_scripted);
    CHECK(client.read_until_close().find("0\r\n\r\n") == std::string::npos);
    // Without a length and without chunks only a reset says that something is missing.
    client.send_raw("GET /scripted HTTP/1.0\r\nX-API-Key: test-key\r\n\r\n");
    CHECK(end_of(client) == ECONNRESET);
}

TEST_CASE("a route serves ranges of what it has") {
    StreamingServer server;
    server.script.text = "0123456789";
    auto client = server.client();
    const auto whole = client.request("GET", "/file");
    CHECK(whole.status == 200);
    CHECK(whole.header("accept-ranges") == "bytes");
    CHECK(whole.body == "0123456789");
    const auto part = client.request("GET", "/file", "", {{"Range", "bytes=2-4"}});
    CHECK(part.status == 206);
    CHECK(part.header("content-range") == "bytes 2-4/10");
    CHECK(part.header("content-length") == "3");
    CHECK(part.body == "234");
    CHECK(client.request("GET", "/file", "", {{"Range", "bytes=-3"}}).body == "789");
    const auto none = client.request("GET", "/file", "", {{"Range", "bytes=10-"}});
    CHECK(none.status == 416);
    CHECK(none.header("content-range") == "bytes */10");
    CHECK(none.header("content-type") == "application/problem+json");
    CHECK(none.header("content-length") == std::to_string(none.body.size()));
    CHECK(none.body.find("\"code\":\"range_not_satisfiable\"") != std::string::npos);
    const auto only_head = client.request("HEAD", "/file", "", {{"Range", "bytes=2-4"}});
    CHECK(only_head.status == 200);
    CHECK(only_head.header("content-length") == "10");
    CHECK(client.request("GET", "/file", "", {{"Range", "bytes=2-4"}, {"If-Range", "\"v0\""}}).status == 200);
    CHECK(server.connections() == 1);
}

}  // namespace body_stream_test
