// The times of socket counts, and the report of a count above a limit.
#include "core/sandbox/socket_watch.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/fake_world.hpp"

namespace socket_watch_test {

using namespace atl;
using namespace atl::test;
using sandbox::SocketExcess;

namespace {

class CountedProcess final : public sandbox::Process {
  public:
    const std::string& bridge_path() const override { return path_; }
    pid_t pid() const override { return 1; }
    void terminate() override {}
    void kill() override {}
    std::string log_tail() const override { return {}; }
    std::optional<std::uint32_t> sockets() const override {
        ++looks;
        return all;
    }
    std::optional<std::uint32_t> netlink_sockets() const override { return netlink; }
    std::uint32_t closed_lately() const override { return closed; }

    std::optional<std::uint32_t> all = 1;
    std::optional<std::uint32_t> netlink;
    std::uint32_t closed = 0;
    mutable int looks = 0;

  private:
    std::string path_;
};

struct Told {
    std::string id;
    SocketExcess excess;
};

struct Watched {
    explicit Watched(std::size_t count = 0) : processes(count) {
        for (std::size_t i = 0; i < count; ++i)
            watch.watch(name(i), processes[i], 100);
    }
    static std::string name(std::size_t number) { return "box" + std::to_string(1000 + number); }
    /// Fires the timers that are due within this time.
    void pass(base::Millis time) {
        const auto end = clock.steady_now() + time;
        bool over = false;
        timers.arm(time, [&over] { over = true; });
        while (!over && timers.fire_next()) {
        }
        REQUIRE(clock.steady_now() == end);
    }

