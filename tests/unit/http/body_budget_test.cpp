// Long bodies share one budget: a body with a place is read on, other long bodies wait, short bodies never
// wait.
#include "http/wire/body_budget.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"
#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/test_server.hpp"

namespace body_budget_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t k_budget = 100'000;
constexpr std::size_t k_long = 90'000;

TestSettings small_budget() {
    TestSettings settings;
    settings.body_budget_bytes = k_budget;
    return settings;
}

std::string head(const std::string& request_line, const std::string& fields) {
    return request_line + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n" + fields + "\r\n";
}

std::string post_of(std::size_t length) {
    return head("POST /echo", "Content-Length: " + std::to_string(length) + "\r\n");
}

struct Watched {
    explicit Watched(TestServer& server) : server_(server) {}
    bool becomes(std::size_t used, std::size_t waiting) {
        return server_.eventually([&] {
            const auto& bodies = server_.bodies_now();
            return bodies.used_bytes() == used && bodies.waiting() == waiting;
        });
    }

  private:
    TestServer& server_;
};

/// A handler that waits without its body.
struct Waiter {
    std::vector<http::Route> routes() {
        http::Route route;
        route.method = http::Method::post;
        route.pattern = "/wait";
        route.name = "wait";
        route.body = http::BodyKind::json;
        route.handler = [this](http::RequestContext& context) { return async_wait(*this, context); };
        std::vector<http::Route> out;
        out.push_back(std::move(route));
        return out;
    }
    static base::Task<base::Result<http::Response>> async_wait(Waiter& waiter,
                                                               http::RequestContext& context) {
        waiter.read_bytes = context.request.body.size();
        context.drop_body();
        waiter.left_bytes = context.request.body.capacity();
        waiter.wake = context.waker();
        const std::function<bool()> is_done = [&waiter] { return waiter.is_done; };
        const auto waited = co_await context.async_until(is_done);
        if (waited.has_error())
            co_return waited.error();
        co_return http::json_response("{}");
    }

    bool is_done = false;
    std::function<void()> wake;
    std::size_t read_bytes = 0;
    std::size_t left_bytes = 0;
};

}  // namespace

TEST_CASE("Places in the budget are given in the order in which they were asked for") {
    boost::asio::io_context io;
    const auto wake = std::make_shared<http::WakeEvent>(io.get_executor());
    base::Budget bodies({"bodies", "bytes", "", 100}, 100);
    http::BodyBudget budget(bodies);
    const base::ShareHolder ann = base::ShareHolder::user("ann");
    http::BodyBudget::Place first, second, third, fourth;
    CHECK(first.ask(budget, ann, 60, wake).has_value());
    CHECK(first.is_held());
    CHECK(second.ask(budget, ann, 60, wake).has_value());
    CHECK(second.is_waiting());
    // There is room for it, but a stream of short ones would keep the long one waiting for ever.
    CHECK(third.ask(budget, ann, 10, wake).has_value());
    CHECK(third.is_waiting());
    CHECK(fourth.ask(budget, ann, 1000, wake).has_value());
    CHECK(budget.used_bytes() == 60);
    CHECK(budget.waiting() == 3);
    CHECK(first.ask(budget, ann, 40, wake).has_value());
    CHECK(budget.used_bytes() == 60);
    SECTION("when one is given back") {
        first.release();
        CHECK(second.is_held());
        CHECK(third.is_held());
        CHECK(budget.used_bytes() == 70);
        CHECK(fourth.is_waiting());
        second.release();
        CHECK(fourth.is_waiting());
        // A request for more than the whole budget takes the whole budget.
        third.release();
        CHECK(fourth.is_held());
        CHECK(budget.used_bytes() == 100);
    }
    SECTION("when one that waits gives up") {
        second.release();
        CHECK(third.is_held());
        CHECK(budget.used_bytes() == 70);
    }
}

TEST_CASE("A user has a share of the budget: what is beyond it is refused, and others are served") {
    boost::asio::io_context io;
    const auto wake = std::make_shared<http::WakeEvent>(io.get_executor());
    base::Budget bodies({"bodies", "bytes", "", 100}, 50);
    http::BodyBudget budget(bodies);
    const base::ShareHolder ann = base::ShareHolder::user("ann");
    const base::ShareHolder bob = base::ShareHolder::user("bob");
    http::BodyBudget::Place first, second, third, fourth;
    CHECK(first.ask(budget, ann, 50, wake).has_value());
    CHECK(second.ask(budget, ann, 1, wake).error().code() == base::Errc::user_share);
    CHECK(third.ask(budget, bob, 25, wake).has_value());
    CHECK(third.is_held());
    // All of what is left would be too much for anybody: that waits.
    CHECK(fourth.ask(budget, base::ShareHolder::user("cy"), 26, wake).has_value());
    CHECK(fourth.is_waiting());
    first.release();
    CHECK(fourth.is_held());
    CHECK(budget.used_bytes() == 51);
}

