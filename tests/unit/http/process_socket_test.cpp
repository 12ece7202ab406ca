// A process on a WebSocket, over an operation that the test plays.
#include "http/api/process_socket.hpp"

#include <catch2/catch_test_macros.hpp>

#include "http/websocket/handshake.hpp"
#include "tests/unit/http/fake_websocket.hpp"
#include "tests/unit/http/played_process.hpp"

namespace process_socket_test {

using namespace atl;
using namespace atl::test;
using base::Errc;

namespace {

/// The sandbox of the process, and the route to it.
class Shell {
  public:
    std::vector<http::Route> routes() {
        std::vector<http::Route> all;
        all.push_back({http::Method::get, "/ws", "ws", "",
                       [this](auto& context) { return async_open(*this, context); }});
        return all;
    }

    PlayedProcess play;
    FakeClock lease_clock;
    FakeTimers lease_timers{lease_clock};
    conversation::LeaseTable book{lease_timers, [](conversation::LeaseUse) {}};

  private:
    std::unique_ptr<conversation::Lease> lease() {
        std::unique_ptr<conversation::Lease> held;
        book.add("sandbox", conversation::LeaseUse::process,
                 [&held](auto reply) { held = std::move(*reply); });
        book.grant();
        while (lease_timers.run_deferred()) {
        }
        return held;
    }
    static base::Task<base::Result<http::Response>> async_open(Shell& self, http::RequestContext& context) {
        http::ProcessSocket::Calls calls{[] {}, {}};
        auto socket = std::make_unique<http::ProcessSocket>(self.lease(), http::StreamLease(),
                                                            std::move(calls), base::SteadyTime::max());
        socket->attach(self.play, "a", 0, [] {});
        self.play.observer->on_started(7);
        self.play.observer->on_position(0, sandbox::StreamKind::pipes);
        co_return http::accept_handshake(context.request, std::move(socket));
    }
};

class ShellServer final : public Shell, public FakeServer {
  public:
    explicit ShellServer(const TestSettings& settings = {}) : FakeServer(settings, routes()) {}

    FakeWebSocket open() {
        FakeWebSocket client(*this);
        REQUIRE(Json::parse(client.next()->payload)["type"] == "started");
        return client;
    }
};

ClientFrame input_of(std::size_t bytes) {
    return {.first = 0x82, .payload = std::string(1, '\0') + std::string(bytes, 'x')};
}

}  // namespace

TEST_CASE("Input that a process does not take keeps its place in the budget of bodies") {
    TestSettings settings;
    settings.body_budget_bytes = 100'000;
    ShellServer server(settings);
    auto first = server.open();
    server.play.room = 10'000;
    first.send(input_of(90'000));
    CHECK(server.play.input.size() == 10'000);
    CHECK(server.bodies().used_bytes() == 90'001);
    auto* const of_first = server.play.observer;
    auto second = server.open();
    second.send(input_of(50'000));
    CHECK(server.bodies().waiting() == 1);
    // Short messages never wait.
    server.play.room = 5;
    auto third = server.open();
    third.send(input_of(5));
    CHECK(server.play.input.size() == 10'005);
    server.play.room = SIZE_MAX;
    of_first->on_input_room();
    server.run();
    CHECK(server.play.input.size() == 90'000 + 50'000 + 5);
    CHECK(server.bodies().used_bytes() == 0);
}

TEST_CASE("A client that leaves gives back the place of its input") {
    TestSettings settings;
    settings.body_budget_bytes = 100'000;
    ShellServer server(settings);
    auto client = server.open();
    server.play.room = 0;
    client.send(input_of(90'000));
    REQUIRE(server.bodies().used_bytes() == 90'001);
    SECTION("it closes its connection") {
        client.peer().end_sending();
        server.run();
    }
    SECTION("the process ends") {
        server.play.observer->on_exit({0, 0, false});
        server.run();
        CHECK(Json::parse(client.next()->payload)["type"] == "exit");
        CHECK(client.next()->close_code() == 1000);
    }
    CHECK(server.bodies().used_bytes() == 0);
}

TEST_CASE("A WebSocket says what ended the sandbox, also where the connection to it broke first") {
    ShellServer server;
    auto client = server.open();
    server.play.observer->on_failed(base::Error(Errc::bridge_failed, "the guest is gone"));
    server.run();
    CHECK_FALSE(client.next().has_value());
    SECTION("the cause comes") {
        server.book.end(conversation::action::LeaseScope::all,
                        base::Error(Errc::sandbox_gone, "out of memory"));
        while (server.lease_timers.run_deferred()) {
        }
        const auto end = client.next();
        REQUIRE(end.has_value());
        CHECK(Json::parse(end->close_reason())["code"] == "sandbox_gone");
    }
    SECTION("no cause comes") {
        server.advance(base::k_end_cause_wait);
        const auto end = client.next();
        REQUIRE(end.has_value());
        CHECK(Json::parse(end->close_reason())["code"] == "bridge_failed");
    }
}

}  // namespace process_socket_test
