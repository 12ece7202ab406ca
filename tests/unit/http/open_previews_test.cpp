// Requests that are under way when their sandbox stops, or when its settings change.
#include "http/proxy/open_previews.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/proxy_lab.hpp"

namespace open_previews_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr auto k_sandbox = FakePreviews::k_sandbox;

void stop(ProxyLab& lab, const std::string& sandbox = k_sandbox) {
    lab.previews.open.refuse_waiting(sandbox, base::Error(base::Errc::paused));
    lab.run();
}

}  // namespace

TEST_CASE("open previews: a request without an answer is refused at once, and its connection inside closed") {
    ProxyLab lab;
    const Asked asked(lab);
    CHECK(lab.previews.open.is_awaited(k_sandbox));
    stop(lab, "another");
    CHECK(lab.take(*asked.client).empty());
    CHECK(lab.previews.open.contains(k_sandbox));
    stop(lab);
    const std::string answer = lab.take(*asked.client);
    CHECK(answer.starts_with("HTTP/1.1 502 "));
    CHECK(answer.ends_with("\r\n\r\n" + std::string(base::code_name(base::Errc::paused))));
    CHECK(lab.upstream().is_closed());
    CHECK_FALSE(lab.previews.open.contains(k_sandbox));
    CHECK_FALSE(lab.previews.open.is_awaited(k_sandbox));
}

TEST_CASE("open previews: what an interim answer or half a head came for is still without an answer") {
    ProxyLab lab;
    const Asked asked(lab);
    lab.send(lab.upstream(), "HTTP/1.1 102 Processing\r\n\r\n");
    CHECK(lab.take(*asked.client).starts_with("HTTP/1.1 102 "));
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Le");
    CHECK(lab.previews.open.is_awaited(k_sandbox));
    stop(lab);
    CHECK(lab.take(*asked.client).starts_with("HTTP/1.1 502 "));
}

TEST_CASE("open previews: a request whose body is still on its way is refused, too") {
    ProxyLab lab;
    const Asked asked(lab, "POST / HTTP/1.1\r\nHost: p.example\r\nContent-Length: 9\r\n\r\nhalf");
    stop(lab);
    CHECK(lab.take(*asked.client).starts_with("HTTP/1.1 502 "));
    CHECK(lab.upstream().is_closed());
}

TEST_CASE("open previews: an answer that has begun, and a tunnel, go on") {
    ProxyLab lab;
    SECTION("an answer") {
        const Asked asked(lab);
        lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        CHECK_FALSE(lab.previews.open.is_awaited(k_sandbox));
        stop(lab);
        lab.send(lab.upstream(), "cd");
        CHECK(lab.take(*asked.client).ends_with("\r\n\r\nabcd"));
    }
    SECTION("a tunnel") {
        const Asked asked(
            lab, "GET / HTTP/1.1\r\nHost: p.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        lab.send(lab.upstream(),
                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        (void)lab.take(*asked.client);
        stop(lab);
        lab.send(lab.upstream(), "hello");
        CHECK(lab.take(*asked.client) == "hello");
    }
}

TEST_CASE("open previews: who only looks is awaited by nobody") {
    ProxyLab lab;
    const Asked asked(lab, "HEAD / HTTP/1.1\r\nHost: p.example\r\n\r\n");
    CHECK(lab.previews.open.contains(k_sandbox));
    CHECK_FALSE(lab.previews.open.is_awaited(k_sandbox));
}

}  // namespace open_previews_test
