#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <arpa/inet.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "http/server/listener.hpp"
#include "http/wire/json_reader.hpp"
#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/test_server.hpp"

namespace session_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

std::string problem_code(const HttpResponse& response) {
    CHECK(response.header("content-type") == "application/problem+json");
    const auto body = http::parse_json(response.body);
    REQUIRE(body.has_value());
    CHECK((*body)["requestId"] == response.header("x-request-id"));
    CHECK((*body)["status"] == response.status);
    return (*body)["code"].get<std::string>();
}

const std::string k_get_hello = "GET /hello HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

const std::string k_get_stream = "GET /stream HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

std::string post_head(const std::string& fields) {
    return "POST /echo HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n" + fields + "\r\n";
}

}  // namespace

TEST_CASE("a request is answered on a connection that is kept") {
    TestServer server;
    auto client = server.client();
    for (int i = 0; i < 3; ++i) {
        const auto response = client.request("GET", "/hello");
        CHECK(response.status == 200);
        CHECK(response.body == R"("hello")");
        CHECK(response.header("content-type") == "application/json");
        CHECK(response.header("cache-control") == "no-store");
        CHECK(response.header("x-content-type-options") == "nosniff");
        CHECK(response.header("referrer-policy") == "no-referrer");
        CHECK_FALSE(response.header("date").empty());
    }
    CHECK(server.connections() == 1);
}

TEST_CASE("a request's id is echoed when it is sound, made when it is not") {
    TestServer server;
    auto client = server.client();
    CHECK(client.request("GET", "/hello", "", {{"X-Request-Id", "abc-1"}}).header("x-request-id") == "abc-1");
    const auto made =
        client.request("GET", "/hello", "", {{"X-Request-Id", "with space"}}).header("x-request-id");
    CHECK_FALSE(made.empty());
    CHECK(made != "with space");
    const std::string long_id(129, 'a');
    CHECK(client.request("GET", "/hello", "", {{"X-Request-Id", long_id}}).header("x-request-id") != long_id);
    CHECK(client.request("GET", "/hello").header("x-request-id") != made);
}

TEST_CASE("without the key only open routes answer") {
    TestServer server;
    HttpClient client(server.address);
    CHECK(client.request("GET", "/open").status == 200);
    for (const char* path : {"/hello", "/nowhere"}) {
        const auto refused = client.request("GET", path);
        CHECK(refused.status == 401);
        CHECK(problem_code(refused) == "unauthorized");
        CHECK(refused.header("www-authenticate").starts_with("Bearer"));
    }
    CHECK(client.request("GET", "/hello", "", {{"Authorization", "Bearer test-key"}}).status == 200);
    CHECK(client.request("GET", "/hello", "", {{"X-API-Key", "wrong-ke"}}).status == 401);
}

TEST_CASE("unknown paths, methods and query parameters are told apart") {
    TestServer server;
    auto client = server.client();
    CHECK(problem_code(client.request("GET", "/nowhere")) == "not_found");
    const auto method = client.request("POST", "/things/1");
    CHECK(problem_code(method) == "method_not_allowed");
    CHECK(method.header("allow") == "GET, HEAD, DELETE");
    CHECK(problem_code(client.request("GET", "/hello?surprise=1")) == "unknown_field");
    CHECK(problem_code(client.request("GET", "/big?bytes=1&bytes=2")) == "invalid_request");
    CHECK(problem_code(client.request("GET", "/big?bytes=%ff")) == "invalid_request");
    // Nobody reads them there, so nobody compares thousands of them.
    CHECK(client.request("GET", "/open?a=1&b=2&a=1").status == 200);
    CHECK(problem_code(client.request("GET", "/open?a=%ff")) == "invalid_request");
    CHECK(client.request("GET", "/things/a%20b").body == R"("a b")");
    CHECK(problem_code(client.request("GET", "/things/%ff")) == "invalid_request");
    CHECK(server.connections() == 1);
}

