// When the ports of previews are listened on, over fakes of every port.
#include "core/conversation/preview_ports.hpp"

#include <algorithm>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace core_preview_ports_test {

using namespace atl;
using namespace atl::test;
using conversation::PauseMode;
using conversation::PreviewDoors;
using conversation::PreviewPorts;

namespace {

constexpr base::Millis k_linger{60'000};

struct FakeDoors final : PreviewDoors {
    Opening open(std::uint16_t number) override {
        require(!opened.contains(number), "a port was opened twice");
        if (taken.contains(number))
            return Opening::taken;
        opened.insert(number);
        return Opening::open;
    }
    void close(std::uint16_t number) override {
        require(opened.erase(number) == 1, "a port was closed that is not open");
    }
    std::set<std::uint16_t> opened;
    std::set<std::uint16_t> taken;
};

struct Bench {
    Bench() { enable(); }
    void enable() { ports().enable(doors, {k_linger, 3}); }
    PreviewPorts& ports() { return house.conversations->preview_ports(); }
    conversation::Record make() { return house.create()->record; }
    std::uint16_t number(const conversation::Record& of) {
        const std::string url = ports().url(of.sandbox_id);
        constexpr std::string_view k_before = "http://localhost:";
        if (!url.starts_with(k_before))
            return 0;
        return static_cast<std::uint16_t>(std::stoi(url.substr(k_before.size())));
    }
    bool is_open(const conversation::Record& of) { return doors.opened.contains(number(of)); }
    void pause(const conversation::Record& of, PauseMode mode = PauseMode::cold) {
        house.answer([&](auto reply) { house.conversations->pause(of.id, mode, std::move(reply)); }).value();
    }
    void resume(const conversation::Record& of) {
        house.answer([&](auto reply) { house.conversations->resume(of.id, std::move(reply)); }).value();
    }
    /// Pauses it, lets another program take its number, and resumes it. Returns that number.
    std::uint16_t resume_taken(const conversation::Record& of) {
        const std::uint16_t taken = number(of);
        pause(of);
        pass(k_linger + base::Millis{1});
        doors.taken.insert(taken);
        resume(of);
        return taken;
    }
    void remove(const conversation::Record& of) {
        REQUIRE(
            house.answer<void>([&](auto reply) { house.conversations->remove(of.id, std::move(reply)); }));
    }
    void pass(base::Millis time) {
        house.world.timers.advance(time, [this] { house.settle(); });
        house.settle();
    }
    /// Texts of a conversation's events of this type.
    std::vector<std::string> events(const conversation::Record& of, conversation::EventType type) {
        std::vector<std::string> found;
        for (const auto& [id, event] : house.world.store.events) {
            if (id.first == of.key && event->type == type)
                found.push_back(event->json);
        }
        return found;
    }

    FakeDoors doors;
    House house{sandbox::ManagerSettings{}};
};

}  // namespace

TEST_CASE("A preview's port is listened on from the creation to the end, and a while after a pause") {
    Bench bench;
    const auto one = bench.make();
    const std::uint16_t number = bench.number(one);
    CHECK(number >= base::k_first_preview_number);
    CHECK(bench.is_open(one));
    CHECK(bench.ports().owner(number) == one.sandbox_id);
    CHECK(bench.house.world.store.preview_numbers.at(number).sandbox_id == one.sandbox_id);

    bench.pause(one);
    bench.pass(k_linger - base::Millis{1'000});
    CHECK(bench.is_open(one));
    bench.resume(one);
    bench.pass(k_linger);
    CHECK(bench.is_open(one));
    bench.pause(one);
    bench.pass(k_linger + base::Millis{1});
    CHECK(bench.doors.opened.empty());
    CHECK(bench.number(one) == number);
    bench.resume(one);
    CHECK(bench.number(one) == number);
    CHECK(bench.is_open(one));
    CHECK(bench.events(one, conversation::EventType::preview_changed).empty());

    bench.remove(one);
    CHECK(bench.doors.opened.empty());
    CHECK(bench.ports().owner(number).empty());
    CHECK(bench.house.world.store.preview_numbers.at(number).sandbox_id.empty());
}

TEST_CASE("A preview's number that another program takes is replaced, and the conversation is told") {
    Bench bench;
    const auto one = bench.make();
    const std::uint16_t number = bench.resume_taken(one);
    CHECK(bench.number(one) == number);
    bench.pass(base::k_preview_number_patience + base::k_preview_number_retry);
    const std::uint16_t next = bench.number(one);
    CHECK(next != number);
    CHECK(bench.is_open(one));
    const auto told = bench.events(one, conversation::EventType::preview_changed);
    REQUIRE(told.size() == 1);
    CHECK(told.front().find("\"http://localhost:" + std::to_string(next) + "/\"") != std::string::npos);
    CHECK(bench.house.world.store.preview_numbers.at(next).sandbox_id == one.sandbox_id);
    CHECK(bench.house.world.store.preview_numbers.at(number).sandbox_id.empty());
    // While one is made nobody knows its address yet.
    for (std::uint16_t taken = 30'000; taken < 30'200; ++taken)
        bench.doors.taken.insert(taken);
    const auto two = bench.make();
    CHECK(bench.is_open(two));
    CHECK(bench.events(two, conversation::EventType::preview_changed).empty());
}

TEST_CASE("A preview's number that another program has for a moment stays, and is listened on after it") {
    Bench bench;
    const auto one = bench.make();
    const std::uint16_t number = bench.resume_taken(one);
    CHECK_FALSE(bench.is_open(one));
    bench.pass(base::k_preview_number_patience / 2);
    CHECK_FALSE(bench.is_open(one));
    SECTION("while the sandbox lives") {
        bench.doors.taken.clear();
        bench.pass(base::k_preview_number_retry);
        CHECK(bench.is_open(one));
    }
    SECTION("not while it is paused") {
        bench.pause(one);
        bench.pass(2 * base::k_preview_number_patience);
        bench.doors.taken.clear();
        bench.pass(base::k_preview_number_patience);
        CHECK(bench.doors.opened.empty());
    }
    SECTION("nor after its end") {
        bench.remove(one);
        bench.doors.taken.clear();
        bench.pass(2 * base::k_preview_number_patience);
        CHECK(bench.doors.opened.empty());
        return;
    }
    CHECK(bench.number(one) == number);
    bench.pass(2 * base::k_preview_number_patience);
    CHECK(bench.number(one) == number);
    CHECK(bench.events(one, conversation::EventType::preview_changed).empty());
}

TEST_CASE("Numbers of previews outlive the server; its end is to their ports as a pause") {
    Bench bench;
    const auto one = bench.make();
    const auto two = bench.make();
    const std::uint16_t number = bench.number(one);
    const std::uint16_t other = bench.number(two);
    bench.remove(two);
    bench.doors.opened.clear();
    bench.house.restart();
    bench.enable();
    CHECK(bench.number(one) == number);
    CHECK(bench.doors.opened == std::set{number});
    CHECK(bench.ports().owner(other).empty());
    SECTION("until it has lingered") {
        bench.pass(k_linger - base::Millis{1'000});
        CHECK(bench.is_open(one));
        bench.pass(base::Millis{1'001});
        CHECK(bench.doors.opened.empty());
        bench.resume(one);
    }
    SECTION("but while the sandbox lives again") {
        bench.resume(one);
        bench.pass(2 * k_linger);
    }
    CHECK(bench.number(one) == number);
    CHECK(bench.is_open(one));
}

TEST_CASE("A pause by the end of a server counts from then, however often servers start") {
    Bench bench;
    const auto one = bench.make();
    const auto restart = [&] {
        bench.doors.opened.clear();
        bench.house.restart();
        bench.enable();
    };
    bench.pass(2 * k_linger);
    restart();
    bench.pass(k_linger / 2);
    restart();
    CHECK(bench.is_open(one));
    bench.pass(k_linger / 2 + base::Millis{1});
    CHECK(bench.doors.opened.empty());
    restart();
    CHECK(bench.doors.opened.empty());
}

TEST_CASE("After a restart the ports of conversations that were active lately are listened on, the latest") {
    Bench bench;
    const auto old = bench.make();
    bench.pause(old);
    bench.pass(2 * k_linger);
    const auto recent = bench.make();
    bench.pause(recent);
    bench.pass(k_linger / 2);
    const auto up = bench.make();
    const auto restart = [&] {
        bench.doors.opened.clear();
        bench.house.restart();
        bench.enable();
    };
    SECTION("a pause counts from the last activity that is stored") {
        restart();
        CHECK(bench.doors.opened == std::set{bench.number(recent), bench.number(up)});
        bench.pass(k_linger / 2 + base::Millis{1});
        CHECK(bench.doors.opened == std::set{bench.number(up)});
        bench.resume(old);
        CHECK(bench.is_open(old));
    }
    SECTION("those that were up come first where there is not room for all") {
        const auto two = bench.make();
        bench.pause(two);
        bench.pass(base::Millis{1});
        const auto three = bench.make();
        bench.pause(three);
        restart();
        CHECK(bench.doors.opened == std::set{bench.number(up), bench.number(two), bench.number(three)});
    }
    SECTION("one that another program listens on keeps its number") {
        const std::uint16_t number = bench.number(up);
        bench.doors.taken.insert(number);
        restart();
        CHECK_FALSE(bench.is_open(up));
        CHECK(bench.number(up) == number);
        CHECK(bench.events(up, conversation::EventType::preview_changed).empty());
    }
}

TEST_CASE("Beyond the bound of ports that are listened on, paused sandboxes make room, then there is none") {
    Bench bench;
    const auto one = bench.make();
    const auto two = bench.make();
    const auto three = bench.make();
    bench.pause(one);
    const auto four = bench.make();
    CHECK_FALSE(bench.is_open(one));
    CHECK(bench.is_open(four));
    const auto five = bench.make();
    CHECK(bench.number(five) != 0);
    CHECK_FALSE(bench.is_open(five));
    bench.remove(two);
    bench.pause(five);
    bench.resume(five);
    CHECK(bench.is_open(five));
    CHECK(bench.is_open(three));
}

TEST_CASE("A conversation without a number for its preview is made, and warned of it") {
    Bench bench;
    for (std::uint16_t number = 30'000; number < 40'000; ++number)
        bench.doors.taken.insert(number);
    const auto one = bench.make();
    bench.house.settle();
    CHECK(bench.number(one) == 0);
    const auto warned = bench.events(one, conversation::EventType::resource_warning);
    REQUIRE(warned.size() == 1);
    CHECK(warned.front().find("\"preview_ports\"") != std::string::npos);
    bench.doors.taken.clear();
    bench.pause(one);
    bench.resume(one);
    CHECK(bench.is_open(one));
    CHECK(bench.events(one, conversation::EventType::preview_changed).size() == 1);
}

TEST_CASE("A sandbox with the host's network has no number, one without a conversation has one") {
    conversation::ManagerSettings settings;
    settings.allow_host_network = true;
    FakeDoors doors;
    House house{sandbox::ManagerSettings{}, settings};
    PreviewPorts& ports = house.conversations->preview_ports();
    ports.enable(doors, {});
    conversation::CreateRequest request;
    request.network.mode = sandbox::NetworkMode::host;
    const auto made = house.create(std::move(request));
    REQUIRE(made.has_value());
    CHECK(ports.url(made->record.sandbox_id).empty());
    CHECK(doors.opened.empty());
    const auto alone = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    REQUIRE(alone.has_value());
    CHECK(doors.opened.size() == 1);
    CHECK(house.world.store.preview_numbers.size() == 1);
    CHECK_FALSE(ports.url(alone->record.id).empty());
    REQUIRE(house.answer<void>(
        [&](auto reply) { house.conversations->remove_sandbox(alone->record.id, std::move(reply)); }));
    CHECK(doors.opened.empty());
}

TEST_CASE("A sandbox of the pool has no number before a conversation claims it") {
    conversation::ManagerSettings settings;
    settings.pool = {{"shell", 1}};
    FakeDoors doors;
    House house{sandbox::ManagerSettings{}, settings};
    house.conversations->preview_ports().enable(doors, {});
    house.conversations->open_pool();
    house.settle();
    CHECK(doors.opened.empty());
    REQUIRE(house.create().has_value());
    CHECK(doors.opened.size() == 1);
}

TEST_CASE("Ports of one user's previews leave others theirs, unless one may have all") {
    const unsigned percent = GENERATE(50U, 100U);
    FakeWorld world{7};
    conversation::Journal journal(world.store, world.timers);
    FakeDoors doors;
    PreviewPorts ports(world.timers, world.clock, journal, percent,
                       [](const std::string&, const std::string&) {});
    const auto greedy = base::ShareHolder::user("greedy");
    ports.restore({{base::k_first_preview_number, "old", 0, false, "greedy"}}, {});
    CHECK(ports.numbers().held_by(greedy) == 1);
    ports.enable(doors, {k_linger, 3});
    const auto reserve = [&](const std::string& id, const std::string& user) {
        sandbox::Record record;
        record.id = id;
        record.user_id = user;
        return ports.reserve(record);
    };
    int made = 1;
    while (reserve("s" + std::to_string(made), "greedy"))
        ++made;
    CHECK(made == (percent == 50 ? 5'000 : 10'000));
    CHECK(ports.numbers().used() == static_cast<std::uint64_t>(made));
    CHECK(reserve("neighbour", "neighbour") == (percent == 50));
    CHECK_FALSE(reserve("more", "greedy"));
    ports.on_removed("old");
    CHECK(reserve("more", "greedy") == (percent == 100));
    ports.disable();
}

TEST_CASE("Where no more ports can be listened on, the user with most gives way, and no other one does") {
    FakeWorld world{7};
    conversation::Journal journal(world.store, world.timers);
    FakeDoors doors;
    PreviewPorts ports(world.timers, world.clock, journal, 50, [](const std::string&, const std::string&) {});
    ports.enable(doors, {k_linger, 3});
    const auto reserve = [&](const std::string& id, const std::string& user) {
        sandbox::Record record;
        record.id = id;
        record.user_id = user;
        REQUIRE(ports.reserve(record));
    };
    const auto is_open = [&](const std::string& id) {
        return std::ranges::any_of(doors.opened,
                                   [&](std::uint16_t number) { return ports.owner(number) == id; });
    };
    for (const char* const id : {"a1", "a2", "a3"}) {
        reserve(id, "ann");
        REQUIRE(is_open(id));
    }
    reserve("b1", "bob");
    CHECK(is_open("b1"));
    CHECK(doors.opened.size() == 3);
    // Now ann has two: bob gets no second one, and she no third one.
    reserve("b2", "bob");
    CHECK_FALSE(is_open("b2"));
    ports.on_down("b1");
    reserve("a4", "ann");
    CHECK_FALSE(is_open("a4"));
    CHECK(is_open("b1"));
    // If she has most, the one of hers that lingers goes first.
    const std::string first = is_open("a1") ? "a1" : "a2";
    const std::string last = is_open("a3") ? "a3" : "a2";
    ports.on_down(last);
    reserve("c1", "cid");
    CHECK(is_open("c1"));
    CHECK_FALSE(is_open(last));
    CHECK(is_open(first));
    CHECK(is_open("b1"));
    // The one that was closed for another is listened on again once there is room.
    const std::string closed = first == "a2" ? "a1" : last == "a2" ? "a3" : "a2";
    CHECK_FALSE(is_open(closed));
    ports.on_removed("c1");
    CHECK(is_open(closed));
    ports.disable();
}

}  // namespace core_preview_ports_test
