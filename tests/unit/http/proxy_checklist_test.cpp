// The bytes that a proxy must never pass on or mix up between a client and a dev server, whose part the test
// plays.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/support/deadline.hpp"
#include "tests/unit/http/proxy_lab.hpp"

namespace proxy_checklist_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view k_forwarded =
    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: p.example\r\n";

std::string get(std::string_view fields, std::string_view version = "1.1") {
    return "GET / HTTP/" + std::string(version) + "\r\nHost: p.example\r\n" + std::string(fields) + "\r\n";
}
/// The head of get() at the dev server.
std::string got(std::string_view fields) {
    return "GET / HTTP/1.1\r\nHost: localhost:5173\r\n" + std::string(fields) + std::string(k_forwarded) +
           "\r\n";
}

}  // namespace

TEST_CASE("proxy: fields that a Connection field names go no further, in either direction") {
    ProxyLab lab;
    const Asked asked(lab, get("Connection: close ,X-One,, x-two\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\n"
                               "Connection: X-Four\r\nX-FOUR: 4\r\nProxy-Connection: close\r\n"));
    CHECK(asked.head == got("X-Three: 3\r\n"));
    lab.send(
        lab.upstream(),
        "HTTP/1.1 200 OK\r\nConnection: x-one\r\nX-One: 1\r\nX-Two: 2\r\nConnection: keep-alive, X-Two\r\n"
        "Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X-Sum\r\nX-Three: 3\r\n"
        "Content-Length: 0\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nX-Three: 3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

TEST_CASE("proxy: trailers that a Connection field names, or that stand for one hop, go no further") {
    ProxyLab lab;
    const Asked asked(lab,
                      "POST / HTTP/1.1\r\nHost: p\r\nConnection: X-One\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "0\r\nX-ONE: 1\r\nKeep-Alive: 1\r\nX-Two: 2\r\nX-Forwarded-For: 1\r\n\r\n");
    CHECK(asked.head.ends_with("\r\n\r\n0\r\nX-Two: 2\r\n\r\n"));
    lab.send(lab.upstream(),
             "HTTP/1.1 200 OK\r\nConnection: x-three\r\nTransfer-Encoding: chunked\r\n\r\n"
             "0\r\nX-Three: 3\r\nTrailer: X-Four\r\nX-Four: 4\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Four: 4\r\n\r\n");
}

TEST_CASE("proxy: trailers with a framing of their own end both connections") {
    const std::string name = GENERATE("Content-Length: 5", "Transfer-Encoding: chunked");
    ProxyLab lab;
    const Asked asked(lab, get(""));
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    lab.send(lab.upstream(), "0\r\n" + name + "\r\n\r\n");
    CHECK_FALSE(has(lab.take(*asked.client), "0\r\n"));
    CHECK(asked.client->was_reset());
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("proxy: what a CGI program would take for the proxy's own word, for a body or a key, stays out") {
    ProxyLab lab;
    const Asked asked(lab, get("Transfer_Encoding: chunked\r\nContent_Length: 5\r\nX_Forwarded_For: "
                               "1\r\nx-forwarded_HOST: e\r\nX_API-Key: k\r\nX_Other: 2\r\n"));
    CHECK(asked.head == got("X_Other: 2\r\n"));
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("proxy: a Connection field of a hundred thousand names costs about as much as its bytes",
          "[serial]") {
    http::Request request;
    std::string names;
    for (int i = 0; i < 100'000; ++i)
        names += "b" + std::to_string(i) + ",";
    request.fields.push_back({"Connection", names});
    for (int i = 0; i < 20'000; ++i)
        request.fields.push_back({"c12345", "x"});
    std::string head;
    const auto begun = std::chrono::steady_clock::now();
    http::write_upstream_head(head, request, {}, {});
    const auto took = std::chrono::steady_clock::now() - begun;
    if (checks_bounds())
        CHECK(took < 5s);
    CHECK(has(head, "c12345: x"));
}

TEST_CASE("proxy: a Connection field takes neither the framing away nor what the proxy itself says") {
    ProxyLab lab;
    const Asked asked(lab,
                      "POST / HTTP/1.1\r\nHost: p.example\r\nConnection: Content-Length, Host, "
                      "X-Forwarded-For\r\nContent-Length: 3\r\n\r\nabc");
    CHECK(asked.head == "POST / HTTP/1.1\r\nHost: localhost:5173\r\n" + std::string(k_forwarded) +
                            "Content-Length: 3\r\n\r\nabc");
    lab.send(lab.upstream(),
             "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n"
             "2\r\nok\r\n0\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
}

TEST_CASE("proxy: a request that two readers could understand differently reaches no dev server") {
    ProxyLab lab;
    const std::string request = GENERATE(
        "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 3, 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 0x3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: \x0b"
        "chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: p\r\nX-A: b\r\n folded: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: p\r\nHost: q\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: p\r\nX-A: b\rX-B: c\r\n\r\n", "GET / HTTP/1.1\nHost: p\n\n",
        "GET /a b HTTP/1.1\r\nHost: p\r\n\r\n", "GET p/ HTTP/1.1\r\nHost: p\r\n\r\n",
        "CONNECT p:443 HTTP/1.1\r\nHost: p\r\n\r\n");
    CAPTURE(request);
    const auto client = lab.connect();
    lab.send(*client, request);
    // Lines that end in another way are no lines: their end is waited for.
    lab.advance(http::WireSettings{}.header_deadline + 1s);
    CHECK(lab.requests() == 0);
    CHECK(client->input_ended());
}

TEST_CASE("proxy: the target of a request arrives byte by byte as it was sent") {
    const std::string target =
        GENERATE("/", "/?", "/x?", "/x??", "/?a=b?", "//", "//x//?", "/a/../b/./", "/%2F%2f%zz%", "/a%23?%3F",
                 "/a;b=c?d=e;f", "/a?b=/../c", "/<>\"^`{|}\\");
    CAPTURE(target);
    ProxyLab lab;
    const Asked asked(lab, "GET " + target + " HTTP/1.1\r\nHost: p.example\r\n\r\n");
    CHECK(asked.head.starts_with("GET " + target + " HTTP/1.1\r\n"));
    const Asked absolute(lab, "GET http://p.example" + target + " HTTP/1.1\r\nHost: p.example\r\n\r\n");
    CHECK(absolute.head.starts_with("GET " + target + " HTTP/1.1\r\n"));
}

TEST_CASE("proxy: an answer in a form that browsers read goes on in the form of the standard") {
    const auto [answer, expected] = GENERATE(table<std::string, std::string>({
        {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200 \r\nContent-Length: 2\r\n\r\nok"},
        {"HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok", "200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok"},
        {"HTTP/1.1 200 OK\r\nA: b,\r\n  c\r\nContent-Length: 2\r\n\r\nok",
         "200 OK\r\nA: b, c\r\nContent-Length: 2\r\n\r\nok"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
         "200 OK\r\nContent-Length: 2\r\n\r\nok"},
        {"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\nA: b\n\n",
         "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n"},
    }));
    CAPTURE(answer);
    ProxyLab lab;
    const Asked asked(lab, get(""));
    lab.send(lab.upstream(), answer);
    CHECK(lab.take(*asked.client) == "HTTP/1.1 " + expected);
    CHECK(lab.previews.port->has_kept());
}

TEST_CASE("proxy: a head of 60 KiB passes, one of its fields longer than what is read at once") {
    ProxyLab lab;
    const Asked asked(lab, get(""));
    const std::string policy = "Content-Security-Policy: " + std::string(40'000, 'x') + "\r\n";
    std::string cookies;
    for (int i = 0; i < 20; ++i)
        cookies += "Set-Cookie: c" + std::to_string(i) + "=" + std::string(1'000, 'y') + "\r\n";
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\n" + policy + cookies + "Content-Length: 2\r\n\r\nok");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\n" + policy + cookies + "Content-Length: 2\r\n\r\nok");
}

TEST_CASE("proxy: a WebSocket opens by an answer with bare LFs and without a reason, to its first byte") {
    ProxyLab lab;
    const Asked asked(lab, get("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    lab.send(lab.upstream(), "HTTP/1.1 101\nUpgrade: websocket\nConnection: Upgrade\n\n\n\r\nfirst");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\n\r\nfirst");
    lab.send(*asked.client, "up");
    CHECK(lab.take(lab.upstream()) == "up");
}

TEST_CASE("proxy: chunks are the proxy's own: their extensions, and bodies that break them, go no further") {
    ProxyLab lab;
    const auto client = lab.connect();
    lab.send(*client,
             "POST / HTTP/1.1\r\nHost: p.example\r\nTransfer-Encoding: chunked\r\n\r\n"
             "0003;name=\"a;b\";c\r\nabc\r\n");
    CHECK(lab.take(lab.upstream()).ends_with("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
    const std::string bad = GENERATE("0x2\r\nab\r\n", "2 \nab\r\n", "fffffffffffffffff\r\n", "-1\r\n",
                                     "2;\x01=x\r\nab\r\n", "2\r\nabc\r\n");
    CAPTURE(bad);
    lab.send(*client, bad);
    lab.send(*client, "0\r\n\r\nGET /second HTTP/1.1\r\nHost: p.example\r\n\r\n");
    const std::string seen = lab.take(lab.upstream());
    CHECK_FALSE(has(seen, "0\r\n\r\n"));
    CHECK_FALSE(has(seen, "second"));
    CHECK(lab.requests() == 1);
    CHECK(lab.upstream().is_closed());
    CHECK(client->input_ended());
}

TEST_CASE("proxy: requests that come at once are asked and answered one after the other") {
    ProxyLab lab;
    const auto client = lab.connect();
    lab.send(*client, get("X-A: 1\r\n") + get("X-A: 2\r\n"));
    REQUIRE(lab.requests() == 1);
    CHECK(lab.take(lab.upstream()) == got("X-A: 1\r\n"));
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    REQUIRE(lab.requests() == 2);
    CHECK(lab.take(lab.upstream()) == got("X-A: 2\r\n"));
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    CHECK(lab.take(*client) ==
          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
}

TEST_CASE("proxy: bytes behind an answer that has no body are no answer to the next request") {
    ProxyLab lab;
    const auto [method, answer] = GENERATE(table<std::string, std::string>(
        {{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil"},
         {"GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"},
         {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"},
         {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"}}));
    CAPTURE(method, answer);
    const Asked asked(lab, method + " / HTTP/1.1\r\nHost: p\r\n\r\n");
    lab.send(lab.upstream(), answer);
    const std::string seen = lab.take(*asked.client);
    CHECK(seen.ends_with("\r\n\r\n"));
    CHECK_FALSE(has(seen, "evil"));
    CHECK_FALSE(has(seen, "Transfer-Encoding"));
    // RFC 9110 section 8.6: 204 has no Content-Length.
    CHECK(has(seen, "Content-Length: 4\r\n") == (method == "HEAD" && has(answer, "Content-Length")));
    CHECK_FALSE(lab.previews.port->has_kept());
}

TEST_CASE("proxy: a client of HTTP/1.0 gets no interim answer, no chunks and no tunnel") {
    ProxyLab lab;
    const Asked asked(lab,
                      "POST / HTTP/1.0\r\nHost: p\r\nConnection: keep-alive, Upgrade\r\n"
                      "Upgrade: websocket\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(asked.head.ends_with("\r\nContent-Length: 2\r\n\r\nhi"));
    CHECK_FALSE(has(asked.head, "Upgrade"));
    lab.send(lab.upstream(), "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    CHECK(lab.take(*asked.client).empty());
    SECTION("a length keeps the connection, if asked for") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        CHECK(lab.take(*asked.client) ==
              "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
    }
    SECTION("chunks become bytes until the end") {
        lab.send(lab.upstream(),
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-A: b\r\n\r\n");
        CHECK(lab.take(*asked.client) == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok");
        CHECK(asked.client->is_closed());
        CHECK_FALSE(asked.client->was_reset());
    }
}

TEST_CASE("proxy: interim answers pass as they come, 100 Continue only to who asked for it") {
    ProxyLab lab;
    const Asked asked(lab, get(""));
    lab.send(lab.upstream(), "HTTP/1.1 100 Continue\r\n\r\n");
    CHECK(lab.take(*asked.client).empty());
    lab.send(lab.upstream(), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 7\r\n\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
}

TEST_CASE("proxy: of the origins in an answer only the dev server's own is changed") {
    const auto [from, to] = GENERATE(table<std::string, std::string>(
        {{"http://localhost:5173/x", "https://p.example/x"},
         {"HTTP://LOCALHOST:5173", "https://p.example"},
         {"https://127.0.0.1:5173?q", "https://p.example?q"},
         {"//[::1]:5173/x#y", "//p.example/x#y"},
         {"http://0.0.0.0:5173/", "https://p.example/"},
         {"/relative", "/relative"},
         {"*", "*"},
         {"null", "null"},
         {"http://localhost:5174/", "http://localhost:5174/"},
         {"http://localhost:51730/", "http://localhost:51730/"},
         {"http://localhost/", "http://localhost/"},
         {"http://localhost:5173@evil/", "http://localhost:5173@evil/"},
         {"http://localhost:5173.evil/", "http://localhost:5173.evil/"},
         {"ftp://localhost:5173/", "ftp://localhost:5173/"},
         {"https://elsewhere/?http://localhost:5173/", "https://elsewhere/?http://localhost:5173/"}}));
    ProxyLab lab;
    const Asked asked(lab, get(""));
    const std::string name = GENERATE("Location", "access-control-allow-origin");
    lab.send(lab.upstream(), "HTTP/1.1 302 Found\r\n" + name + ": " + from + "\r\nContent-Length: 0\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 302 Found\r\n" + name + ": " + to + "\r\nContent-Length: 0\r\n\r\n");
}

TEST_CASE("proxy: an origin has its scheme's port where it names none") {
    http::ProxiedHost host{.port = 80,
                           .public_scheme = "https",
                           .public_host = "p.example",
                           .client_address = "",
                           .hidden_cookies = ""};
    CHECK(http::public_location("http://localhost/x", host) == "https://p.example/x");
    CHECK(http::public_location("//127.0.0.1", host) == "//p.example");
    CHECK(http::public_location("http://localhost:80?q", host) == "https://p.example?q");
    CHECK(http::public_location("https://localhost/", host) == "https://localhost/");
    CHECK(http::public_location("http://localhost.evil/", host) == "http://localhost.evil/");
    CHECK(http::public_location("http://localhost@evil/", host) == "http://localhost@evil/");
    CHECK(http::public_location("http://localhost:8080/", host) == "http://localhost:8080/");
    host.port = 443;
    CHECK(http::public_location("https://[::1]/", host) == "https://p.example/");
    CHECK(http::public_location("http://[::1]/", host) == "http://[::1]/");
}

TEST_CASE("proxy: each cookie keeps all but its Domain") {
    ProxyLab lab;
    const Asked asked(lab, get(""));
    lab.send(
        lab.upstream(),
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1;domain=p.example;Path=/;Secure\r\n"
        "Set-Cookie: b=\"x; y\"; DOMAIN = .example ; Max-Age=5\r\nSet-Cookie: domain=not-an-attribute\r\n"
        "Set-Cookie: c=3; Domain\r\nContent-Length: 0\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/; Secure\r\nSet-Cookie: b=\"x; y\"; Max-Age=5\r\n"
          "Set-Cookie: domain=not-an-attribute\r\nSet-Cookie: c=3\r\nContent-Length: 0\r\n\r\n");
}

TEST_CASE("proxy: of several protocols one is asked for, never one that would hide requests") {
    ProxyLab lab;
    const Asked asked(lab, get("Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c, WebSocket, "
                               "other\r\nHTTP2-Settings: x\r\n"));
    CHECK(asked.head ==
          got("").substr(0, got("").size() - 2) + "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n");
    SECTION("it is agreed to") {
        lab.send(lab.upstream(),
                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        CHECK(has(lab.take(*asked.client), "\r\nUpgrade: websocket\r\n\r\n"));
    }
    SECTION("another one is refused") {
        lab.send(lab.upstream(),
                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
        CHECK(has(lab.take(*asked.client), "upstream_failed"));
        CHECK(lab.upstream().is_closed());
    }
}

TEST_CASE("proxy: no tunnel begins within a request") {
    ProxyLab lab;
    const Asked asked(lab,
                      "POST / HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      "Content-Length: 10\r\n\r\nabc");
    lab.send(lab.upstream(),
             "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    CHECK(has(lab.take(*asked.client), "upstream_failed"));
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("proxy: an event stream comes event by event") {
    ProxyLab lab;
    const Asked asked(lab, get("Accept: text/event-stream\r\n"));
    lab.send(lab.upstream(),
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const std::string_view chunk : {"9\r\ndata: 1\n\n\r\n", "1\r\n:\r\n", "9\r\ndata: 2\n\n\r\n"}) {
        lab.advance(1h);
        lab.send(lab.upstream(), chunk);
        CHECK(lab.take(*asked.client) == chunk);
    }
}

TEST_CASE("proxy: a head that comes in drops has the time of one that comes at once") {
    ProxyLab lab;
    const Asked asked(lab, get(""));
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\n");
    for (int minute = 0; minute < 6 && !lab.upstream().is_closed(); ++minute) {
        lab.advance(1min);
        lab.send(lab.upstream(), "X-A: b\r\n");
    }
    CHECK(lab.upstream().is_closed());
    CHECK(has(lab.take(*asked.client), "deadline_exceeded"));
}

TEST_CASE("proxy: a long upload to a dev server that reads slowly is not taken for a missing answer") {
    ProxyLab lab;
    const auto client = lab.connect();
    lab.send(*client, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 1048576\r\n\r\n");
    lab.upstream().take_only(0);
    lab.send(*client, std::string(1024UL * 1024, 'x'));
    for (int minute = 0; minute < 20; ++minute) {
        lab.advance(1min);
        lab.upstream().take_only(60'000);
        lab.run();
    }
    CHECK(lab.take(lab.upstream()).size() > 1024UL * 1024);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(has(lab.take(*client), "\r\n\r\nok"));
}

TEST_CASE("proxy: a dev server that is slow to ask for a body has as much time as for an answer") {
    ProxyLab lab;
    const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    lab.advance(4min);
    CHECK(lab.take(*asked.client).empty());
    lab.send(lab.upstream(), "HTTP/1.1 100 Continue\r\n\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 100 Continue\r\n\r\n");
}

}  // namespace proxy_checklist_test
