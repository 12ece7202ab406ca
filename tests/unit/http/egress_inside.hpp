// Programs inside a sandbox, played by a test: sessions of the sandbox's proxy, without sockets and in time
// that stands still.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/base/task_group.hpp"
#include "http/egress/egress_door.hpp"
#include "http/server/session.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace atl::test {

class EgressInside {
  public:
    EgressInside(const EgressInside&) = delete;
    EgressInside& operator=(const EgressInside&) = delete;

    /// Runs all that can be run now.
    void run() {
        do {
            loop_.restart();
            loop_.poll();
        } while (timers_.run_deferred());
    }
    void send(FakePeer& peer, std::string_view bytes) {
        peer.send(bytes);
        run();
    }
    std::string take(FakePeer& peer) {
        run();
        return peer.take();
    }
    void advance(base::Millis by) {
        run();
        timers_.advance(by, [this] { run(); });
    }

  protected:
    EgressInside() = default;
    ~EgressInside() = default;

    /// A program inside that has sent this.
    std::shared_ptr<FakePeer> connect_to(http::EgressDoor& door, std::string_view bytes) {
        auto peer = std::make_shared<FakePeer>(loop_.get_executor());
        auto connection = std::make_shared<http::Connection>(std::make_unique<FakeStream>(peer), clock_,
                                                             timers_, state_.settings);
        sessions_.push_back(std::make_shared<http::Session>(
            state_, *door.services(), std::move(connection), http::PeerAddress{},
            http::ListenerScope::loopback, http::CountLimiter::Lease()));
        tasks_.spawn(async_serve(sessions_.back()));
        run();
        send(*peer, bytes);
        return peer;
    }
    /// To be called while what the sessions use is there.
    void end_sessions() {
        for (const auto& session : sessions_)
            session->abort();
        run();
        sessions_.clear();
    }

    // Handlers that wait in the loop may use the timers, so the loop is destroyed first.
    FakeClock clock_;
    FakeTimers timers_{clock_};
    boost::asio::io_context loop_{1};

  private:
    static base::Task<> async_serve(std::shared_ptr<http::Session> session) { co_await session->async_run(); }

    http::ServerState state_{clock_, timers_, http::Settings{}};
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::vector<std::shared_ptr<http::Session>> sessions_;
};

}  // namespace atl::test
