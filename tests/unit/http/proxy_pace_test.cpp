// The pace that a client of a preview has to keep where connections are scarce.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/proxy_lab.hpp"

namespace proxy_pace_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

TEST_CASE("proxy: where connections are scarce a client that is waited for has a least pace") {
    ProxyLab lab;
    lab.previews.port->crowded = true;
    SECTION("an upload") {
        const Asked asked(lab,
                          "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        lab.advance(5s);
        lab.send(*asked.client, "1\r\nx\r\n");
        lab.advance(4s);
        CHECK(lab.take(*asked.client).empty());
        lab.advance(1s);
        CHECK(has(lab.take(*asked.client), "request_timeout"));
        CHECK(lab.upstream().is_closed());
    }
    SECTION("an upload that keeps it, and time that the dev server takes") {
        const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nContent-Length: 60000\r\n\r\n");
        for (int i = 0; i < 5; ++i) {
            lab.send(*asked.client, std::string(12'000, 'x'));
            lab.advance(9s);
        }
        lab.advance(200s);
        CHECK(lab.take(*asked.client).empty());
        lab.send(lab.upstream(), "HTTP/1.1 204 No Content\r\n\r\n");
        CHECK(has(lab.take(*asked.client), "204"));
    }
    SECTION("a client that reads a few bytes now and then") {
        const Asked asked(lab);
        asked.client->take_only(0);
        lab.send(lab.upstream(),
                 "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + std::string(64UL * 1024, 'x'));
        lab.advance(5s);
        asked.client->take_only(100);
        lab.advance(4s);
        CHECK_FALSE(asked.client->was_reset());
        lab.advance(1s);
        CHECK(asked.client->was_reset());
    }
}

TEST_CASE("proxy: where connections are left an upload may be slow") {
    ProxyLab lab;
    const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    for (int i = 0; i < 20; ++i) {
        lab.advance(5s);
        lab.send(*asked.client, "1\r\nx\r\n");
    }
    CHECK(lab.take(*asked.client).empty());
    // From then on it is not.
    lab.previews.port->crowded = true;
    lab.advance(11s);
    CHECK(has(lab.take(*asked.client), "request_timeout"));
}

}  // namespace proxy_pace_test
