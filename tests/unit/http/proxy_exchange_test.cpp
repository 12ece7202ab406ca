// The proxy between a client and a dev server whose bytes the test sees and sends.
#include "http/proxy/exchange.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/http/proxy_lab.hpp"

namespace proxy_exchange_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

TEST_CASE("proxy: a request goes on under the dev server's name, without what is not its own") {
    ProxyLab lab;
    const Asked asked(
        lab,
        "PATCH /a%2Fb?c=d HTTP/1.1\r\nHost: p.example\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
        "Keep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: x\r\nX-API-Key: secret\r\n"
        "X-Forwarded-For: 10.0.0.1\r\nForwarded: for=x\r\nAccept: */*\r\n"
        "Origin: https://p.example\r\nReferer: https://p.example/page\r\n"
        "Cookie: a=1; __Host-atoll-preview=secret; b=2\r\nContent-Length: 0\r\n\r\n");
    CHECK(asked.head ==
          "PATCH /a%2Fb?c=d HTTP/1.1\r\nHost: localhost:5173\r\nAccept: */*\r\nOrigin: "
          "http://localhost:5173\r\n"
          "Referer: http://localhost:5173/page\r\nCookie: a=1; b=2\r\nX-Forwarded-For: 192.0.2.1\r\n"
          "X-Forwarded-Proto: https\r\nContent-Length: 0\r\n\r\n");
}

TEST_CASE("proxy: a dev server that compares Origin with the host it is told finds them to agree") {
    // Next.js does so for a Server Action, and React Router for an action: X-Forwarded-Host counts before
    // Host.
    const auto [origin, agrees] = GENERATE(table<std::string, bool>({
        {"https://p.example", true},
        {"https://elsewhere.example", false},
        {"https://p.example.evil", false},
        {"null", false},
    }));
    CAPTURE(origin);
    ProxyLab lab;
    const Asked asked(
        lab, "POST / HTTP/1.1\r\nHost: p.example\r\nOrigin: " + origin + "\r\nContent-Length: 0\r\n\r\n");
    const auto said = [&](const std::string& name) {
        const std::size_t at = asked.head.find("\r\n" + name + ": ");
        const std::size_t from = at + name.size() + 4;
        return at == std::string::npos ? "" : asked.head.substr(from, asked.head.find("\r\n", from) - from);
    };
    const std::string forwarded = said("X-Forwarded-Host");
    const std::string host = forwarded.empty() ? said("Host") : forwarded;
    const std::string told = said("Origin");
    CHECK((told.substr(told.find("//") + 2) == host) == agrees);
    CHECK(forwarded == (agrees ? "" : "p.example"));
}

TEST_CASE("proxy: a request without an Origin of the preview's own tells the name that the browser knows") {
    ProxyLab lab;
    const Asked asked(lab, "GET / HTTP/1.1\r\nHost: p.example\r\nReferer: https://p.example/page\r\n\r\n");
    CHECK(has(asked.head, "Referer: http://localhost:5173/page\r\n"));
    CHECK(has(asked.head, "X-Forwarded-Host: p.example\r\n"));
}

TEST_CASE("proxy: a page of another origin stays one, and every method passes") {
    ProxyLab lab;
    const Asked asked(lab,
                      "PROPFIND / HTTP/1.1\r\nHost: p.example\r\nOrigin: https://p.example.evil\r\n\r\n");
    CHECK(asked.head.starts_with("PROPFIND / HTTP/1.1\r\n"));
    CHECK(has(asked.head, "Origin: https://p.example.evil\r\n"));
}

TEST_CASE("proxy: an answer goes on as it is, with the preview's origin in place of the dev server's") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(
        lab.upstream(),
        "HTTP/1.1 302 Moved\r\nLocation: http://localhost:5173/x?y\r\nServer: vite\r\nConnection: X-Hop\r\n"
        "X-Hop: 1\r\nAlt-Svc: h3\r\nAccess-Control-Allow-Origin: http://127.0.0.1:5173\r\n"
        "Set-Cookie: a=1; Domain=example.com; Path=/; HttpOnly\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 302 Moved\r\nLocation: https://p.example/x?y\r\nServer: vite\r\n"
          "Access-Control-Allow-Origin: https://p.example\r\nSet-Cookie: a=1; Path=/; HttpOnly\r\n"
          "Content-Length: 2\r\n\r\nhi");
}