TEST_CASE("requests for other hosts and from other sites are refused") {
    TestServer server;
    auto client = server.client();
    const auto rebound = client.request("GET", "/hello", "", {{"Host", "evil.example"}});
    CHECK(rebound.status == 421);
    CHECK(problem_code(rebound) == "host_not_allowed");
    const auto cross = client.request("GET", "/hello", "", {{"Origin", "http://evil.example"}});
    CHECK(cross.status == 403);
    CHECK(problem_code(cross) == "origin_not_allowed");
    CHECK(client.request("GET", "/hello", "", {{"Origin", "http://" + server.address}}).status == 200);
}

TEST_CASE("HEAD has the head of GET and no body") {
    TestServer server;
    auto client = server.client();
    const auto head = client.request("HEAD", "/hello");
    CHECK(head.status == 200);
    CHECK(head.header("content-length") == "7");
    CHECK(head.body.empty());
    CHECK(client.request("GET", "/hello").body == R"("hello")");
    CHECK(client.request("HEAD", "/stream").status == 200);
    CHECK(client.request("GET", "/hello").body == R"("hello")");
}

TEST_CASE("a handler that throws is a problem that tells no secret") {
    TestServer server;
    auto client = server.client();
    const auto response = client.request("GET", "/throw");
    CHECK(response.status == 500);
    CHECK(problem_code(response) == "internal");
    CHECK(response.body.find("secret") == std::string::npos);
    CHECK(client.request("GET", "/hello").status == 200);
}

TEST_CASE("pipelined requests are answered in order") {
    TestServer server;
    auto client = server.client();
    std::string many;
    for (int i = 0; i < 50; ++i)
        many += "GET /things/" + std::to_string(i) +
                " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";
    client.send_raw(many);
    for (int i = 0; i < 50; ++i)
        CHECK(client.read_response().body == '"' + std::to_string(i) + '"');
}

TEST_CASE("a request that comes byte by byte is answered") {
    TestServer server;
    auto client = server.client();
    for (const char c : post_head("Content-Length: 5\r\n") + "hello")
        client.send_raw(std::string_view(&c, 1));
    CHECK(client.read_response().body == R"("hello")");
}

