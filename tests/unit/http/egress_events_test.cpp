// The events of requests on the way out: each kind at once, then as a sum, and no more than their bound.
#include "http/egress/egress_events.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "tests/support/fake_world.hpp"

namespace egress_events_test {

using namespace atl;
using namespace atl::test;
using conversation::EgressNotice;

namespace {

struct EventDesk {
    FakeClock clock;
    FakeTimers timers{clock};
    std::vector<std::string> lines;
    http::EgressEvents events{
        timers, [this](const std::string& sandbox, const EgressNotice& notice) {
            std::string line = sandbox + ' ' + notice.host + ' ' + std::string(notice.reason) + " x" +
                               std::to_string(notice.requests);
            if (notice.reason.empty())
                line += " up " + std::to_string(notice.bytes_up) + " down " +
                        std::to_string(notice.bytes_down) + " ms " + std::to_string(notice.lasted.count());
            if (notice.omitted > 0)
                line += " omitted " + std::to_string(notice.omitted);
            lines.push_back(std::move(line));
        }};

    void deny(const std::string& host, const std::string& sandbox = "box") {
        EgressNotice notice;
        notice.host = host;
        notice.port = 443;
        notice.reason = "not_listed";
        events.add(sandbox, std::move(notice));
    }
    void close(const std::string& host) {
        EgressNotice notice;
        notice.host = host;
        notice.port = 443;
        notice.bytes_up = 10;
        notice.bytes_down = 200;
        notice.lasted = base::Millis(3);
        events.add("box", std::move(notice));
    }
    void pass() { timers.advance(base::k_egress_notice_interval); }
    std::vector<std::string> take() { return std::exchange(lines, {}); }
};
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("A request is told at once, and what repeats it as a sum later") {
    EventDesk desk;
    for (int i = 0; i < 5; ++i) {
        desk.deny("a.example");
        desk.close("b.example");
    }
    CHECK(desk.take() == Lines{"box a.example not_listed x1", "box b.example  x1 up 10 down 200 ms 3"});
    desk.pass();
    CHECK(desk.take() == Lines{"box a.example not_listed x4", "box b.example  x4 up 40 down 800 ms 12"});
    // The time runs on behind a sum, and a quiet one ends it.
    desk.deny("a.example");
    CHECK(desk.take().empty());
    desk.pass();
    CHECK(desk.take() == Lines{"box a.example not_listed x1"});
    desk.pass();
    CHECK(desk.take().empty());
    CHECK(desk.events.size() == 0);
    CHECK(desk.timers.idle());
    desk.deny("a.example");
    CHECK(desk.take() == Lines{"box a.example not_listed x1"});
}

TEST_CASE(
    "A program that asks for many hosts has a bounded number of events, which say what they leave out") {
    EventDesk desk;
    constexpr std::size_t k_hosts = 1'000;
    for (std::size_t i = 0; i < k_hosts; ++i)
        desk.deny("h" + std::to_string(i));
    CHECK(desk.take().size() == base::k_max_egress_notices);
    // Another sandbox has its own.
    desk.deny("a.example", "other");
    CHECK(desk.take() == Lines{"other a.example not_listed x1"});
    desk.pass();
    CHECK(desk.take() == Lines{"box h999 not_listed x1 omitted " +
                               std::to_string(k_hosts - base::k_max_egress_notices - 1)});
    desk.pass();
    CHECK(desk.events.size() == 0);
    CHECK(desk.timers.idle());
}

TEST_CASE("Nothing is told once the events are gone") {
    FakeClock clock;
    FakeTimers timers{clock};
    {
        http::EgressEvents events(timers, [](const std::string&, const EgressNotice&) {});
        events.add("box", EgressNotice{});
        CHECK(timers.armed() == 1);
    }
    CHECK(timers.armed() == 0);
}

}  // namespace egress_events_test