TEST_CASE("proxy: cookies and keys of this server stay out, however they are written") {
    ProxyLab lab;
    const Asked asked(lab,
                      "GET / HTTP/1.1\r\nHost: p.example\r\nX-Hide: 1\r\nAuthorization: Bearer secret\r\n"
                      "Cookie: __Host-atoll-preview-abc=1.secret;b=2; __host-ATOLL-preview-x=secret;"
                      " =__Host-atoll-preview-abc=secret\r\n"
                      "Cookie: __Host-atoll-preview=secret\r\n\r\n");
    CHECK(has(asked.head, "Cookie: b=2\r\n"));
    CHECK_FALSE(has(asked.head, "secret"));
    lab.send(lab.upstream(),
             "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-atoll-preview-abc=1; Secure; Path=/\r\n"
             "Set-Cookie: =__host-atoll-preview-abc=1\r\nSet-Cookie: c=1; DOMAIN = .example\r\n"
             "Clear-Site-Data: \"cookies\", \"storage\"\r\nClear-Site-Data: \"*\"\r\n"
             "Content-Length: 0\r\n\r\n");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nSet-Cookie: c=1\r\nClear-Site-Data: \"storage\"\r\n"
          "Content-Length: 0\r\n\r\n");
}

TEST_CASE("proxy: a field that has a key of this server in it stays out, whatever its name") {
    ProxyLab lab;
    const Asked asked(lab,
                      "POST / HTTP/1.1\r\nHost: p.example\r\nAuthorization: the.api.key\r\n"
                      "X-Token: the.api.key\r\nSec-WebSocket-Protocol: a, bearer.the.api.key\r\n"
                      "Referer: https://p.example/?k=the.api.key\r\nCookie: a=1; k=the.api.key; b=2\r\n"
                      "X-Other: the.api\r\nthe.api.key: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "0\r\nX-Late: the.api.key\r\nX-the.api.key: 1\r\nX-Sum: 1\r\n\r\n");
    CHECK(has(asked.head, "\r\nCookie: a=1; b=2\r\nX-Other: the.api\r\n"));
    CHECK(asked.head.ends_with("\r\n\r\n0\r\nX-Sum: 1\r\n\r\n"));
    CHECK_FALSE(has(asked.head, FakePreviews::k_key));
}

TEST_CASE("proxy: a key of this server stays out as the name of a protocol") {
    ProxyLab lab;
    const Asked asked(lab,
                      "GET / HTTP/1.1\r\nHost: p.example\r\nConnection: Upgrade\r\n"
                      "Upgrade: the.api.key\r\n\r\n");
    CHECK_FALSE(has(asked.head, FakePreviews::k_key));
    const Asked other(lab,
                      "GET / HTTP/1.1\r\nHost: p.example\r\nConnection: Upgrade\r\n"
                      "Upgrade: the.api\r\n\r\n");
    CHECK(has(other.head, "Upgrade: the.api\r\n"));
}

TEST_CASE("proxy: a key of this server stays out as a user's password, too") {
    const auto [value, passes] = GENERATE(table<std::string, bool>({
        {"Basic dXNlcjp0aGUuYXBpLmtleQ==", false},
        {"basic  dXNlcjp0aGUuYXBpLmtleQ==", false},
        {"Basic dXNlcjp0aGUuYXBp", true},
        {"Basic not/base64=x", true},
    }));
    CAPTURE(value);
    ProxyLab lab;
    const Asked asked(lab, "GET / HTTP/1.1\r\nHost: p.example\r\nAuthorization: " + value + "\r\n\r\n");
    CHECK(has(asked.head, "Authorization: ") == passes);
}

TEST_CASE("proxy: an Authorization of the dev server's own goes inside") {
    ProxyLab lab;
    const Asked asked(lab, "GET / HTTP/1.1\r\nHost: p.example\r\nAuthorization: Basic YTpi\r\n\r\n");
    CHECK(has(asked.head, "Authorization: Basic YTpi\r\n"));
}

TEST_CASE("proxy: a chunked answer keeps its end and its trailers, and both connections are used again") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    lab.send(lab.upstream(), "0\r\nX-Sum: 9\r\nSet-Cookie: a=b\r\n\r\n");
    CHECK(lab.take(*asked.client) == "0\r\nX-Sum: 9\r\n\r\n");
    CHECK(lab.previews.port->has_kept());
    lab.send(*asked.client, k_get);
    CHECK(lab.requests() == 2);
    CHECK(lab.previews.port->peers[0] == lab.previews.port->peers[1]);
    lab.send(lab.upstream(), "HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST_CASE("proxy: an answer that comes byte by byte is the same") {
    ProxyLab lab;
    const Asked asked(lab);
    for (const char byte : std::string_view(
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-A: b\r\n\r\n"))
        lab.send(lab.upstream(), std::string_view(&byte, 1));
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nX-A: b\r\n\r\n");
    CHECK(lab.previews.port->has_kept());
}

TEST_CASE("proxy: answers without a body end with their head") {
    ProxyLab lab;
    const std::string method = GENERATE("HEAD", "GET");
    const std::string status = method == "HEAD" ? "200 OK" : "304 Not Modified";
    const Asked asked(lab, method + " / HTTP/1.1\r\nHost: p\r\n\r\n");
    lab.send(lab.upstream(), "HTTP/1.1 " + status + "\r\nContent-Length: 10\r\n\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 " + status + "\r\nContent-Length: 10\r\n\r\n");
    lab.send(*asked.client, k_get);
    CHECK(lab.requests() == 2);
}

TEST_CASE("proxy: an answer that ends with its connection is chunked, or ends the client's, too") {
    ProxyLab lab;
    const bool is_new = GENERATE(true, false);
    const Asked asked(lab, std::string("GET / HTTP/1.") + (is_new ? "1" : "0") + "\r\nHost: p\r\n\r\n");
    lab.send(lab.upstream(), "HTTP/1.0 200 OK\r\n\r\nabc");
    lab.upstream().end_sending();
    const std::string answer = lab.take(*asked.client);
    CHECK(answer == (is_new ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                            : "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"));
    CHECK(asked.client->is_closed() == !is_new);
    CHECK_FALSE(asked.client->was_reset());
    CHECK_FALSE(lab.previews.port->has_kept());
}

TEST_CASE("proxy: a body goes on while it comes, in its own framing") {
    ProxyLab lab;
    SECTION("with a length") {
        const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 6\r\n\r\nabc");
        CHECK(asked.head.ends_with("Content-Length: 6\r\n\r\nabc"));
        lab.send(*asked.client, "def");
        CHECK(lab.take(lab.upstream()) == "def");
    }
    SECTION("with a length, and no byte of the next request") {
        const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 3\r\n\r\na");
        lab.send(*asked.client, "bc" + std::string(k_get));
        CHECK(lab.take(lab.upstream()) == "bc");
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
        lab.send(lab.upstream(), "abc");
        lab.send(lab.upstream(), "dHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        CHECK(lab.take(*asked.client) == "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd");
        CHECK(lab.requests() == 2);
        CHECK_FALSE(lab.previews.port->has_kept());
    }
    SECTION("chunked, with trailers") {
        const Asked asked(lab,
                          "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        CHECK(asked.head.ends_with("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
        lab.send(*asked.client, "0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n");
        CHECK(lab.take(lab.upstream()) == "0\r\nX-Sum: 1\r\n\r\n");
    }
}

TEST_CASE("proxy: 100 Continue is the dev server's to say") {
    ProxyLab lab;
    const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    CHECK(has(asked.head, "Expect: 100-continue\r\n"));
    CHECK(lab.take(*asked.client).empty());
    SECTION("it says so") {
        lab.send(lab.upstream(), "HTTP/1.1 100 Continue\r\n\r\n");
        CHECK(lab.take(*asked.client) == "HTTP/1.1 100 Continue\r\n\r\n");
        lab.send(*asked.client, "abc");
        CHECK(lab.take(lab.upstream()) == "abc");
        lab.send(lab.upstream(), "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
        CHECK(lab.take(*asked.client) == "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    }
    SECTION("it refuses: the body was never asked for, and the connection ends behind the answer") {
        lab.send(lab.upstream(), "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
        CHECK(has(lab.take(*asked.client), "HTTP/1.1 413 Content Too Large\r\n"));
        CHECK(asked.client->input_ended());
    }
}

TEST_CASE("proxy: early hints pass, and a server of nothing else gets no further") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    for (int i = 0; i < 20; ++i)
        lab.send(lab.upstream(), "HTTP/1.1 102 Processing\r\n\r\n");
    CHECK(has(lab.take(*asked.client), "upstream_failed"));
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("proxy: an answer that two readers could understand differently is refused") {
    ProxyLab lab;
    const std::string fields = GENERATE("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                                        "Content-Length: 3\r\nContent-Length: 4\r\n",
                                        "Content-Length: 3, 4\r\n", "Transfer-Encoding: gzip, chunked\r\n",
                                        "Content-Length: +3\r\n", " X-A: folded\r\n", "X-A: b\rX-B: c\r\n",
                                        "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
                                        "chunked\r\n",
                                        "Content-Length : 3\r\n", "Transfer Encoding: chunked\r\n");
    CAPTURE(fields);
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\n" + fields + "\r\nabc");
    const std::string answer = lab.take(*asked.client);
    CHECK(answer.starts_with("HTTP/1.1 502 "));
    CHECK(has(answer, "upstream_failed"));
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("proxy: what breaks off cannot pass for the whole") {
    ProxyLab lab;
    const Asked asked(lab);
    SECTION("in the head") {
        lab.send(lab.upstream(), "HTTP/1.1 200");
        lab.upstream().end_sending();
        CHECK(has(lab.take(*asked.client), "upstream_failed"));
    }
    SECTION("in a body with a length") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
        lab.upstream().end_sending();
        lab.run();
        CHECK(asked.client->was_reset());
    }
    SECTION("in a chunk") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        lab.upstream().end_sending();
        lab.run();
        CHECK(asked.client->was_reset());
    }
    SECTION("in bad chunking") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        lab.send(lab.upstream(), "zzzz\r\n");
        CHECK(asked.client->was_reset());
    }
    SECTION("in bad chunking that comes with its head: nothing of it is sent") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n");
        const std::string answer = lab.take(*asked.client);
        CHECK(answer.starts_with("HTTP/1.1 502 "));
        CHECK_FALSE(has(answer, "200 OK"));
    }
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("proxy: a head without end is refused") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 70 && !lab.upstream().is_closed(); ++i)
        lab.send(lab.upstream(), "X-A: " + std::string(1000, 'a') + "\r\n");
    CHECK(lab.upstream().is_closed());
    CHECK(has(lab.take(*asked.client), "upstream_failed"));
}

TEST_CASE("proxy: an answer that nobody asked for reaches no other request") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nevil");
    CHECK(lab.take(*asked.client) == "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    CHECK_FALSE(lab.previews.port->has_kept());
    lab.send(*asked.client, k_get);
    CHECK(lab.requests() == 2);
    CHECK(lab.previews.port->peers[0] != lab.previews.port->peers[1]);
}

TEST_CASE("proxy: a kept connection that was closed meanwhile is replaced, once, for what may be repeated") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    lab.take(*asked.client);
    REQUIRE(lab.previews.port->has_kept());
    lab.upstream().end_sending();
    SECTION("GET") {
        lab.send(*asked.client, k_get);
        REQUIRE(lab.requests() == 3);
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        CHECK(has(lab.take(*asked.client), "\r\n\r\nok"));
    }
    SECTION("GET, where the request could not even be sent") {
        lab.upstream().refuse_writes();
        lab.send(*asked.client, k_get);
        REQUIRE(lab.requests() == 3);
        CHECK(has(lab.take(lab.upstream()), "GET /a?b=c HTTP/1.1\r\n"));
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        CHECK(has(lab.take(*asked.client), "\r\n\r\nok"));
    }
    SECTION("POST never goes over a kept connection") {
        lab.send(*asked.client, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 0\r\n\r\n");
        CHECK(lab.requests() == 2);
        CHECK(lab.previews.port->peers[0] != lab.previews.port->peers[1]);
        lab.upstream().end_sending();
        CHECK(has(lab.take(*asked.client), "upstream_failed"));
        CHECK(lab.requests() == 2);
    }
}

TEST_CASE("proxy: without a listener the service says so, and the connection goes on") {
    ProxyLab lab;
    lab.previews.port->is_closed = true;
    const auto client = lab.connect();
    lab.send(*client, k_get);
    CHECK(has(lab.take(*client), "sandbox_gone"));
    lab.previews.port->is_closed = false;
    lab.send(*client, k_get);
    CHECK(lab.requests() == 1);
}

TEST_CASE("proxy: who reads slowly holds up only the other end") {
    ProxyLab lab;
    const std::string big(1024UL * 1024, 'x');
    SECTION("a client") {
        const Asked asked(lab);
        asked.client->take_only(0);
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + big);
        CHECK(lab.take(*asked.client).empty());
        asked.client->take_only(100'000'000);
        CHECK(lab.take(*asked.client).size() > big.size());
    }
    SECTION("a dev server that answers before it has read all") {
        const auto client = lab.connect();
        lab.send(*client, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 1048576\r\n\r\n");
        lab.upstream().take_only(10);
        lab.send(*client, big);
        lab.send(lab.upstream(), "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
        CHECK(has(lab.take(*client), "\r\n\r\nno"));
        CHECK(client->input_ended());
    }
}

TEST_CASE("proxy: a dev server that refuses the rest of a request is heard to its end") {
    ProxyLab lab;
    const std::string why(100'000, 'w');
    const auto client = lab.connect();
    lab.send(*client, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 1048576\r\n\r\nabc");
    SECTION("an answer that is whole") {
        // The rest of the body comes before the answer is seen, and meets a reset.
        lab.upstream().refuse_writes();
        client->send(std::string(10'000, 'x'));
        lab.run();
        CHECK_FALSE(lab.upstream().is_closed());
        lab.upstream().send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 100000\r\n\r\n" + why);
        lab.upstream().end_sending();
        CHECK(has(lab.take(*client),
                  "HTTP/1.1 413 Content Too Large\r\nContent-Length: 100000\r\n"
                  "\r\n" +
                      why));
        CHECK(client->input_ended());
        CHECK_FALSE(client->was_reset());
    }
    SECTION("one whose end is that of its connection may be a part") {
        lab.upstream().refuse_writes();
        client->send(std::string(10'000, 'x'));
        lab.run();
        lab.upstream().send("HTTP/1.1 413 Content Too Large\r\n\r\n" + why);
        lab.upstream().end_sending();
        lab.run();
        CHECK(client->was_reset());
    }
    SECTION("none") {
        lab.upstream().refuse_writes();
        client->send(std::string(10'000, 'x'));
        lab.upstream().end_sending();
        CHECK(has(lab.take(*client), "upstream_failed"));
    }
    CHECK(lab.upstream().is_closed());
    CHECK_FALSE(lab.previews.port->has_kept());
}

TEST_CASE("proxy: a slow answer has minutes, one without end no bound, a client that does not read seconds") {
    ProxyLab lab;
    const Asked asked(lab);
    SECTION("no answer") {
        lab.advance(299s);
        CHECK(lab.take(*asked.client).empty());
        lab.advance(2s);
        CHECK(has(lab.take(*asked.client), "deadline_exceeded"));
    }
    SECTION("an event stream") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        lab.advance(1h);
        lab.send(lab.upstream(), "data: x\n\n");
        CHECK(has(lab.take(*asked.client), "data: x\n\n"));
    }
    SECTION("a client that does not read") {
        asked.client->take_only(0);
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        lab.advance(http::WireSettings{}.write_deadline + 1s);
        CHECK(asked.client->was_reset());
        CHECK(lab.upstream().is_closed());
    }
}

TEST_CASE("proxy: an upload has seconds for its next bytes, and no bound once its answer has begun") {
    ProxyLab lab;
    const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    SECTION("no answer") {
        lab.advance(http::WireSettings{}.body_deadline + 1s);
        CHECK(has(lab.take(*asked.client), "request_timeout"));
    }
    SECTION("an answer that comes meanwhile") {
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        CHECK(has(lab.take(*asked.client), "data: 1\n\n"));
        lab.advance(1h);
        lab.send(*asked.client, "3\r\ndef\r\n0\r\n\r\n");
        CHECK(lab.take(lab.upstream()) == "3\r\ndef\r\n0\r\n\r\n");
        lab.send(lab.upstream(), "data: 2\n\n");
        CHECK(has(lab.take(*asked.client), "data: 2\n\n"));
    }
}

TEST_CASE("proxy: a client that leaves ends its request") {
    ProxyLab lab;
    // Also one that has sent more than this request.
    const Asked asked(lab, std::string(k_get) + GENERATE("", "G"));
    lab.send(lab.upstream(), GENERATE("", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"));
    asked.client->end_sending();
    lab.run();
    CHECK(lab.upstream().is_closed());
}

namespace {

const std::string k_upgrade =
    "GET /?token=t HTTP/1.1\r\nHost: p.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Protocol: vite-hmr\r\nOrigin: https://p.example\r\n\r\n";
const std::string k_switched =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: vite-hmr\r\n"
    "Connection: Upgrade\r\n\r\n";

}  // namespace

TEST_CASE("proxy: a WebSocket is a tunnel, from its first bytes until both sides have ended") {
    ProxyLab lab;
    const Asked asked(lab, k_upgrade + "early");
    CHECK(has(asked.head, "GET /?token=t HTTP/1.1\r\nHost: localhost:5173\r\n"));
    CHECK(has(asked.head, "Sec-WebSocket-Protocol: vite-hmr\r\nOrigin: http://localhost:5173\r\n"));
    CHECK(asked.head.ends_with("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
    lab.send(lab.upstream(), k_switched + "hello");
    CHECK(lab.take(*asked.client) ==
          "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Protocol: vite-hmr\r\nConnection: Upgrade\r\n"
          "Upgrade: websocket\r\n\r\nhello");
    CHECK(lab.take(lab.upstream()) == "early");
    SECTION("idle for as long as it likes, each end half-closed by itself") {
        lab.advance(10h);
        lab.send(*asked.client, "up");
        CHECK(lab.take(lab.upstream()) == "up");
        asked.client->end_sending();
        lab.run();
        CHECK(lab.upstream().input_ended());
        CHECK_FALSE(lab.upstream().is_closed());
        lab.send(lab.upstream(), "down");
        CHECK(lab.take(*asked.client) == "down");
        lab.upstream().end_sending();
        lab.run();
        CHECK(asked.client->is_closed());
        CHECK(lab.upstream().is_closed());
    }
    SECTION("while one side goes on after the end of the other, and not much longer") {
        asked.client->end_sending();
        for (int i = 0; i < 10; ++i) {
            lab.advance(base::k_relay_stuck_time - 1s);
            lab.send(lab.upstream(), "down");
            CHECK(lab.take(*asked.client) == "down");
        }
        lab.advance(base::k_relay_stuck_time + 1s);
        CHECK(asked.client->is_closed());
        CHECK(lab.upstream().is_closed());
    }
    SECTION("not for a side that takes nothing") {
        lab.upstream().take_only(0);
        lab.send(*asked.client, "up");
        lab.advance(base::k_relay_stuck_time + 1s);
        CHECK(asked.client->is_closed());
        CHECK(lab.upstream().is_closed());
    }
    SECTION("its last words come, though it takes nothing more") {
        lab.upstream().refuse_writes();
        lab.send(*asked.client, "up");
        CHECK_FALSE(lab.upstream().is_closed());
        lab.send(lab.upstream(), "bye");
        lab.upstream().end_sending();
        CHECK(lab.take(*asked.client) == "bye");
        CHECK(asked.client->is_closed());
        CHECK(lab.upstream().is_closed());
    }
    SECTION("not beyond the end of the server") {
        lab.stop();
        CHECK(asked.client->is_closed());
        CHECK(lab.upstream().is_closed());
    }
    SECTION("a reader that stands still stops the writer, and loses nothing") {
        lab.upstream().take_only(0);
        const std::string big(1024UL * 1024, 'x');
        lab.send(*asked.client, big);
        lab.send(lab.upstream(), "down");
        CHECK(lab.take(*asked.client) == "down");
        lab.upstream().take_only(100'000'000);
        CHECK(lab.take(lab.upstream()) == big);
    }
}

TEST_CASE("proxy: a protocol that nobody asked for is no tunnel") {
    ProxyLab lab;
    const Asked asked(lab,
                      GENERATE("GET / HTTP/1.1\r\nHost: p\r\n\r\n",
                               "GET / HTTP/1.1\r\nHost: p\r\nUpgrade: websocket\r\n\r\n",
                               "GET / HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"));
    CHECK_FALSE(has(asked.head, "Upgrade"));
    lab.send(lab.upstream(), k_switched);
    CHECK(has(lab.take(*asked.client), "upstream_failed"));
}

TEST_CASE("proxy: a WebSocket that the dev server refuses is an answer like any other") {
    ProxyLab lab;
    const Asked asked(lab, k_upgrade);
    lab.send(lab.upstream(), "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    CHECK(has(lab.take(*asked.client), "HTTP/1.1 400 Bad Request\r\n"));
    lab.send(*asked.client, k_get);
    CHECK(lab.requests() == 2);
}

}  // namespace proxy_exchange_test