TEST_CASE("bodies come with a length or in chunks, and large") {
    TestServer server;
    auto client = server.client();
    const std::string large(300'000, 'x');
    CHECK(client.request("POST", "/echo", large).body == '"' + large + '"');
    client.send_raw(post_head("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" +
                    k_get_hello);
    CHECK(client.read_response().body == R"("abcde")");
    CHECK(client.read_response().body == R"("hello")");
    const auto big = client.request("GET", "/big?bytes=5000000");
    CHECK(big.body.size() == 5'000'000);
}

TEST_CASE("a body over the cap is refused before it is read, and the answer arrives") {
    TestSettings settings = TestSettings().lingering();
    settings.max_body_bytes = 1000;
    TestServer server(settings);
    auto client = server.client();
    client.send_raw(post_head("Content-Length: 1001\r\n"));
    const auto announced = client.read_response();
    CHECK(announced.status == 413);
    CHECK(announced.header("connection") == "close");

    client.send_raw(post_head("Transfer-Encoding: chunked\r\n") + "7d0\r\n" + std::string(2000, 'x'));
    CHECK(problem_code(client.read_response()) == "body_too_large");

    // Far more than the socket buffers hold: only a server that reads on lets the client get to its answer.
    client.send_raw(post_head("Content-Length: 8000000\r\n") + std::string(8'000'000, 'x'));
    CHECK(client.read_response().status == 413);
}

TEST_CASE("an oversized head is refused") {
    TestServer server;
    auto client = server.client();
    client.send_raw("GET /hello HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(20'000, 'a') + "\r\n\r\n");
    const auto response = client.read_response();
    CHECK(response.status == 431);
    CHECK(problem_code(response) == "header_too_large");
    CHECK(response.header("connection") == "close");
}

TEST_CASE("smuggling is refused and the connection closed") {
    const char* fields =
        GENERATE("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                 "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                 "Content-Length: 5\r\nContent-Length: 6\r\n", "Transfer-Encoding: gzip, chunked\r\n");
    TestServer server;
    auto client = server.client();
    client.send_raw(post_head(fields) + "0\r\n\r\n" + k_get_hello);
    const auto all = client.read_until_close();
    CHECK(all.starts_with("HTTP/1.1 400 "));
    CHECK(all.find("\r\nHTTP/1.1 ") == std::string::npos);
}

TEST_CASE("Expect: 100-continue is answered before the body comes") {
    TestServer server;
    auto client = server.client();
    client.send_raw(post_head("Content-Length: 2\r\nExpect: 100-continue\r\n"));
    CHECK(client.read_response().status == 100);
    client.send_raw("ok");
    CHECK(client.read_response().body == R"("ok")");
    client.send_raw(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK(client.read_response().status == 401);
}

TEST_CASE("HTTP/1.0 and Connection: close end the connection") {
    TestServer server;
    auto client = server.client();
    client.send_raw("GET /hello HTTP/1.0\r\nX-API-Key: test-key\r\n\r\n");
    CHECK(client.read_until_close().ends_with("\r\n\r\n\"hello\""));
    client.send_raw("GET /hello HTTP/1.0\r\nX-API-Key: test-key\r\nConnection: keep-alive\r\n\r\n");
    CHECK(client.read_response().header("connection") == "keep-alive");
    CHECK(client.connected());
    CHECK(client.request("GET", "/hello", "", {{"Connection", "close"}}).header("connection") == "close");
}

TEST_CASE("a head that is not there in time is refused, and the connection ends") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    server.advance(20s);
    peer->send("GET /hello HT");
    server.advance(base::k_header_deadline - 1ms);
    peer->send("T");
    CHECK(server.take(*peer).empty());
    server.advance(1ms);
    CHECK(problem_in(server.take(*peer)) == "408 request_timeout");
    CHECK(peer->input_ended());
    CHECK_FALSE(peer->is_closed());
    server.advance(http::WireSettings().linger_deadline);
    CHECK(peer->is_closed());
    CHECK_FALSE(peer->was_reset());
}

TEST_CASE("a body that is not there in time is refused") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->send(post_head("Content-Length: 10\r\n") + "half");
    server.advance(base::k_body_deadline - 1ms);
    peer->send("x");
    CHECK(server.take(*peer).empty());
    server.advance(1ms);
    CHECK(problem_in(server.take(*peer)) == "408 request_timeout");
}

TEST_CASE("a connection without a request ends at the idle deadline, counted from the last answer") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto silent = server.connect();
    const auto kept = server.connect();
    server.advance(base::k_idle_deadline - 1ms);
    CHECK(server.connections() == 2);
    kept->send(k_get_hello);
    CHECK(server.take(*kept).ends_with("\"hello\""));
    server.advance(1ms);
    CHECK(silent->is_closed());
    server.advance(base::k_idle_deadline - 2ms);
    CHECK_FALSE(kept->is_closed());
    server.advance(1ms);
    CHECK(kept->is_closed());
    CHECK(server.take(*silent).empty());
    CHECK(server.connections() == 0);
}

TEST_CASE("a slow handler is not cut off, and its late client neither") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->send("GET /slow HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n");
    server.advance(1h);
    REQUIRE(routes.reply != nullptr);
    CHECK(server.take(*peer).empty());
    std::exchange(routes.reply, nullptr)(std::string("\"late\""));
    CHECK(server.take(*peer).ends_with("\r\n\r\n\"late\""));
    CHECK_FALSE(peer->is_closed());
}

