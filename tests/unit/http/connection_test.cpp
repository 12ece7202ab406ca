#include "http/wire/connection.hpp"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <memory>
#include <optional>

#include "core/base/unique_fd.hpp"
#include "tests/support/fake_world.hpp"

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;
using http::Io;

namespace {

// A connection whose peer is silent, and a coroutine that waits on it.
struct Lab {
    FakeClock clock;
    FakeTimers timers{clock};
    boost::asio::io_context loop;
    http::WireSettings settings;
    base::UniqueFd peer;
    std::shared_ptr<http::Connection> connection;
    std::optional<Io> outcome;

    Lab() {
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
        peer = base::UniqueFd(ends[0]);
        http::Socket socket(loop.get_executor(), {AF_UNIX, 0}, ends[1]);
        connection = std::make_shared<http::Connection>(std::move(socket), clock, timers, settings);
    }
    ~Lab() {
        connection->abort();
        loop.poll();
    }

    void begin_wait() {
        outcome.reset();
        boost::asio::co_spawn(loop, async_wait(*this), [](const std::exception_ptr& failure) {
            if (failure)
                std::rethrow_exception(failure);
        });
        advance(0ms);
    }
    void advance(base::Millis by) {
        timers.advance(by);
        loop.restart();
        loop.poll();
    }

  private:
    static base::Task<> async_wait(Lab& lab) {
        for (;;) {
            const Io io = co_await lab.connection->async_pause();
            if (io == Io::ok)
                continue;
            lab.outcome = io;
            co_return;
        }
    }
};

}  // namespace

TEST_CASE("a deadline ends a wait once, and not early") {
    Lab lab;
    lab.connection->set_deadline(100ms);
    lab.begin_wait();
    lab.advance(99ms);
    CHECK_FALSE(lab.outcome);
    lab.advance(1ms);
    CHECK(lab.outcome == Io::deadline);
    lab.begin_wait();
    lab.advance(1h);
    CHECK_FALSE(lab.outcome);
}

TEST_CASE("a deadline that moves later waits for its new time, without a timer more") {
    Lab lab;
    lab.connection->set_deadline(50ms);
    lab.begin_wait();
    lab.connection->set_deadline(500ms);
    CHECK(lab.timers.armed() == 1);
    lab.advance(499ms);
    CHECK_FALSE(lab.outcome);
    CHECK(lab.timers.armed() == 1);
    lab.advance(1ms);
    CHECK(lab.outcome == Io::deadline);
}

TEST_CASE("a deadline that moves earlier comes at its new time") {
    Lab lab;
    lab.connection->set_deadline(500ms);
    lab.begin_wait();
    lab.connection->set_deadline(50ms);
    CHECK(lab.timers.armed() == 1);
    lab.advance(50ms);
    CHECK(lab.outcome == Io::deadline);
}

TEST_CASE("a deadline that is cleared does not come, and the next one does") {
    Lab lab;
    lab.connection->set_deadline(50ms);
    lab.begin_wait();
    lab.connection->clear_deadline();
    lab.advance(40ms);
    lab.connection->set_deadline(20ms);
    lab.advance(19ms);
    CHECK_FALSE(lab.outcome);
    lab.advance(1ms);
    CHECK(lab.outcome == Io::deadline);
}

TEST_CASE("a connection that is closed leaves no timer") {
    Lab lab;
    lab.connection->set_deadline(1h);
    lab.connection->close();
    CHECK(lab.timers.armed() == 0);
}
