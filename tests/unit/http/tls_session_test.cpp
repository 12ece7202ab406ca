// The server over TLS, as its clients see it. tls_stream_test.cpp tests one TLS stream.
#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"
#include "tests/unit/http/test_server.hpp"
#include "tests/unit/http/test_tls.hpp"

namespace tls_session_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

const std::string k_get_hello = "GET /hello HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

std::string post_head(const std::string& fields) {
    return "POST /echo HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n" + fields + "\r\n";
}

/// A server that speaks TLS for a.example.
struct TlsServer {
    explicit TlsServer(const TestSettings& settings = {}) : server(settings) {
        server.use_tls(tls_for("a.example"));
    }
    HttpClient client() { return server.tls_client(); }
    /// A client that was served. The deadline of its handshake may be too short for a busy machine.
    HttpClient served_client() {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        for (;;) {
            HttpClient made = client();
            try {
                if (made.request("GET", "/hello").status == 200)
                    return made;
            } catch (const std::runtime_error&) {
                if (std::chrono::steady_clock::now() > until)
                    throw;
            }
        }
    }
    bool all_gone() {
        return server.eventually([&] { return server.connections_now() == 0; });
    }

    TestServer server;
};

/// The records of a client's hello, as it would send them.
std::string client_hello() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const base::UniqueFd ours(ends[0]);
    const base::UniqueFd theirs(ends[1]);
    TlsClient client(ours.get());
    client.handshake();
    std::array<char, 4096> bytes{};
    return {bytes.data(), static_cast<std::size_t>(::recv(theirs.get(), bytes.data(), bytes.size(), 0))};
}

}  // namespace

TEST_CASE("over TLS requests are answered on a connection that is kept") {
    TlsServer tls;
    auto client = tls.client();
    for (int i = 0; i < 3; ++i)
        CHECK(client.request("GET", "/hello").body == R"("hello")");
    CHECK(tls.server.connections() == 1);
    REQUIRE(client.tls() != nullptr);
    CHECK(client.tls()->server_name() == "a.example");
}

