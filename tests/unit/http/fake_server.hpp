// A server without sockets and in time that stands still: sessions over connections in memory, driven by
// hand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/task_group.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/server/gate.hpp"
#include "http/server/session.hpp"
#include "http/wire/json_reader.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"
#include "tests/unit/http/test_server.hpp"

namespace atl::test {

/// Status and code of the one response in `text`, a problem: "408 request_timeout". Empty text stays empty.
inline std::string problem_in(const std::string& text) {
    if (text.empty())
        return text;
    const auto body = text.find("\r\n\r\n");
    REQUIRE(body != std::string::npos);
    REQUIRE(text.starts_with("HTTP/1.1 "));
    return text.substr(9, 3) + ' ' +
           http::parse_json(text.substr(body + 4)).value()["code"].get<std::string>();
}

class FakeServer {
  public:
    /// The objects that `routes` refer to must outlive the server.
    FakeServer(const TestSettings& settings, std::vector<http::Route> routes)
        : gate_(settings, http::Router(std::move(routes)), authenticator_),
          services_(gate_),
          state_(clock_, timers_, settings) {}
    ~FakeServer() {
        for (http::Session* session : sessions_)
            session->abort();
        run();
    }
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    /// A new connection.
    std::shared_ptr<FakePeer> connect() {
        auto peer = std::make_shared<FakePeer>(loop_.get_executor());
        auto stream = std::make_unique<FakeStream>(peer);
        auto connection =
            std::make_shared<http::Connection>(std::move(stream), clock_, timers_, state_.settings);
        tasks_.spawn(async_serve(*this, std::make_shared<http::Session>(
                                            state_, services_, std::move(connection), http::PeerAddress{},
                                            http::ListenerScope::loopback, http::CountLimiter::Lease())));
        run();
        return peer;
    }
    /// Does all that can be done without time.
    void run() {
        loop_.restart();
        loop_.poll();
    }
    /// Lets time pass; each timer fires at its time.
    void advance(base::Millis by) {
        run();
        timers_.advance(by, [this] { run(); });
    }
    /// Does all that can be done now, then returns the bytes that the peer got.
    std::string take(FakePeer& peer) {
        run();
        return peer.take();
    }
    std::size_t connections() const { return sessions_.size(); }
    /// A token for a conversation; it expires by the server's clock.
    std::string token_for(const std::string& id, std::chrono::seconds ttl,
                          http::Scope scope = http::Scope::chat) const {
        return tokens_.issue(id, scope, ttl).token;
    }
    base::SteadyTime now() const { return clock_.steady_now(); }
    /// Sets the wall clock; no time passes.
    void set_wall_clock(base::Millis ahead) { clock_.jump_wall(ahead); }
    const http::BodyBudget& bodies() const { return state_.bodies; }

  private:
    static base::Task<> async_serve(FakeServer& self, std::shared_ptr<http::Session> session) {
        self.sessions_.insert(session.get());
        co_await session->async_run();
        self.sessions_.erase(session.get());
    }

    boost::asio::io_context loop_{1};
    FakeClock clock_;
    FakeTimers timers_{clock_};
    http::StreamTokens tokens_{std::string(60, 'k'), clock_};
    http::KeyAuthenticator authenticator_{k_test_key, nullptr, &tokens_};
    http::Gate gate_;
    http::Services services_;
    http::ServerState state_;
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::unordered_set<http::Session*> sessions_;
};

}  // namespace atl::test
