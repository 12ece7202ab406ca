// The events about the ports of a sandbox in the log of its conversation, whatever the sandbox says.
#include "core/conversation/port_events.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "house.hpp"

namespace atl::test::port_events_test {
namespace {

using conversation::EventType;
using conversation::PauseMode;
using conversation::PortEvents;
using Lines = std::vector<std::string>;

struct Desk {
    FakeClock clock;
    FakeTimers timers{clock};
    Lines lines;
    PortEvents news{
        clock, timers, [this](EventType type, const std::string& data) {
            lines.push_back(std::string(type == EventType::port_opened ? "open " : "close ") + data);
        }};
    Lines take() { return std::exchange(lines, {}); }
};

/// A conversation, and what its log tells of ports.
struct PortHouse : House {
    PortHouse() : House(sandbox::ManagerSettings{}) {
        conversations->set_port_url([](const sandbox::Record& sandbox, std::uint16_t port) {
            return "http://" + sandbox.id + "/" + std::to_string(port);
        });
        id = create().value().record.id;
        sandbox_id = get(*conversations, id).value().record.sandbox_id;
    }
    FakeProcessState& process() {
        for (const auto& [pid, one] : world.processes)
            if (one->alive && one->sandbox_id == sandbox_id)
                return *one;
        throw std::logic_error("the sandbox does not live");
    }
    void listen(std::vector<std::uint16_t> ports) {
        REQUIRE(process().on_ports);
        process().on_ports(std::move(ports));
        settle();
    }
    /// The events since the last call, of ports and of the sandbox: "port_opened 80 URL".
    Lines events() {
        settle();
        const auto reader = subscribe(*conversations, id, seen).value();
        Lines told;
        for (auto batch = reader->next(1'000'000).value(); !batch.events.empty();
             batch = reader->next(1'000'000).value())
            for (const auto& event : batch.events)
                told.push_back(line_of(*event));
        return told;
    }
    std::string line_of(const conversation::Event& event) {
        seen = event.seq;
        const auto data = nlohmann::json::parse(event.json).at("data");
        std::string line(to_string(event.type));
        if (data.contains("port"))
            line += " " + data["port"].dump();
        if (data.contains("url"))
            line += " " + (data["url"].is_null() ? "null" : data["url"].get<std::string>());
        return line;
    }
    std::string url(int port) const { return "http://" + sandbox_id + "/" + std::to_string(port); }

    std::string id;
    std::string sandbox_id;
    std::uint64_t seen = 0;
};

}  // namespace

TEST_CASE("Ports are told once, with their address, and once more when that changes") {
    Desk desk;
    desk.news.update({{80, ""}, {5173, "http://a"}});
    CHECK(desk.take() == Lines{R"(open {"port":80,"url":null})", R"(open {"port":5173,"url":"http://a"})"});
    desk.news.update({{80, ""}, {5173, "http://a"}});
    CHECK(desk.take().empty());
    desk.news.update({{80, "http://b"}});
    CHECK(desk.take() == Lines{R"(close {"port":5173})", R"(open {"port":80,"url":"http://b"})"});
    desk.news.close_all();
    CHECK(desk.take() == Lines{R"(close {"port":80})"});
    desk.news.close_all();
    CHECK(desk.take().empty());
}

TEST_CASE("A sandbox that opens and closes ports all the time writes a bounded number of events") {
    Desk desk;
    constexpr int k_seconds = 3'600;
    for (int second = 0; second < k_seconds; ++second) {
        for (int change = 0; change < 4; ++change) {
            conversation::PortUrls ports;
            for (std::uint16_t i = 0; i < base::k_max_told_ports; ++i)
                ports.emplace(static_cast<std::uint16_t>(1 + i + 32 * (change % 2)), "");
            desk.news.update(std::move(ports));
        }
        desk.timers.advance(base::Millis{1'000});
    }
    const std::size_t most =
        base::k_port_event_burst + base::Millis{1'000} * k_seconds / base::k_port_event_interval + 1;
    CHECK(desk.lines.size() <= most);
    CHECK(desk.lines.size() >= base::k_port_event_burst);
    // When it is quiet the log comes to say what is.
    desk.news.update({{80, ""}});
    desk.timers.advance(2 * base::k_max_told_ports * base::k_port_event_interval);
    desk.take();
    desk.news.close_all();
    CHECK(desk.take() == Lines{R"(close {"port":80})"});
}

TEST_CASE(
    "The log of a conversation tells the ports of its sandbox, with an address for those that are listed") {
    PortHouse house;
    house.events();
    house.listen({80, 5173});
    CHECK(house.events() == Lines{"port_opened 80 null", "port_opened 5173 " + house.url(5173)});
    conversation::PatchRequest patch;
    patch.preview.ports = {5173, 80};
    house.answer([&](auto reply) { house.conversations->patch(house.id, patch, std::move(reply)); }).value();
    CHECK(house.events() == Lines{"port_opened 80 " + house.url(80)});
    house.listen({80});
    CHECK(house.events() == Lines{"port_closed 5173"});
}

TEST_CASE("The ports of a generation are closed with it, and stay open while it is frozen") {
    PortHouse house;
    house.listen({5173});
    house.events();
    REQUIRE(house.freeze(house.id).has_value());
    CHECK(house.events() == Lines{"sandbox_paused"});
    house.answer([&](auto reply) { house.conversations->resume(house.id, std::move(reply)); }).value();
    CHECK(house.events() == Lines{"sandbox_resumed"});
    house.answer([&](auto reply) { house.conversations->pause(house.id, PauseMode::cold, std::move(reply)); })
        .value();
    CHECK(house.events().front() == "port_closed 5173");
    house.answer([&](auto reply) { house.conversations->resume(house.id, std::move(reply)); }).value();
    CHECK(house.events() == Lines{"sandbox_resumed"});
    house.listen({5173});
    CHECK(house.events() == Lines{"port_opened 5173 " + house.url(5173)});
}

TEST_CASE("What was listened on before a conversation had the sandbox is told when it has it") {
    PortHouse house;
    house.process().on_ports({8080});
    house.settle();
    CHECK(house.events().back() == "port_opened 8080 null");
}

TEST_CASE("A sandbox with the host's network is not asked for ports") {
    sandbox::ManagerSettings with;
    conversation::ManagerSettings settings;
    settings.allow_host_network = true;
    House house(with, settings);
    conversation::CreateRequest request;
    request.network.mode = sandbox::NetworkMode::host;
    REQUIRE(house.create(std::move(request)).has_value());
    CHECK_FALSE(house.world.processes.begin()->second->on_ports);
}

}  // namespace atl::test::port_events_test
