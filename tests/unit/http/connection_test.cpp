#include "http/wire/connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <memory>
#include <optional>

#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace connection_test {

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
    std::shared_ptr<http::Connection> connection;
    std::optional<Io> outcome;

    Lab() {
        auto stream = std::make_unique<FakeStream>(std::make_shared<FakePeer>(loop.get_executor()));
        connection = std::make_shared<http::Connection>(std::move(stream), clock, timers, settings);
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

}  // namespace connection_test