TEST_CASE("A long body waits until there is memory for all of it; short ones and other requests do not") {
    TestServer server(small_budget());
    Watched budget(server);
    auto first = server.client();
    first.send_raw(post_of(k_long) + std::string(k_long / 2, 'a'));
    REQUIRE(budget.becomes(k_long, 0));
    auto second = server.client();
    second.send_raw(post_of(k_long) + std::string(k_long, 'b'));
    auto chunked = server.client();
    chunked.send_raw(head("POST /echo", "Transfer-Encoding: chunked\r\n") + "9c40\r\n" +
                     std::string(40'000, 'c') + "\r\n0\r\n\r\n");
    REQUIRE(budget.becomes(k_long, 2));

    auto small = server.client();
    const std::string short_body(base::k_free_body_bytes - 100, 's');
    for (int i = 0; i < 3; ++i) {
        CHECK(small.request("POST", "/echo", short_body).body.size() == short_body.size() + 2);
        CHECK(small.request("GET", "/hello").status == 200);
    }
    CHECK(budget.becomes(k_long, 2));

    first.send_raw(std::string(k_long / 2, 'a'));
    CHECK(first.read_response().body.size() == k_long + 2);
    CHECK(second.read_response().body.size() == k_long + 2);
    CHECK(chunked.read_response().body.size() == 40'002);
    CHECK(budget.becomes(0, 0));
}

TEST_CASE("A body gives its memory back with its connection, and before a response that goes on") {
    TestServer server(small_budget());
    Watched budget(server);
    {
        auto gone = server.client();
        gone.send_raw(post_of(k_long) + std::string(k_long / 2, 'a'));
        REQUIRE(budget.becomes(k_long, 0));
    }
    CHECK(budget.becomes(0, 0));
    auto reader = server.client();
    reader.send_raw(head("GET /stream", "Content-Length: " + std::to_string(k_long) + "\r\n") +
                    std::string(k_long, 'a'));
    REQUIRE(server.eventually([&] { return server.feed.wake != nullptr; }));
    CHECK(budget.becomes(0, 0));
    server.push("x", TestServer::Piece::last);
    CHECK(reader.read_response().status == 200);
}

TEST_CASE("A handler that drops its body before it waits holds no memory of other long bodies") {
    Waiter waiter;
    FakeServer server(small_budget(), waiter.routes());
    const std::string request =
        head("POST /wait", "Content-Length: " + std::to_string(k_long) + "\r\n") + std::string(k_long, 'a');
    const auto first = server.connect();
    first->send(request.substr(0, request.size() - 1));
    server.run();
    CHECK(server.bodies().used_bytes() == k_long);
    first->send("a");
    server.run();
    CHECK(waiter.read_bytes == k_long);
    CHECK(waiter.left_bytes < 100);
    CHECK(server.bodies().used_bytes() == 0);
    CHECK(server.take(*first).empty());
    // The next request of the connection has a place of its own.
    first->send(request.substr(0, request.size() - 1));
    waiter.is_done = true;
    waiter.wake();
    CHECK(server.take(*first).starts_with("HTTP/1.1 200 "));
    CHECK(server.bodies().used_bytes() == k_long);
}

TEST_CASE("A wait for memory has a deadline, and the body behind it one of its own") {
    TestRoutes routes;
    FakeServer server(small_budget(), routes.routes());
    // It has its place until its handler has answered.
    const auto first = server.connect();
    first->send(head("GET /slow", "Content-Length: " + std::to_string(k_long) + "\r\n") +
                std::string(k_long, 'a'));
    const auto second = server.connect();
    second->send(post_of(k_long) + std::string(k_long / 2, 'a'));
    server.advance(base::k_body_deadline - 1ms);
    REQUIRE(routes.reply != nullptr);
    CHECK(server.bodies().used_bytes() == k_long);
    CHECK(server.bodies().waiting() == 1);
    server.advance(1ms);
    const auto refused = server.take(*second);
    CHECK(problem_in(refused) == "503 capacity");
    CHECK(refused.find("\r\nRetry-After: ") != std::string::npos);
    CHECK(server.bodies().waiting() == 0);
    const auto third = server.connect();
    third->send(post_of(k_long) + std::string(k_long / 2, 'a'));
    server.advance(base::k_body_deadline - 1ms);
    CHECK(server.bodies().waiting() == 1);
    std::exchange(routes.reply, nullptr)(std::string("1"));
    CHECK(server.take(*first).starts_with("HTTP/1.1 200 "));
    server.advance(base::k_body_deadline - 1ms);
    CHECK(server.take(*third).empty());
    server.advance(1ms);
    CHECK(problem_in(server.take(*third)) == "408 request_timeout");
    CHECK(server.bodies().used_bytes() == 0);
}

TEST_CASE("What is read ahead of a request that is not served yet is bounded") {
    TestServer server(small_budget());
    auto client = server.client();
    client.send_raw(head("GET /slow", ""));
    REQUIRE(server.eventually([&] { return server.reply != nullptr; }));
    // More than the kernel's buffers of both ends hold: it is not all taken, as long as nothing goes on.
    constexpr std::size_t k_flood_bytes = 64UL * 1024 * 1024;
    constexpr int k_quiet_ms = 1000;
    const std::string piece(64UL * 1024, 'x');
    std::size_t sent = 0;
    pollfd room{client.fd(), POLLOUT, 0};
    while (sent < k_flood_bytes && ::poll(&room, 1, k_quiet_ms) == 1) {
        const ssize_t count = ::send(client.fd(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        REQUIRE(count > 0);
        sent += static_cast<std::size_t>(count);
    }
    CHECK(sent > 0);
    CHECK(sent < k_flood_bytes);
}

}  // namespace body_budget_test
