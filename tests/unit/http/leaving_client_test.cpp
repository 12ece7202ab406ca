// A handler that waits for what nobody needs once the client has left.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/fake_server.hpp"

namespace leaving_client_test {

using namespace atl;
using namespace atl::test;

namespace {

/// The wait of a handler, and the outcome of the wait.
struct Wait {
    bool is_done = false;
    std::function<void()> wake;
    std::string end;  // of the wait: "done", or the word of its error
};

base::Task<base::Result<http::Response>> async_wait(Wait& wait, http::RequestContext& context) {
    wait.wake = context.waker();
    const std::function<bool()> is_done = [&wait] { return wait.is_done; };
    const auto waited = co_await context.async_until(is_done);
    wait.end = waited.has_error() ? std::string(base::code_name(waited.error().code())) : "done";
    if (waited.has_error())
        co_return waited.error();
    co_return http::json_response("{}");
}

std::vector<http::Route> route_of(Wait& wait) {
    std::vector<http::Route> routes;
    routes.push_back({http::Method::get, "/wait", "wait", "",
                      [&wait](http::RequestContext& context) { return async_wait(wait, context); }});
    return routes;
}

const std::string k_request = "GET /wait HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n\r\n";

}  // namespace

TEST_CASE("A handler that waits goes on when its condition holds, and keeps what came meanwhile") {
    Wait wait;
    FakeServer server({}, route_of(wait));
    const auto peer = server.connect();
    peer->send(k_request);
    CHECK(server.take(*peer).empty());
    wait.wake();
    peer->send(k_request);
    server.run();
    CHECK(wait.end.empty());
    wait.is_done = true;
    wait.wake();
    // The second request was read while the first one waited.
    CHECK(server.take(*peer).find("HTTP/1.1 200", 10) != std::string::npos);
    CHECK(wait.end == "done");
}

TEST_CASE("A handler that waits learns that its client has left") {
    Wait wait;
    FakeServer server({}, route_of(wait));
    const auto peer = server.connect();
    peer->send(k_request);
    server.run();
    REQUIRE(wait.end.empty());
    peer->end_sending();
    server.run();
    CHECK(wait.end == "request_timeout");
    // A wake behind the end does nothing.
    wait.wake();
    server.run();
}

TEST_CASE("A handler that waits ends with the server") {
    Wait wait;
    {
        FakeServer server({}, route_of(wait));
        const auto peer = server.connect();
        peer->send(k_request);
        server.run();
        REQUIRE(wait.end.empty());
    }
    CHECK(wait.end == "shutting_down");
}

}  // namespace leaving_client_test
