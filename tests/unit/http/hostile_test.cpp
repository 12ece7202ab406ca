// Hostile HTTP: requests whose end two readers may see in different places are refused,
// the connection ends with the refusal, and no request behind them is ever answered (RFC 9112 sections 2.2,
// 5, 6, 7, 11).

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/test_server.hpp"

namespace hostile_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

// A request that must never be answered if it is hidden behind an ambiguous one.
const std::string k_smuggled =
    "GET /things/smuggled HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

std::string head(const std::string& request_line, const std::string& fields = "") {
    return request_line + "\r\nHost: localhost\r\nX-API-Key: test-key\r\n" + fields + "\r\n";
}

std::string post(const std::string& fields) {
    return head("POST /echo HTTP/1.1", fields);
}

std::string chunked(const std::string& body) {
    return post("Transfer-Encoding: chunked\r\n") + body;
}

enum class Sending { whole, byte_by_byte };

// Everything that comes back until the server ends the connection; throws if it does not.
std::string answer(TestServer& server, const std::string& bytes, Sending sending = Sending::whole) {
    auto client = server.client();
    client.connect();
    if (sending == Sending::whole)
        client.send_raw(bytes);
    else
        for (const char c : bytes)
            client.send_raw(std::string_view(&c, 1));
    return client.read_until_close();
}

std::size_t answers_in(const std::string& text) {
    std::size_t count = 0;
    for (auto at = text.find("HTTP/1.1 "); at != std::string::npos; at = text.find("HTTP/1.1 ", at + 1))
        ++count;
    return count;
}

int status_of(const std::string& text) {
    return text.starts_with("HTTP/1.1 ") ? std::stoi(text.substr(9, 3)) : 0;
}

void check_one_refusal(const std::string& all, int status) {
    INFO(all);
    CHECK(status_of(all) == status);
    CHECK(answers_in(all) == 1);
    CHECK(all.find("smuggled") == std::string::npos);
    CHECK(all.find("\r\nConnection: close\r\n") != std::string::npos);
}

}  // namespace

TEST_CASE("the second request on a connection is answered where the first one's end is certain") {
    TestServer server;
    const std::string close = head("GET /hello HTTP/1.1", "Connection: close\r\n");
    for (const auto& first : {post("Content-Length: 5\r\n") + "abcde", chunked("5\r\nabcde\r\n0\r\n\r\n"),
                              chunked("5;a=b;c=\"d e\"\r\nabcde\r\n000;x\r\nTrailer: t\r\n\r\n")})
        for (const auto sending : {Sending::whole, Sending::byte_by_byte}) {
            const auto all = answer(server, first + k_smuggled + close, sending);
            CHECK(answers_in(all) == 3);
            CHECK(all.find("\"abcde\"") < all.find("\"smuggled\""));
            CHECK(all.ends_with("\"hello\""));
        }
}

TEST_CASE("a chunked body without a chunk ends no server, also without the key") {
    TestServer server;
    const std::string bytes =
        "GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n";
    const auto sending = GENERATE(Sending::whole, Sending::byte_by_byte);
    CHECK(status_of(answer(server, bytes, sending)) == 200);
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("a head that leaves the message's end in doubt is refused and ends the connection") {
    TestServer server;
    const std::string nul(1, '\0');
    const std::vector<std::string> fields = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 0\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 5;x\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5.0\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551621\r\n",
        "Content-Length : 5\r\n",
        "Content-Length\t: 5\r\n",
        " Content-Length: 5\r\n",
        "Content-Length: 5\r\n ,5\r\n",
        "Content-Length:\r\n 5\r\n",
        "Content-Length: 5" + nul + "\r\n",
        "Content-Length: \x0b"
        "5\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: \x0b"
        "chunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding: chunked\r\n\tgzip\r\n",
        "Transfer-Encoding" + nul + ": chunked\r\n",
        "A: b\rTransfer-Encoding: chunked\r\n",
        "A: b\nTransfer-Encoding: chunked\r\n",
        "A: b\r\r\nTransfer-Encoding: chunked\r\n",
        "A: b\r\n c\r\n",
        "A: b" + nul + "c\r\n",
        ": no name\r\n",
        "no colon\r\n",
        "\xC3\xA9: not a token\r\n",
        "Host: localhost\r\n",
    };
    for (const auto& field : fields)
        for (const auto sending : {Sending::whole, Sending::byte_by_byte}) {
            INFO(field);
            check_one_refusal(answer(server, post(field) + "0\r\n\r\n" + k_smuggled, sending), 400);
        }
}