TEST_CASE("over TLS bodies come and go in any size, however records cut them") {
    TlsServer tls;
    auto client = tls.client();
    const std::string large(300'000, 'x');
    CHECK(client.request("POST", "/echo", large).body == '"' + large + '"');
    CHECK(client.request("GET", "/big?bytes=8000000").body == std::string(8'000'000, 'x'));
    // A record for each byte, then many requests in one record, which is longer than the first buffer.
    for (const char c : post_head("Content-Length: 5\r\n") + "hello")
        client.send_raw(std::string_view(&c, 1));
    CHECK(client.read_response().body == R"("hello")");
    std::string many;
    for (int i = 0; i < 150; ++i)
        many += "GET /things/" + std::to_string(i) +
                " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";
    REQUIRE(many.size() < 16'384);
    REQUIRE(many.size() > 8'192);
    client.send_raw(many);
    for (int i = 0; i < 150; ++i)
        CHECK(client.read_response().body == '"' + std::to_string(i) + '"');
    CHECK(tls.server.connections() == 1);
}

TEST_CASE("plain HTTP on a port with TLS is told to speak HTTPS") {
    TlsServer tls;
    for (const std::string& bytes : {k_get_hello, post_head("Content-Length: 10\r\n") + "0123456789",
                                     std::string("DELETE /things/1 HTTP/1.1\r\n")}) {
        HttpClient plain(tls.server.address);
        plain.send_raw(bytes);
        const auto response = plain.read_response();
        CHECK(response.status == 400);
        CHECK(response.header("content-type") == "application/problem+json");
        CHECK(response.header("connection") == "close");
        const auto problem = http::parse_json(response.body);
        REQUIRE(problem.has_value());
        CHECK((*problem)["code"] == "invalid_request");
        CHECK((*problem)["detail"].get<std::string>().find("https://") != std::string::npos);
    }
    auto client = tls.client();
    client.send_raw(k_get_hello);
    CHECK(client.read_response().status == 200);
}

TEST_CASE("what is neither TLS nor HTTP is cut off, and hurts nobody") {
    TestSettings settings;
    settings.header_deadline = 500ms;  // some of it could still become TLS
    TlsServer tls(settings);
    auto good = tls.served_client();
    const std::string hello = client_hello();
    std::string broken = hello;
    broken[broken.size() / 2] = static_cast<char>(~broken[broken.size() / 2]);
    broken[9] = '\xff';  // a length in it
    for (const std::string& bytes :
         {std::string(1000, '\0'), std::string("\x16\x03\x01\xff\xff", 5) + std::string(1000, 'x'),
          std::string("\x16\x03\x01\x00\x02hi", 7), broken, hello + "garbage", std::string("\n\n")}) {
        HttpClient plain(tls.server.address);
        plain.send_raw(bytes);
        plain.read_until_close();
    }
    CHECK(tls.server.eventually([&] { return tls.server.connections_now() == 1; }));
    CHECK(good.request("GET", "/hello").status == 200);
}

TEST_CASE("a handshake that does not come to its end is cut off at the deadline of a head") {
    TestSettings settings;
    settings.header_deadline = 500ms;
    TlsServer tls(settings);
    const std::string hello = client_hello();
    for (const auto& bytes : {std::string(), hello.substr(0, 1), hello.substr(0, 50), hello}) {
        HttpClient slow(tls.server.address);
        slow.connect();
        slow.send_raw(bytes);
        slow.read_until_close();  // throws if it stays open
    }
    tls.served_client();
}

TEST_CASE("a stop does not wait for a handshake") {
    TlsServer tls;
    HttpClient slow(tls.server.address);
    slow.send_raw(client_hello().substr(0, 20));
    CHECK(tls.server.eventually([&] { return tls.server.connections_now() == 1; }));
    tls.server.begin_stop(1h);
    CHECK(slow.closes());
    tls.server.stop(1h);
}

TEST_CASE("an answer that is whole ends with close_notify, one that was cut off does not") {
    TestSettings settings;
    settings.write_deadline = 100ms;
    TlsServer tls(settings);
    auto client = tls.client();
    client.send_raw("GET /hello HTTP/1.0\r\nX-API-Key: test-key\r\n\r\n");
    CHECK(client.read_response().status == 200);
    client.send_raw(
        "GET /hello HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\nConnection: close\r\n\r\n");
    client.read_raw(1);
    std::string rest(1000, ' ');
    TlsClient& whole = *client.tls();
    for (auto moved = whole.read(rest.data(), rest.size());
         moved.bytes > 0 || moved.want != TlsClient::Want::nothing;
         moved = whole.read(rest.data(), rest.size())) {
    }
    CHECK(whole.saw_close_notify());

    auto lazy = tls.client();
    lazy.send_raw("GET /big?bytes=50000000 HTTP/1.0\r\nX-API-Key: test-key\r\n\r\n");
    CHECK(tls.server.eventually([&] { return tls.server.connections_now() == 0; }));
    std::vector<char> piece(65'536);
    TlsClient& cut = *lazy.tls();
    std::size_t got = 0;
    for (auto moved = cut.read(piece.data(), piece.size()); moved.bytes > 0;
         moved = cut.read(piece.data(), piece.size()))
        got += moved.bytes;
    CHECK(got > 0);
    CHECK(got < 50'000'000);
    CHECK_FALSE(cut.saw_close_notify());
}

TEST_CASE("over TLS a refusal arrives although the client goes on sending") {
    TestSettings settings = TestSettings().lingering();
    settings.max_body_bytes = 1000;
    TlsServer tls(settings);
    auto client = tls.client();
    client.send_raw(post_head("Content-Length: 8000000\r\n") + std::string(8'000'000, 'x'));
    CHECK(client.read_response().status == 413);
    CHECK(tls.all_gone());
}

TEST_CASE("over TLS a client that has said all still gets its answer") {
    TlsServer tls;
    auto client = tls.client();
    client.send_raw(k_get_hello);
    client.tls()->close_notify();
    CHECK(client.read_response().body == R"("hello")");
    client.close();
    CHECK(tls.all_gone());
}

TEST_CASE("over TLS a request that breaks off never runs") {
    TlsServer tls;
    for (const bool notify : {false, true}) {
        auto client = tls.client();
        client.send_raw(post_head("Content-Length: 10\r\n") + "01234");
        if (notify)
            client.tls()->close_notify();
        client.shutdown_send();
        CHECK(client.closes());
    }
    CHECK(tls.all_gone());
}

TEST_CASE("over TLS a stream's events arrive as they come, and a client that leaves is noticed") {
    TlsServer tls;
    for (const bool notify : {false, true}) {
        auto client = tls.client();
        CHECK(client.open_stream("GET", "/stream").header("transfer-encoding") == "chunked");
        for (const char* id : {"1", "2", "3"}) {
            tls.server.push(std::string("id: ") + id + "\ndata: x\n\n");
            CHECK(client.next_event()->id == id);
        }
        if (notify)
            client.tls()->close_notify();
        client.close();
        CHECK(tls.server.eventually([&] { return tls.server.feed.destroyed; }));
    }
    CHECK(tls.all_gone());
}

TEST_CASE("over TLS a stream waits for a reader that is slow") {
    TlsServer tls;
    const std::string piece(256 * 1024, 'x');
    auto client = tls.client();
    client.open_stream("GET", "/stream");
    // More than the buffers of the socket hold, before the first is read.
    for (int i = 0; i < 64; ++i)
        tls.server.push("data: " + piece + "\n\n");
    for (int i = 0; i < 64; ++i)
        REQUIRE(client.next_event()->data == piece);
}

TEST_CASE("over TLS a stream cuts off a reader that does not read") {
    TestSettings settings;
    settings.write_deadline = 100ms;
    TlsServer tls(settings);
    const std::string piece(256 * 1024, 'x');
    auto client = tls.client();
    client.open_stream("GET", "/stream");
    for (int i = 0; i < 64; ++i)
        tls.server.push("data: " + piece + "\n\n");
    CHECK(tls.server.eventually([&] { return tls.server.feed.destroyed; }));
    CHECK(tls.all_gone());
}

TEST_CASE("a new certificate is shown to new connections while the old ones go on") {
    TlsServer tls;
    auto before = tls.client();
    CHECK(before.request("GET", "/hello").status == 200);
    tls.server.use_tls(tls_for("b.example"));
    auto after = tls.client();
    CHECK(after.request("GET", "/hello").status == 200);
    CHECK(before.tls()->server_name() == "a.example");
    CHECK(after.tls()->server_name() == "b.example");
    CHECK(before.request("POST", "/echo", std::string(100'000, 'x')).status == 200);
    CHECK(tls.server.connections() == 2);
}

TEST_CASE("a client that comes again resumes its session, not past a new certificate") {
    TlsServer tls;
    auto first = tls.client();
    CHECK(first.request("GET", "/hello").status == 200);
    CHECK_FALSE(first.tls()->is_resumed());
    const std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session(
        SSL_get1_session(first.tls()->native()), &SSL_SESSION_free);
    REQUIRE(SSL_SESSION_is_resumable(session.get()) == 1);
    TlsClientOptions options;
    options.resume = session.get();
    auto second = tls.client();
    second.set_tls_options(options);
    CHECK(second.request("GET", "/hello").status == 200);
    CHECK(second.tls()->is_resumed());
    tls.server.use_tls(tls_for("a.example"));
    auto third = tls.client();
    third.set_tls_options(options);
    CHECK(third.request("GET", "/hello").status == 200);
    CHECK_FALSE(third.tls()->is_resumed());
}

TEST_CASE("over TLS a page that came without it is another site's") {
    TlsServer tls;
    auto client = tls.client();
    CHECK(client.request("GET", "/hello", "", {{"Origin", "https://" + tls.server.address}}).status == 200);
    const auto refused = client.request("GET", "/hello", "", {{"Origin", "http://" + tls.server.address}});
    CHECK(refused.status == 403);
    CHECK(refused.body.find("origin_not_allowed") != std::string::npos);
}

TEST_CASE("over TLS connections beyond the cap are closed without a word") {
    TestSettings settings;
    settings.max_connections = 1;
    TlsServer tls(settings);
    auto one = tls.client();
    CHECK(one.request("GET", "/hello").status == 200);
    HttpClient two(tls.server.address);
    two.connect();
    CHECK(two.closes());
    one.close();
    CHECK(tls.all_gone());
    CHECK(tls.client().request("GET", "/hello").status == 200);
}

TEST_CASE("a Unix socket stays plain beside TLS") {
    const TempDir dir;
    TestServer server({}, "unix:" + (dir.path() / "sock").string());
    server.use_tls(tls_for("a.example"));
    CHECK(server.client().request("GET", "/hello").status == 200);
}

}  // namespace tls_session_test
