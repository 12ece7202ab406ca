// Listeners that are handed to the server, as those inside sandboxes are.
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "tests/unit/http/test_server.hpp"

namespace inner_listener_test {

using namespace atl;
using namespace atl::test;

namespace {

class InnerServer final : public ServerThread, public TestRoutes {
  public:
    explicit InnerServer(TestSettings settings = {}) {
        base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), size) == 0);
        REQUIRE(::listen(fd.get(), 8) == 0);
        REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size) == 0);
        inner = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
        start(std::move(settings), http::Router(routes()), "127.0.0.1:0");
        on_loop([&] {
            services_ = std::make_shared<const http::Services>(gate());
            http::InnerAccess access;
            access.pause = [this] { return std::exchange(pause_, base::Millis(0)); };
            access.enter = [this]() -> base::Result<std::shared_ptr<const void>> {
                if (counted_ == most_)
                    return base::Error(base::Errc::capacity, "It is full.");
                ++counted_;
                return std::shared_ptr<const void>(this, [this](const void*) { --counted_; });
            };
            server().open_inner(std::move(fd), services_, std::move(access));
        });
    }
    ~InnerServer() { finish(); }
    HttpClient inner_client() { return HttpClient(inner, {{"X-API-Key", k_test_key}}); }
    /// Waits for it.
    bool has_counted(std::size_t count) {
        return eventually([&] { return counted_ == count; });
    }
    void close() {
        on_loop([&] { server().close_inner(*services_); });
    }

    /// From now on so many may enter, and the next one has to wait.
    void bound(std::size_t most, base::Millis pause) {
        on_loop([&] {
            most_ = most;
            pause_ = pause;
        });
    }
    bool has_paused() {
        return eventually([&] { return pause_ == base::Millis(0); });
    }

    std::string inner;

  private:
    std::shared_ptr<const http::Services> services_;
    std::size_t counted_ = 0;
    std::size_t most_ = 100;
    base::Millis pause_{0};
};

}  // namespace

TEST_CASE("A listener that is handed over is served, and what it accepts is counted") {
    InnerServer server;
    HttpClient outside = server.client();
    CHECK(outside.request("GET", "/hello").status == 200);
    CHECK(server.has_counted(0));
    {
        HttpClient inside = server.inner_client();
        CHECK(inside.request("GET", "/hello").status == 200);
        CHECK(server.has_counted(1));
        server.close();
        // Its connections end, others stay.
        CHECK(server.eventually([&] { return server.connections_now() == 1; }));
        CHECK(server.has_counted(0));
        CHECK_THROWS(server.inner_client().request("GET", "/hello"));
    }
    CHECK(outside.request("GET", "/hello").status == 200);
}

TEST_CASE("A connection from inside a sandbox counts twice, since its upstream is one, too") {
    TestSettings settings;
    settings.max_connections = 4;
    InnerServer server(std::move(settings));
    HttpClient inside = server.inner_client();
    CHECK(inside.request("GET", "/hello").status == 200);
    HttpClient outside = server.client();
    CHECK(outside.request("GET", "/hello").status == 200);
    auto second = server.inner_client();
    second.connect();
    CHECK(second.read_response().status == 503);
    CHECK(server.client().request("GET", "/hello").status == 200);
}

TEST_CASE("A connection that may not enter is refused, and one that has to wait is served later") {
    InnerServer server;
    server.bound(1, base::Millis(1));
    HttpClient inside = server.inner_client();
    CHECK(inside.request("GET", "/hello").status == 200);
    CHECK(server.has_paused());
    auto second = server.inner_client();
    second.connect();
    CHECK(second.read_response().status == 503);
    CHECK(server.client().request("GET", "/hello").status == 200);
}

}  // namespace inner_listener_test
