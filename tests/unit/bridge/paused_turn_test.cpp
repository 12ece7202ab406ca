#include <catch2/catch_test_macros.hpp>

#include "bridge/line_reader.hpp"
#include "bridge/unix_channel.hpp"
#include "tests/unit/bridge/fake_guest.hpp"

namespace atl::test::paused_turn_test {
namespace {

/// A loop driven by hand and a query on a scripted guest.
struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest{64};
    std::unique_ptr<sandbox::Channel> channel = channels.open("sandbox", guest);
    Recorder turn;
    std::unique_ptr<sandbox::Query> query;

    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    FakePeer open_query() {
        query = channel->query("t1", "hello", "{}", turn);
        FakePeer peer = guest.accept();
        settle();
        return peer;
    }
};

const std::string k_message = "{\"ev\":\"message\",\"data\":{}}\n";
const std::string k_done = "{\"ev\":\"done\"}\n";

}  // namespace

TEST_CASE("a turn whose events cannot be committed now is not read, and goes on where it was") {
    Bench bench;
    FakePeer peer = bench.open_query();
    bench.turn.full = true;
    CHECK(peer.send(k_message + k_done));
    bench.settle();
    CHECK(bench.turn.calls.empty());
    // Looked at again and again, ever more rarely.
    for (const int rest_ms : {1, 2, 4, 8, 16, 16}) {
        CHECK(bench.timers.armed() == 1);
        bench.timers.advance(base::Millis{rest_ms});
        bench.settle();
        CHECK(bench.turn.calls.empty());
    }
    bench.turn.full = false;
    bench.timers.advance(base::Millis{16});
    bench.settle();
    CHECK(bench.turn.calls.size() == 3);
    CHECK(bench.turn.ended());
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("a turn that fills the commit rests with the lines that it has already read") {
    Bench bench;
    FakePeer peer = bench.open_query();
    bench.turn.on_each = [&] { bench.turn.full = true; };
    std::string lines;
    for (std::size_t i = 0; i < 2 * bridge::k_lines_per_handler; ++i)
        lines += k_message;
    CHECK(peer.send(lines + k_done));
    bench.settle();
    CHECK(bench.turn.calls.size() == bridge::k_lines_per_handler);
    bench.turn.full = false;
    bench.timers.advance(bridge::k_first_pause);
    bench.settle();
    CHECK(bench.turn.calls.size() == 2 * bridge::k_lines_per_handler);
    bench.turn.on_each = [] {};
    bench.turn.full = false;
    bench.timers.advance(bridge::k_first_pause);
    bench.settle();
    CHECK(bench.turn.ended());
}

}  // namespace atl::test::paused_turn_test