TEST_CASE("a client that leaves early costs nothing and hurts nobody") {
    TestServer server;
    for (const std::string& bytes :
         {std::string(), std::string("GET /he"), post_head("Content-Length: 100\r\n") + "x",
          std::string("GET /big?bytes=50000000 HTTP/1.1\r\nHost: localhost\r\n"
                      "X-API-Key: test-key\r\n\r\n")}) {
        auto client = server.client();
        client.connect();
        client.send_raw(bytes);
        client.close();
    }
    CHECK(server.eventually([&] { return server.connections_now() == 0; }));
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("connections beyond the cap are told so") {
    TestSettings settings;
    settings.max_connections = 2;
    TestServer server(settings);
    auto one = server.client();
    auto two = server.client();
    CHECK(one.request("GET", "/hello").status == 200);
    CHECK(two.request("GET", "/hello").status == 200);
    auto three = server.client();
    three.connect();
    const auto refused = three.read_response();
    CHECK(refused.status == 503);
    CHECK(refused.header("retry-after") == "5");
    one.close();
    CHECK(server.eventually([&] { return server.connections_now() == 1; }));
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("a stream's events arrive as they come, then the connection goes on") {
    TestServer server;
    auto client = server.client();
    CHECK(client.open_stream("GET", "/stream").header("transfer-encoding") == "chunked");
    server.push("id: 1\nevent: a\ndata: x\n\n");
    CHECK(client.next_event()->id == "1");
    server.push("id: 2\nevent: a\ndata: y\n\n");
    CHECK(client.next_event()->data == "y");
    server.push("id: 3\nevent: done\ndata: z\n\n", TestServer::Piece::last);
    CHECK(client.next_event()->event == "done");
    CHECK_FALSE(client.next_event());
    CHECK(client.request("GET", "/hello").status == 200);
    CHECK(server.connections() == 1);
}

TEST_CASE("a request pipelined behind a stream is answered after it") {
    TestServer server;
    auto client = server.client();
    client.open_stream("GET", "/stream");
    client.send_raw(k_get_hello);
    server.push("data: x\n\n");
    CHECK(client.next_event()->data == "x");
    server.push("data: y\n\n", TestServer::Piece::last);
    CHECK(client.next_event()->data == "y");
    CHECK_FALSE(client.next_event());
    CHECK(client.read_response().body == R"("hello")");
}

TEST_CASE("a stream's head waits a moment for its first event, and an idle stream has heartbeats") {
    TestRoutes routes;
    const TestSettings settings;
    FakeServer server(settings, routes.routes());
    const auto peer = server.connect();
    peer->send(k_get_stream);
    server.advance(settings.stream_head_delay - 1ms);
    CHECK(server.take(*peer).empty());
    server.advance(1ms);
    CHECK(server.take(*peer).starts_with("HTTP/1.1 200 "));
    const base::Millis interval = base::k_heartbeat_interval;
    const std::string heartbeat = "d\r\n: heartbeat\n\n\r\n";
    // The first comes in the second half of the interval.
    server.advance(interval / 2 - 1ms);
    CHECK(server.take(*peer).empty());
    server.advance(interval / 2 + 2ms);
    CHECK(server.take(*peer) == heartbeat);
    server.advance(2 * interval);
    CHECK(server.take(*peer) == heartbeat + heartbeat);
    routes.feed_stream("data: x\n\n");
    CHECK(server.take(*peer) == "9\r\ndata: x\n\n\r\n");
}

TEST_CASE("a stream whose client leaves is torn down") {
    TestServer server;
    auto client = server.client();
    client.open_stream("GET", "/stream");
    client.close();
    CHECK(server.eventually([&] { return server.feed.destroyed && server.connections_now() == 0; }));
}

TEST_CASE("a client that never reads is cut off at the write deadline, with a reset") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->send(k_get_stream);
    server.advance(1s);
    peer->take_only(0);
    routes.feed_stream("data: x\n\n");
    server.advance(base::k_write_deadline - 1ms);
    CHECK_FALSE(peer->is_closed());
    server.advance(1ms);
    CHECK(peer->was_reset());
    CHECK(routes.feed.destroyed);
    CHECK(server.connections() == 0);
}

TEST_CASE("the reset of a client that never reads needs no reader") {
    TestSettings settings;
    settings.write_deadline = 100ms;
    TestServer server(settings);
    auto client = server.client();
    client.open_stream("GET", "/stream");
    for (int i = 0; i < 64; ++i)
        server.push("data: " + std::string(256 * 1024, 'x') + "\n\n");
    CHECK(server.eventually([&] { return server.feed.destroyed && server.connections_now() == 0; }));
    // The kernel drops the unread bytes.
    CHECK(server.eventually([&] {
        pollfd end{.fd = client.fd(), .events = 0, .revents = 0};
        return ::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
    }));
}

TEST_CASE("an HTTP/1.0 client gets a stream that ends with the connection") {
    TestServer server;
    auto client = server.client();
    server.push("data: x\n\n", TestServer::Piece::last);
    client.send_raw("GET /stream HTTP/1.0\r\nX-API-Key: test-key\r\n\r\n");
    const auto all = client.read_until_close();
    CHECK(all.ends_with("\r\n\r\ndata: x\n\n"));
    CHECK(all.find("chunked") == std::string::npos);
}

TEST_CASE("a stop closes idle connections and ends streams with their last word") {
    TestServer server;
    auto idle = server.client();
    CHECK(idle.request("GET", "/hello").status == 200);
    auto stream = server.client();
    stream.open_stream("GET", "/stream");
    server.stop(60s);
    CHECK(stream.next_event()->data == "shutting_down");
    CHECK_FALSE(stream.next_event());
    CHECK(idle.closes());
    CHECK_THROWS(server.client().request("GET", "/hello"));
}

TEST_CASE("a stop lets a running request finish") {
    TestServer server;
    auto client = server.client();
    client.send_raw("GET /slow HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n");
    REQUIRE(server.eventually([&] { return server.reply != nullptr; }));
    server.begin_stop(60s);
    CHECK_FALSE(server.is_stopped());
    server.on_loop([&] { std::exchange(server.reply, nullptr)(std::string("\"done\"")); });
    const auto response = client.read_response();
    CHECK(response.body == "\"done\"");
    CHECK(response.header("connection") == "close");
    server.stop(60s);
}

TEST_CASE("a stop cuts off what outlives the grace") {
    TestServer server;
    auto client = server.client();
    client.send_raw("GET /slow HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n");
    REQUIRE(server.eventually([&] { return server.reply != nullptr; }));
    server.stop(50ms);
    CHECK(client.closes());
}

TEST_CASE("a reply after the grace is dropped") {
    TestServer server;
    auto client = server.client();
    client.send_raw("GET /slow HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n");
    REQUIRE(server.eventually([&] { return server.reply != nullptr; }));
    server.stop(0ms);
    std::exchange(server.reply, nullptr)(std::string("too late"));
}

TEST_CASE("a Unix socket serves, replaces a dead one, and is removed") {
    const std::string path = "/tmp/atoll-http-test-" + std::to_string(::getpid()) + ".sock";
    const std::string spec = "unix:" + path;
    {
        TestServer server({}, spec);
        CHECK(server.client().request("GET", "/hello", "", {{"Host", "any.name"}}).status == 200);
        struct stat status {};
        REQUIRE(::stat(path.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777U) == 0600U);
        boost::asio::io_context io;
        const auto second = http::Listener::open(io.get_executor(), spec);
        REQUIRE(second.has_error());
        CHECK(second.error().code() == base::Errc::listen_failed);
    }
    CHECK(::access(path.c_str(), F_OK) != 0);
    leave_dead_socket(path);
    TestServer again({}, spec);
    CHECK(again.client().request("GET", "/hello").status == 200);
}

TEST_CASE("a Unix socket is given to a group, whose members may then connect") {
    const std::string path = "/tmp/atoll-http-test-" + std::to_string(::getpid()) + ".sock";
    const gid_t group = ::geteuid() == 0 ? 65'534 : ::getegid();
    TestSettings settings;
    settings.unix_socket_group = group;
    TestServer server(settings, "unix:" + path);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0660U);
    CHECK(status.st_gid == group);
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("an address that cannot be listened on is told with its remedy") {
    boost::asio::io_context io;
    const auto refusal = [&](const std::string& spec) {
        const auto listener = http::Listener::open(io.get_executor(), spec);
        REQUIRE(listener.has_error());
        return listener.error().detail();
    };
    TestServer server;
    CHECK(refusal(server.address).find("EADDRINUSE") != std::string::npos);
    CHECK(refusal(server.address).find("--listen") != std::string::npos);
    CHECK(refusal("nonsense").find("HOST:PORT") != std::string::npos);
    CHECK(refusal("127.0.0.1:99999").find("HOST:PORT") != std::string::npos);
    CHECK(refusal("::1:80").find("HOST:PORT") != std::string::npos);
    CHECK(refusal("192.0.2.1:0").find("EADDRNOTAVAIL") != std::string::npos);
    CHECK(refusal("192.0.2.1:0").find("No interface of this host has this address") != std::string::npos);
    CHECK(refusal("unix:" + std::string(200, 'a')).find("107") != std::string::npos);
    const auto folder = refusal("unix:/no/such folder/http.sock");
    CHECK(folder.find("ENOENT") != std::string::npos);
    CHECK(folder.find("The folder /no/such folder does not exist: create it") != std::string::npos);
    CHECK(folder.ends_with("\nFIX: mkdir -p /no/such folder"));
    CHECK(refusal("unix:no-such-folder/s").find("The folder no-such-folder does not exist") !=
          std::string::npos);
    CHECK(refusal("unix:/etc/passwd/s").find("/etc/passwd is no folder") != std::string::npos);
}

TEST_CASE("each address of a name that the host has is listened on, at one port") {
    boost::asio::io_context io;
    std::array<sockaddr_in, 4> addresses{};
    std::array<addrinfo, 4> list{};
    const auto open = [&](std::vector<const char*> texts, std::uint16_t port = 0) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            addresses[i].sin_family = AF_INET;
            addresses[i].sin_port = htons(port);
            REQUIRE(::inet_pton(AF_INET, texts[i], &addresses[i].sin_addr) == 1);
            list[i].ai_addr = reinterpret_cast<sockaddr*>(&addresses[i]);
            list[i].ai_addrlen = sizeof addresses[i];
            list[i].ai_next = i + 1 < texts.size() ? &list[i + 1] : nullptr;
        }
        return http::Listener::open_all(io.get_executor(), "name:0", list.data());
    };
    // TEST-NET-2 and TEST-NET-3 (RFC 5737): no host has these.
    const auto opened = open({"198.51.100.1", "127.0.0.1", "127.0.0.2", "127.0.0.1"});
    REQUIRE(opened.has_value());
    REQUIRE(opened->size() == 2);
    const std::uint16_t port = opened->front().port();
    CHECK(opened->front().address() == "127.0.0.1:" + std::to_string(port));
    CHECK(opened->back().address() == "127.0.0.2:" + std::to_string(port));
    CHECK(open({"198.51.100.1", "203.0.113.1"}).error().detail().find("EADDRNOTAVAIL") != std::string::npos);
    // An address that is in use is not skipped: clients that look there would not find the server.
    const std::string taken = open({"127.0.0.3", "127.0.0.2"}, port).error().detail();
    CHECK(taken.find("EADDRINUSE") != std::string::npos);
    CHECK(taken.find("127.0.0.2:" + std::to_string(port) + ", an address of name:0") != std::string::npos);
}

TEST_CASE("a server at a name answers at each of its addresses") {
    TestServer server({}, "localhost:0");
    const std::string port = server.address.substr(server.address.rfind(':'));
    for (const char* const host : {"127.0.0.1", "[::1]"}) {
        boost::asio::io_context io;
        addrinfo hints{};
        hints.ai_flags = AI_PASSIVE;
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        REQUIRE(::getaddrinfo("localhost", nullptr, &hints, &found) == 0);
        bool is_of_name = false;
        for (const addrinfo* at = found; at != nullptr; at = at->ai_next)
            is_of_name = is_of_name || (at->ai_family == AF_INET) == (host[0] != '[');
        ::freeaddrinfo(found);
        // A host without this family has nothing to listen on there.
        if (!is_of_name || http::Listener::open(io.get_executor(), std::string(host) + ":0").has_error())
            continue;
        INFO(host);
        HttpClient client(host + port, {{"X-API-Key", k_test_key}});
        CHECK(client.request("GET", "/hello").status == 200);
    }
}

}  // namespace session_test
