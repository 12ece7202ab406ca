// The bounds on the egress of sandboxes, and how sandboxes and users share them.
#include "http/egress/egress_bounds.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/egress_lab.hpp"

namespace egress_bounds_test {

using namespace atl;
using namespace std::chrono_literals;
using base::Errc;

namespace {

// Sandboxes a1, a2 and so on are of user a.
struct Bounds {
    boost::asio::io_context loop{1};
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    std::optional<http::EgressBounds> bounds;
    std::vector<std::shared_ptr<const void>> held;

    Bounds() {
        bounds.emplace(
            loop.get_executor(), clock, timers,
            [](const std::string& id) { return base::ShareHolder::user(id.substr(0, 1)); },
            http::EgressBounds::Totals{1024 * base::k_egress_connections_share, 50});
    }
    std::optional<Errc> enter(const std::string& id) {
        auto entered = bounds->enter(id);
        if (entered.has_error())
            return entered.error().code();
        held.push_back(std::move(*entered));
        return std::nullopt;
    }
    // Gives how many were let in.
    std::size_t enter(const std::string& id, std::size_t count) {
        std::size_t in = 0;
        for (std::size_t i = 0; i < count; ++i)
            in += enter(id) ? 0 : 1;
        return in;
    }
};

constexpr std::size_t k_moves = 80;

// A relay that always has more to move, until all relays have moved so often.
base::Task<> async_greedy(std::shared_ptr<http::RelayTurns> turns, std::shared_ptr<http::WakeEvent> wake,
                          char name, std::string& log) {
    while (log.size() < k_moves) {
        if (turns->may_move(wake)) {
            log += name;
            turns->moved(base::k_relay_piece_bytes);
            wake->post();
        }
        co_await wake->async_wait();
    }
}

enum class Turns : std::uint8_t { of_sandbox, of_each };

// Eight relays A to H of one sandbox, and one relay Z of another: in which order they move.
std::string order(Turns whose) {
    boost::asio::io_context loop{1};
    std::string log;
    auto turns = std::make_shared<http::RelayTurns>(loop.get_executor());
    for (const char name : std::string("ABCDEFGHZ")) {
        if (whose == Turns::of_each || name == 'Z')
            turns = std::make_shared<http::RelayTurns>(loop.get_executor());
        auto wake = std::make_shared<http::WakeEvent>(loop.get_executor());
        boost::asio::co_spawn(loop, async_greedy(turns, std::move(wake), name, log),
                              [](const std::exception_ptr& failure) {
                                  if (failure)
                                      std::rethrow_exception(failure);
                              });
    }
    loop.run();
    return log;
}

}  // namespace

TEST_CASE("A sandbox has so many connections on its way out, and a user a share of all") {
    Bounds lab;
    constexpr std::size_t k_most = base::k_egress_connections_of_sandbox;
    CHECK(lab.enter("a1", k_most) == k_most);
    CHECK(lab.enter("a1") == Errc::capacity);
    for (const char* box : {"a2", "a3", "a4", "a5", "a6", "a7", "a8"})
        CHECK(lab.enter(box, k_most) == k_most);
    CHECK(lab.bounds->connections().used() == 512);
    CHECK(lab.enter("a9") == Errc::user_share);
    CHECK_FALSE(lab.enter("b1").has_value());
    lab.held.clear();
    CHECK(lab.bounds->connections().used() == 0);
    CHECK_FALSE(lab.enter("a1").has_value());
    lab.held.clear();
}

TEST_CASE("Connections beyond the rate of a sandbox or a user wait to be accepted, and others do not") {
    Bounds lab;
    lab.enter("a1", base::k_egress_burst_of_sandbox - 1);
    CHECK(lab.bounds->pause("a1") == 0ms);
    // A refused one counts, too.
    lab.enter("a1", 2);
    CHECK(lab.bounds->pause("a1") == 100ms);
    CHECK(lab.bounds->pause("a2") == 0ms);
    lab.clock.advance(100ms);
    CHECK(lab.bounds->pause("a1") == 0ms);
    for (const char* box : {"a2", "a3", "a4"})
        lab.enter(box, base::k_egress_burst_of_sandbox);
    lab.enter("a5");
    CHECK(lab.bounds->pause("a6") == 50ms);
    CHECK(lab.bounds->pause("b1") == 0ms);
    lab.held.clear();
}

TEST_CASE("Requests beyond the rate wait for their turn, and are refused where that would be too late") {
    Bounds lab;
    std::size_t begun = 0;
    std::size_t refused = 0;
    const auto ask = [&](const std::string& id, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            lab.bounds->await_turn(id, [&](const base::Result<void>& turn) {
                ++(turn ? begun : refused);
                CHECK((turn || turn.error().code() == Errc::user_share));
            });
    };
    ask("a1", base::k_egress_burst_of_sandbox + 2);
    CHECK(begun == base::k_egress_burst_of_sandbox);
    ask("b1", 1);
    CHECK(begun == base::k_egress_burst_of_sandbox + 1);
    lab.timers.advance(50ms);
    CHECK(begun == base::k_egress_burst_of_sandbox + 2);
    lab.timers.advance(50ms);
    CHECK(begun == base::k_egress_burst_of_sandbox + 3);

    begun = 0;
    for (const char* box : {"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"})
        ask(box, base::k_egress_burst_of_sandbox);
    CHECK(begun == base::k_egress_burst_of_user);
    constexpr std::size_t waiting =
        static_cast<std::size_t>(base::k_egress_turn_time / base::k_egress_interval);
    constexpr std::size_t too_late =
        8 * base::k_egress_burst_of_sandbox - base::k_egress_burst_of_user - waiting;
    // A refusal at once would let a program ask without end.
    CHECK(refused == 0);
    CHECK(lab.timers.armed() == waiting + too_late);
    lab.timers.advance(999ms);
    CHECK(refused == 0);
    lab.timers.advance(1ms);
    CHECK(refused == too_late);
    lab.timers.advance(base::k_egress_turn_time);
    CHECK(begun == base::k_egress_burst_of_user + waiting);

    ask("d1", base::k_egress_burst_of_sandbox + 1);
    CHECK(lab.timers.armed() == 1);
    lab.bounds.reset();
    CHECK(lab.timers.armed() == 0);
}

TEST_CASE("A user looks up a share of all names that may be looked up at a time") {
    Bounds lab;
    std::vector<base::Share> held;
    for (std::size_t i = 0; i < base::k_max_egress_look_ups / 2; ++i)
        held.push_back(lab.bounds->look_up(i % 2 == 0 ? "a1" : "a2").value());
    CHECK(lab.bounds->look_up("a3").error().code() == Errc::user_share);
    CHECK(lab.bounds->look_up("b1").has_value());
    held.pop_back();
    CHECK(lab.bounds->look_up("a3").has_value());
}

TEST_CASE("The relays of a sandbox share its turns, however many they are, and each has its own") {
    const auto moves = [](const std::string& log, char name) {
        return static_cast<std::size_t>(std::count(log.begin(), log.end(), name));
    };
    const std::string shared = order(Turns::of_sandbox);
    CAPTURE(shared);
    CHECK(moves(shared, 'Z') * 3 >= k_moves);
    CHECK(moves(shared, 'A') <= moves(shared, 'H') + 1);
    CHECK(moves(shared, 'H') >= 1);
    // Control: eight relays move eight times as much as one, where each has turns of its own.
    CHECK(moves(order(Turns::of_each), 'Z') * 6 < k_moves);
}

TEST_CASE("A relay that does not come for its turn holds up no other one") {
    boost::asio::io_context loop{1};
    const auto turns = std::make_shared<http::RelayTurns>(loop.get_executor(), 10);
    const auto gone = std::make_shared<http::WakeEvent>(loop.get_executor());
    const auto here = std::make_shared<http::WakeEvent>(loop.get_executor());
    CHECK(turns->may_move(here));
    turns->moved(10);
    CHECK_FALSE(turns->may_move(gone));
    CHECK_FALSE(turns->may_move(here));
    loop.run();
    CHECK(turns->may_move(here));
}

TEST_CASE("Eight downloads of one sandbox move no more than one of another sandbox, and arrive whole") {
    constexpr std::size_t k_length = 1024UL * 1024;
    test::EgressLab lab({"a.example:22/tcp"});
    const std::string request = "CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\n\r\n";
    std::vector<std::shared_ptr<test::FakePeer>> greedy;
    for (int i = 0; i < 8; ++i)
        greedy.push_back(lab.connect(request));
    const auto other = lab.connect(request, *lab.neighbour);
    REQUIRE(lab.upstreams.size() == 9);
    for (const auto& peer : greedy)
        peer->take();
    other->take();
    for (const auto& upstream : lab.upstreams)
        upstream->send(std::string(k_length, 'x'));
    std::size_t of_other = 0;
    std::size_t of_greedy = 0;
    const auto count = [&] {
        for (const auto& peer : greedy)
            of_greedy += peer->take().size();
        of_other += other->take().size();
    };
    while (of_other < k_length && lab.run_one())
        count();
    CHECK(of_other == k_length);
    CHECK(of_greedy > 0);
    CHECK(of_greedy < 3 * k_length);
    lab.run();
    count();
    CHECK(of_greedy == 8 * k_length);
}

TEST_CASE("Requests of a sandbox beyond the rate wait, those that are refused among them") {
    test::EgressLab lab({"a.example:80"});
    for (std::uint32_t i = 0; i < base::k_egress_burst_of_sandbox; ++i)
        lab.bounds->await_turn("box", [](const base::Result<void>&) {});
    const auto granted = lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    const auto refused = lab.connect("GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n");
    CHECK(lab.looked_up.empty());
    const auto traced = lab.connect("TRACE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.take(*refused).empty());
    CHECK(lab.take(*traced).empty());
    lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", *lab.neighbour);
    CHECK(lab.looked_up.size() == 1);
    lab.advance(3 * base::k_egress_interval);
    CHECK(lab.looked_up.size() == 2);
    CHECK(lab.dialed.size() == 2);
    CHECK(lab.take(*refused).starts_with("HTTP/1.1 403 "));
    CHECK(lab.take(*traced).starts_with("HTTP/1.1 405 "));
}

TEST_CASE("A tunnel and an answer without a byte for long end, and each byte begins the time anew") {
    test::EgressLab lab({"a.example:443", "a.example:80"});
    const auto tunnel =
        lab.connect("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nTLS a.example;");
    const auto answer = lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    REQUIRE(lab.upstreams.size() == 2);
    lab.send(*lab.upstreams[1], "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi");
    lab.advance(base::k_egress_idle_time / 2);
    for (const auto& upstream : lab.upstreams)
        lab.send(*upstream, "x");
    lab.advance(base::k_egress_idle_time / 2 + 1ms);
    CHECK_FALSE(tunnel->is_closed());
    CHECK_FALSE(answer->is_closed());
    lab.advance(base::k_egress_idle_time / 2);
    CHECK(tunnel->is_closed());
    CHECK(answer->is_closed());
    CHECK(lab.door->open() == 0);
    for (const auto& upstream : lab.upstreams)
        CHECK(upstream->is_closed());
}

}  // namespace egress_bounds_test