    FakeClock clock;
    FakeTimers timers{clock};
    std::vector<CountedProcess> processes;
    std::optional<std::uint64_t> cpu_usec = 0;
    std::vector<Told> told;
    std::function<void(const std::string&)> on_told = [](const std::string&) {};
    sandbox::SocketWatch watch{timers, [this] { return cpu_usec; },
                               [this](const std::string& id, const SocketExcess& excess) {
                                   told.push_back({id, excess});
                                   on_told(id);
                               }};
};

}  // namespace

TEST_CASE("socket watch: a thousand idle sandboxes are not counted") {
    Watched house(1000);
    house.cpu_usec = 20'000;
    house.pass(base::Millis{1000});
    const auto before = house.watch.counts();
    house.pass(base::Millis{60'000});
    CHECK(house.watch.counts() == before);
    *house.cpu_usec += 19'999;
    house.pass(base::Millis{60'000});
    CHECK(house.watch.counts() == before);
    *house.cpu_usec += 1;
    house.pass(base::Millis{1000});
    CHECK(house.watch.counts() == before + 1000);
}

TEST_CASE(
    "socket watch: no handler counts more than its share, and a count reaches all within one interval") {
    Watched house(1000);
    house.cpu_usec = 1'000'000;
    while (house.watch.counts() == 0)
        REQUIRE(house.timers.fire_next());
    CHECK(house.watch.counts() == base::k_socket_counts_per_handler);
    const auto began = house.clock.steady_now();
    while (house.watch.counts() < 1000)
        REQUIRE(house.timers.fire_next());
    CHECK(house.clock.steady_now() - began < base::k_socket_count_interval);
}

TEST_CASE("socket watch: one that uses a processor all the time is counted at every interval") {
    Watched house(1);
    for (int i = 0; i < 40; ++i) {
        *house.cpu_usec += 25'000;
        house.pass(base::k_socket_count_interval);
    }
    CHECK(house.processes[0].looks == 40);
}

TEST_CASE("socket watch: a host that does not account processor time is counted at a slower pace") {
    Watched house(2);
    house.cpu_usec.reset();
    house.pass(base::Millis{1050});
    // Ticks, which are closer on a host with more processors, are whole.
    const auto most = static_cast<std::uint64_t>(2 * (1000 / base::k_blind_socket_count_interval.count()));
    CHECK(house.watch.counts() <= most);
    CHECK(house.watch.counts() >= most * 3 / 4);
}

TEST_CASE(
    "socket watch: connections that the kernel still ends are counted again before they end a sandbox") {
    Watched house(3);
    for (auto& process : house.processes) {
        process.all = 150;
        process.closed = 50;
    }
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    CHECK(house.told.empty());
    house.processes[0].all = 100;  // they have ended
    house.watch.unwatch(Watched::name(1));
    house.pass(base::Millis{300});
    REQUIRE(house.told.size() == 1);
    CHECK(house.told[0].id == Watched::name(2));
    // The first sandbox is counted as before.
    house.processes[0].all = 150;
    *house.cpu_usec += 1'000'000;
    house.pass(base::Millis{500});
    CHECK(house.told.size() == 2);
}

TEST_CASE("socket watch: one count above the limit is enough where the server closed nothing") {
    Watched house(1);
    house.processes[0].all = 101;
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    REQUIRE(house.told.size() == 1);
    CHECK(house.told[0].excess.count == 101);
}

TEST_CASE("socket watch: who opens more sockets while a second count is due is not given that time") {
    Watched house(1);
    house.processes[0].all = 101;
    house.processes[0].closed = 1;
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    CHECK(house.told.empty());
    house.processes[0].all = 10'000;
    *house.cpu_usec += 1'000'000;
    house.pass(base::Millis{100});
    REQUIRE(house.told.size() == 1);
    CHECK(house.told[0].excess.count == 10'000);
    // The second count is given up with it.
    house.pass(base::Millis{500});
    CHECK(house.told.size() == 1);
}

TEST_CASE("socket watch: a count above a limit is told once, and who is at it is left alone") {
    Watched house(3);
    house.processes[0].all = 100;
    house.processes[1].all = 151;  // more than what the server closed explains
    house.processes[1].closed = 50;
    house.processes[2].all.reset();  // not known
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    *house.cpu_usec += 1'000'000;
    house.pass(base::Millis{100});
    REQUIRE(house.told.size() == 1);
    CHECK(house.told[0].id == Watched::name(1));
    CHECK(house.told[0].excess.kind == SocketExcess::Kind::all);
    CHECK(house.told[0].excess.count == 151);
    CHECK(house.told[0].excess.limit == 100);
    house.watch.set_limit(Watched::name(0), 60);
    *house.cpu_usec += 1'000'000;
    house.pass(base::Millis{100});
    CHECK(house.told.size() == 2);
}

TEST_CASE("socket watch: netlink sockets have a limit of their own below a high one") {
    Watched house(2);
    for (std::size_t i : {0U, 1U}) {
        house.watch.set_limit(Watched::name(i), 5000);
        house.processes[i].all = 4000;
    }
    house.processes[0].netlink = base::k_max_netlink_sockets;
    house.processes[1].netlink = base::k_max_netlink_sockets + 1;
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    REQUIRE(house.told.size() == 1);
    CHECK(house.told[0].id == Watched::name(1));
    CHECK(house.told[0].excess.kind == SocketExcess::Kind::netlink);
    CHECK(house.told[0].excess.limit == base::k_max_netlink_sockets);
}

TEST_CASE("socket watch: who comes and goes during a count costs nobody else its turn") {
    Watched house(600);
    for (auto& process : house.processes)
        process.all = 151;
    // Each reported sandbox also ends its successor, since one end may cause another.
    std::size_t unwatched = 0;
    house.on_told = [&](const std::string& id) {
        house.watch.unwatch(Watched::name(std::stoul(id.substr(3)) - 1000 + 1));
        ++unwatched;
    };
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    CHECK(house.told.size() == 300);
    CHECK(unwatched == 300);
}

TEST_CASE("socket watch: without a sandbox no timer runs, and it begins again with the next") {
    Watched house(1);
    house.watch.unwatch(Watched::name(0));
    while (house.timers.fire_next()) {
    }
    CHECK(house.timers.armed() == 0);
    house.watch.watch("new", house.processes[0], 0);
    house.cpu_usec = 1'000'000;
    house.pass(base::Millis{100});
    CHECK(house.told.size() == 1);
}

}  // namespace socket_watch_test
