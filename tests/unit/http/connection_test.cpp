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
    std::shared_ptr<FakePeer> peer = std::make_shared<FakePeer>(loop.get_executor());
    std::shared_ptr<http::Connection> connection;
    std::optional<Io> outcome;

    Lab() {
        auto stream = std::make_unique<FakeStream>(peer);
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
    void send(std::size_t bytes) {
        outcome.reset();
        boost::asio::co_spawn(loop, async_send(*this, std::string(bytes, 'x')),
                              [](const std::exception_ptr& failure) {
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
    static base::Task<> async_send(Lab& lab, std::string bytes) {
        lab.outcome = co_await lab.connection->async_send(bytes);
    }
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

TEST_CASE("output that a peer does not take is charged to its payer until it is sent, other output never") {
    const auto ann = base::ShareHolder::user("ann");
    base::Budget budget({"connections", "bytes", "", 1024UL * 1024});
    Lab lab;
    lab.settings.buffers = &budget;
    lab.connection->charge_to(ann);
    lab.send(1000);
    CHECK(lab.outcome == Io::ok);
    CHECK(budget.used() == 0);
    lab.peer->take_only(10);
    lab.send(1000);
    CHECK_FALSE(lab.outcome);
    CHECK(budget.held_by(ann) == base::k_max_unsent_bytes);
    lab.peer->take_only(1'000'000);
    lab.advance(0ms);
    CHECK(lab.outcome == Io::ok);
    // The kernel may not have sent it yet: that is looked at with the next output.
    CHECK(budget.used() == base::k_max_unsent_bytes);
    lab.send(1);
    CHECK(budget.used() == 0);
    lab.peer->take_only(0);
    lab.send(100'000);
    CHECK(budget.used() == base::k_max_unsent_bytes + 100'000);
    lab.connection->abort();
    CHECK(budget.used() == 0);
    lab.advance(0ms);
}

TEST_CASE(
    "without room for its payer a connection goes on with what is free, and is cut where more is left") {
    const auto ann = base::ShareHolder::user("ann");
    base::Budget budget({"connections", "bytes", "", 1024UL * 1024});
    const auto all = *budget.take(ann, budget.room(ann));
    Lab lab;
    lab.settings.buffers = &budget;
    lab.connection->charge_to(ann);
    lab.peer->take_only(0);
    SECTION("a little") {
        lab.send(1000);
        CHECK_FALSE(lab.outcome);
        lab.peer->take_only(1'000'000);
        lab.advance(0ms);
        CHECK(lab.outcome == Io::ok);
    }
    SECTION("much") {
        lab.send(100'000);
        CHECK(lab.outcome == Io::failed);
        lab.connection->close();
        CHECK(lab.peer->was_reset());
    }
    SECTION("of another payer") {
        lab.connection->charge_to(base::ShareHolder::preview("abc"));
        lab.send(100'000);
        CHECK_FALSE(lab.outcome);
    }
    SECTION("of nobody") {
        lab.connection->charge_to(std::nullopt);
        lab.send(100'000);
        CHECK_FALSE(lab.outcome);
    }
    CHECK(budget.held_by(ann) == all.amount());
}

}  // namespace connection_test