TEST_CASE("a line that does not end with CR LF, or a chunk in HTTP/1.0, is refused") {
    TestServer server;
    for (const std::string& bytes : {
             std::string("GET /hello HTTP/1.1\nHost: localhost\nX-API-Key: test-key\n\n"),
             std::string("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\n\r\n"),
             std::string("GET /hello HTTP/1.1\rHost: localhost\rX-API-Key: test-key\r\r"),
             std::string("\nGET /hello HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n"),
             std::string("POST /echo HTTP/1.0\r\nHost: localhost\r\nX-API-Key: test-key\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
         }) {
        INFO(bytes);
        check_one_refusal(answer(server, bytes + k_smuggled), 400);
    }
}

TEST_CASE("a chunk that two readers may cut differently is refused and ends the connection") {
    TestServer server;
    const std::string nul(1, '\0');
    const std::vector<std::string> bodies = {
        "5;a=\"" + nul + "\"\r\nabcde\r\n0\r\n\r\n",
        "5\r\nabcde\r\n0;a=\"\x01\"\r\n\r\n",
        "\r\nabcde\r\n0\r\n\r\n",
        " 5\r\nabcde\r\n0\r\n\r\n",
        "+5\r\nabcde\r\n0\r\n\r\n",
        "-5\r\nabcde\r\n0\r\n\r\n",
        "0x5\r\nabcde\r\n0\r\n\r\n",
        "5g\r\nabcde\r\n0\r\n\r\n",
        "5,5\r\nabcde\r\n0\r\n\r\n",
        "10000000000000005\r\nabcde\r\n0\r\n\r\n",
        "5\nabcde\r\n0\r\n\r\n",
        "5\rabcde\r\n0\r\n\r\n",
        "5;a\nabcde\r\n0\r\n\r\n",
        "5;a\rb\r\nabcde\r\n0\r\n\r\n",
        "5;a=\"\r\n\"\r\nabcde\r\n0\r\n\r\n",
        "5;" + nul + "\r\nabcde\r\n0\r\n\r\n",
        "5;=b\r\nabcde\r\n0\r\n\r\n",
        "5 x\r\nabcde\r\n0\r\n\r\n",
        "5\r\nabcdef\r\n0\r\n\r\n",
        "5\r\nabcde0\r\n\r\n",
        "5\r\nabcde\n0\r\n\r\n",
        "5\r\nabcde\r0\r\n\r\n",
        "5\r\nabcde\r\n0 x\r\n\r\n",
        "5\r\nabcde\r\n0\n\r\n\r\n",
        "5\r\nabcde\r\n0\r\nContent-Length: 5\r\n\r\n",
        "5\r\nabcde\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "5\r\nabcde\r\n0\r\nA: b\r\n c\r\n\r\n",
        "5\r\nabcde\r\n0\r\nA : b\r\n\r\n",
        "5\r\nabcde\r\n0\r\nA: b\nc\r\n\r\n",
        "5\r\nabcde\r\n0\r\nno colon\r\n\r\n",
    };
    for (const auto& body : bodies)
        for (const auto sending : {Sending::whole, Sending::byte_by_byte}) {
            INFO(body);
            check_one_refusal(answer(server, chunked(body) + k_smuggled, sending), 400);
        }
}

TEST_CASE("an oversized chunk line, trailer, target or head is refused and ends the connection") {
    TestServer server(TestSettings().lingering());
    const std::string much(20'000, 'a');
    std::string many;
    for (int i = 0; i < 4000; ++i)
        many += "a:b\r\n";
    for (const auto sending : {Sending::whole, Sending::byte_by_byte}) {
        const auto refused = [&](const std::string& bytes, int status = 431) {
            INFO(bytes.substr(0, 150));
            check_one_refusal(answer(server, bytes + k_smuggled, sending), status);
        };
        refused(chunked("5;" + much + "\r\nabcde\r\n0\r\n\r\n"));
        refused(chunked("5\r\nabcde\r\n0\r\nA: " + much + "\r\n\r\n"));
        refused(head("GET /" + much + " HTTP/1.1"), 414);
        refused(much + much, 414);
        refused(head("GET /hello HTTP/1.1", "A: " + much + "\r\n"));
        refused(head("GET /hello HTTP/1.1", much + ": b\r\n"));
        refused(head("GET /hello HTTP/1.1", many));
    }
    std::string some;
    for (int i = 0; i < 200; ++i)
        some += "Name-" + std::to_string(i) + ": value\r\n";
    CHECK(status_of(answer(server, head("GET /hello HTTP/1.1", some + "Connection: close\r\n"))) == 200);
}

TEST_CASE("the unread body of a refused request is never a request") {
    TestSettings settings;
    settings.max_body_bytes = 10;
    TestServer server(settings);
    const std::string length = "Content-Length: " + std::to_string(k_smuggled.size()) + "\r\n";
    const std::string keyless = "\r\nHost: localhost\r\n";
    check_one_refusal(answer(server, "POST /echo HTTP/1.1" + keyless + length + "\r\n" + k_smuggled), 401);
    check_one_refusal(answer(server, head("POST /nowhere HTTP/1.1", length) + k_smuggled), 404);
    check_one_refusal(answer(server, head("PUT /echo HTTP/1.1", length) + k_smuggled), 405);
    check_one_refusal(answer(server, head("POST /echo?a=1 HTTP/1.1", length) + k_smuggled), 422);
    check_one_refusal(answer(server, post(length) + k_smuggled), 413);
    check_one_refusal(answer(server, post(length + "Expect: 100-continue\r\n") + k_smuggled), 413);
    check_one_refusal(answer(server, post("Expect: magic\r\n" + length) + k_smuggled), 400);
    const std::string evil = "POST /echo HTTP/1.1\r\nHost: evil.example\r\nX-API-Key: test-key\r\n";
    check_one_refusal(answer(server, evil + length + "\r\n" + k_smuggled), 421);
    check_one_refusal(answer(server, chunked("40\r\n" + k_smuggled)), 413);
}

TEST_CASE("every form of a target has its status") {
    TestServer server;
    struct Target {
        std::string line;
        int status;
    };
    const std::vector<Target> targets = {
        {"GET http://localhost/hello HTTP/1.1", 200},
        {"GET HTTP://LOCALHOST:1/hello HTTP/1.1", 200},
        {"GET http://localhost HTTP/1.1", 404},
        {"GET http://localhost?a=1 HTTP/1.1", 404},
        {"GET http://evil.example/hello HTTP/1.1", 421},
        {"GET http://localhost@evil.example/hello HTTP/1.1", 421},
        {"GET http:///hello HTTP/1.1", 400},
        {"GET ftp://localhost/hello HTTP/1.1", 400},
        {"GET localhost:4100/hello HTTP/1.1", 400},
        {"CONNECT localhost:4100 HTTP/1.1", 400},
        {"OPTIONS * HTTP/1.1", 204},
        {"OPTIONS *?a HTTP/1.1", 400},
        {"OPTIONS ** HTTP/1.1", 400},
        {"GET * HTTP/1.1", 400},
        {"GET hello HTTP/1.1", 400},
        {"GET //hello HTTP/1.1", 404},
        {"GET /hello/ HTTP/1.1", 404},
        {"GET /things/../hello HTTP/1.1", 404},
        {"GET /things/%2e%2e%2fhello HTTP/1.1", 200},
        {"GET /things/%c3%a9 HTTP/1.1", 200},
        {"GET /things/%ff HTTP/1.1", 400},
        {"GET /things/%c0%ae HTTP/1.1", 400},
        {"GET /things/%ed%a0%80 HTTP/1.1", 400},
        {"GET /things/%4 HTTP/1.1", 400},
        {"GET /things/\xc3\xa9 HTTP/1.1", 400},
        {std::string("GET /things/a\0b HTTP/1.1", 24), 400},
        {"GET /hello#fragment HTTP/1.1", 400},
        {"GET /hello world HTTP/1.1", 400},
        {"GET  /hello HTTP/1.1", 400},
        {"GET\t/hello HTTP/1.1", 400},
        {"GET /hello  HTTP/1.1", 400},
        {" GET /hello HTTP/1.1", 400},
        {"GET /hello HTTP/1.1 ", 400},
        {"GET /hello", 400},
        {"GET /hello HTTP/0.9", 400},
        {"GET /hello HTTP/1.10", 400},
        {"GET /hello HTTP/2.0", 400},
        {"GET /hello http/1.1", 400},
        {"get /hello HTTP/1.1", 405},
        {"G\xc3\x89T /hello HTTP/1.1", 400},
        {"PURGE /hello HTTP/1.1", 405},
        {"PRI * HTTP/2.0", 400},
    };
    for (const auto& target : targets) {
        INFO(target.line);
        const auto all = answer(server, head(target.line, "Connection: close\r\n"));
        CHECK(status_of(all) == target.status);
        CHECK(answers_in(all) == 1);
    }
    CHECK(answers_in(answer(server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + k_smuggled)) == 1);
}

TEST_CASE("Expect is answered only where a body is wanted, and never to HTTP/1.0") {
    TestServer server;
    const std::string expect = "Expect: 100-continue\r\nConnection: close\r\n";
    CHECK(status_of(answer(server, head("GET /hello HTTP/1.1", expect))) == 200);
    const auto old = answer(
        server, "POST /echo HTTP/1.0\r\nX-API-Key: test-key\r\nContent-Length: 2\r\n" + expect + "\r\nok");
    CHECK(status_of(old) == 200);
    CHECK(answers_in(old) == 1);
    auto client = server.client();
    client.send_raw(post("Transfer-Encoding: chunked\r\nExpect: 100-Continue\r\n"));
    CHECK(client.read_response().status == 100);
    client.send_raw("2\r\nok\r\n0\r\n\r\n" + head("GET /hello HTTP/1.1"));
    CHECK(client.read_response().body == R"("ok")");
    CHECK(client.read_response().body == R"("hello")");
}

TEST_CASE("pipelined requests stop at the first one that is refused or closes") {
    TestServer server;
    const std::string good = head("GET /hello HTTP/1.1");
    const auto refused = answer(server, good + good + "NONSENSE\r\n\r\n" + k_smuggled);
    CHECK(answers_in(refused) == 3);
    CHECK(refused.find("HTTP/1.1 400 ") > refused.rfind("\"hello\""));
    const auto closed =
        answer(server, good + head("GET /hello HTTP/1.1", "Connection: x, Close\r\n") + k_smuggled);
    CHECK(answers_in(closed) == 2);
    CHECK(closed.find("smuggled") == std::string::npos);
    const auto old = answer(server, good + head("GET /hello HTTP/1.0") + k_smuggled);
    CHECK(answers_in(old) == 2);
}

TEST_CASE("answers to pipelined requests keep their bodies apart") {
    TestServer server;
    auto client = server.client();
    std::string all;
    for (int i = 0; i < 20; ++i) {
        const std::string body(static_cast<std::size_t>(i * 37), static_cast<char>('a' + i));
        all += i % 2 == 0 ? post("Content-Length: " + std::to_string(body.size()) + "\r\n") + body
                          : chunked("1\r\n" + body.substr(0, 1) + "\r\n24\r\n" + body.substr(1, 36) +
                                    "\r\n0\r\nA: b\r\n\r\n");
        all += head("HEAD /hello HTTP/1.1") + head("DELETE /things/" + std::to_string(i) + " HTTP/1.1");
    }
    client.send_raw(all);
    for (int i = 0; i < 20; ++i) {
        const auto size = static_cast<std::size_t>(i % 2 == 0 ? i * 37 : 37);
        CHECK(client.read_response().body == '"' + std::string(size, static_cast<char>('a' + i)) + '"');
        CHECK(client.read_response(HttpClient::Body::none).header("content-length") == "7");
        CHECK(client.read_response().body == '"' + std::to_string(i) + '"');
    }
}

TEST_CASE("a client that pipelines and never reads is cut off") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const auto peer = server.connect();
    peer->take_only(1'000'000);
    for (int i = 0; i < 20; ++i)
        peer->send(head("GET /big?bytes=5000000 HTTP/1.1"));
    server.advance(base::k_write_deadline - 1ms);
    CHECK(server.connections() == 1);
    server.advance(1ms);
    CHECK(server.connections() == 0);
}

TEST_CASE("a client that sends byte after byte is cut off at the deadline of the whole") {
    TestRoutes routes;
    FakeServer server({}, routes.routes());
    const std::vector<std::pair<std::string, std::chrono::seconds>> beginnings{
        {"GET /hello HTTP/1.1\r\nA: ", base::k_header_deadline},
        {post("Content-Length: 1000000\r\n"), base::k_body_deadline},
        {chunked("5;"), base::k_body_deadline}};
    for (const auto& [beginning, deadline] : beginnings) {
        INFO(beginning);
        const auto peer = server.connect();
        peer->send(beginning);
        int bytes = 0;
        for (; bytes < 100 && !peer->input_ended(); ++bytes) {
            server.advance(1s);
            peer->send("a");
            server.run();
        }
        CHECK(std::chrono::seconds(bytes) == deadline);
        CHECK(server.take(*peer).starts_with("HTTP/1.1 408 "));
        server.advance(http::WireSettings().linger_deadline);
        CHECK(peer->is_closed());
    }
}

TEST_CASE("a client may leave at any byte, and end its sending side at any") {
    TestServer server;
    const std::string bytes = chunked("5;a=b\r\nabcde\r\n0\r\nA: b\r\n\r\n") + head("GET /hello HTTP/1.1");
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        INFO(size);
        auto leaving = server.client();
        leaving.connect();
        leaving.send_raw(bytes.substr(0, size));
        leaving.close();
        auto ending = server.client();
        ending.connect();
        ending.send_raw(bytes.substr(0, size));
        ending.shutdown_send();
        const bool first = size >= bytes.size() - head("GET /hello HTTP/1.1").size();
        CHECK(answers_in(ending.read_until_close()) == (first ? 1U : 0U) + (size == bytes.size() ? 1U : 0U));
    }
    CHECK(server.eventually([&] { return server.connections_now() == 0; }));
    CHECK(server.client().request("GET", "/hello").status == 200);
}

}  // namespace hostile_test
