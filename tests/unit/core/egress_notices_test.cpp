// The events and lines of a log that tell of requests on the way out of its sandbox.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "house.hpp"

namespace atl::test::egress_notices_test {
namespace {

using conversation::EgressNotice;
using conversation::EventType;

EgressNotice refusal_of(const std::string& host) {
    EgressNotice notice;
    notice.host = host;
    notice.port = 443;
    notice.reason = "not_listed";
    return notice;
}

EgressNotice traffic_to(const std::string& host) {
    EgressNotice notice;
    notice.host = host;
    notice.port = 80;
    notice.route = "model";
    notice.bytes_up = 5;
    notice.bytes_down = 6;
    notice.lasted = base::Millis(7);
    notice.requests = 3;
    notice.omitted = 2;
    return notice;
}

/// The events of the way out in a conversation's log: "egress_denied null {…}", with the turn.
std::vector<std::string> egress_events(House& house, const std::string& id) {
    house.settle();
    const auto reader = subscribe(*house.conversations, id, 0).value();
    std::vector<std::string> told;
    for (auto batch = reader->next(1'000'000).value(); !batch.events.empty();
         batch = reader->next(1'000'000).value()) {
        for (const auto& event : batch.events) {
            if (event->type < EventType::egress_denied)
                continue;
            const auto json = nlohmann::json::parse(event->json);
            told.push_back(std::string(to_string(event->type)) + ' ' + json.at("turn").dump() + ' ' +
                           json.at("data").dump());
        }
    }
    return told;
}

std::vector<std::string> notes(House& house, const std::string& sandbox_id) {
    std::vector<std::string> texts;
    if (const auto page = house.sandboxes->logs().read(sandbox_id, 0))
        for (const auto& entry : page->entries)
            if (entry.text.starts_with("egress_"))
                texts.push_back(entry.text);
    return texts;
}

}  // namespace

TEST_CASE("A conversation's log tells what went out of its sandbox, as events of no turn") {
    House house{sandbox::ManagerSettings{}};
    const auto view = house.create().value();
    const std::string id = view.record.id;
    const std::string sandbox_id = view.record.sandbox_id;
    house.conversations->on_egress(sandbox_id, refusal_of("a.example"));
    house.conversations->on_egress(sandbox_id, traffic_to("b.example"));
    CHECK(egress_events(house, id) ==
          std::vector<std::string>{
              R"(egress_denied null {"host":"a.example","port":443,"reason":"not_listed"})",
              R"(egress_closed null {"bytesDown":6,"bytesUp":5,"host":"b.example","ms":7,"omitted":2,)"
              R"("port":80,"requests":3,"route":"model"})"});
    CHECK(notes(house, sandbox_id).empty());
    CHECK(house.conversations->record_of_sandbox(sandbox_id)->id == id);
    // Nothing comes here from another sandbox.
    house.conversations->on_egress("sbx_none", refusal_of("c.example"));
    CHECK(egress_events(house, id).size() == 2);
}

TEST_CASE("A question about a host is told where a client follows, and its rule is stored") {
    House house{sandbox::ManagerSettings{}};
    const auto view = house.create().value();
    const std::string id = view.record.id;
    const std::string box = view.record.sandbox_id;
    sandbox::EgressRoute headed;
    headed.name = "b.example:443";
    headed.upstream = "https://b.example";
    conversation::PatchRequest change;
    change.network.emplace();
    change.network->egress.allow = {headed.name};
    change.network->egress.hosts = {headed};
    const auto listed =
        house.answer([&](auto reply) { house.conversations->patch(id, change, std::move(reply)); });
    REQUIRE(listed.has_value());
    const conversation::EgressQuestion question{"q1", "a.example", 443};
    CHECK_FALSE(house.conversations->on_egress_question(box, question));
    const auto reader = subscribe(*house.conversations, id, 0).value();
    // A reader of a page or of a transcript is nobody who decides.
    CHECK_FALSE(house.conversations->on_egress_question(box, question));
    reader->follow();
    CHECK(house.conversations->on_egress_question(box, question));
    house.conversations->on_egress_decision(box, "q1", "always");
    CHECK(egress_events(house, id) ==
          std::vector<std::string>{R"(egress_request null {"host":"a.example","id":"q1","port":443})",
                                   R"(egress_resolved null {"decision":"always","id":"q1"})"});
    const auto changed = house.answer(
        [&](auto reply) { house.conversations->allow_host(box, "a.example:443", "", std::move(reply)); });
    REQUIRE(changed.has_value());
    CHECK(changed->network.egress.allow == std::vector<std::string>{"b.example:443", "a.example:443"});
    // The headers of another rule stay.
    REQUIRE(changed->network.egress.hosts.size() == 1);
    CHECK(changed->network.egress.hosts[0].name == "b.example:443");
    CHECK_FALSE(house.conversations->on_egress_question("sbx_none", question));
    REQUIRE(house.pause(id).has_value());
    CHECK_FALSE(house.conversations->on_egress_question(box, question));
}

TEST_CASE("A question of an open turn is an event of it, for clients that follow the turn alone") {
    House house{sandbox::ManagerSettings{}};
    const auto view = house.create().value();
    const std::string id = view.record.id;
    const auto reader = subscribe(*house.conversations, id, 0).value();
    reader->follow();
    const auto ticket = house.answer<conversation::TurnTicket>([&](auto reply) {
        house.conversations->message(id, {"wait", "", ""}, conversation::Manager::MessageReply::at_once,
                                     std::move(reply));
    });
    REQUIRE(ticket.has_value());
    CHECK(house.conversations->on_egress_question(view.record.sandbox_id, {"q1", "a.example", 443}));
    CHECK(egress_events(house, id) ==
          std::vector<std::string>{R"(egress_request "t1" {"host":"a.example","id":"q1","port":443})"});
}

TEST_CASE("The log of a sandbox without a conversation tells what went out of it") {
    House house{sandbox::ManagerSettings{}};
    const auto box = house.answer<conversation::Manager::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    const std::string id = box.value().record.id;
    house.conversations->on_egress(id, refusal_of("a.example"));
    CHECK(notes(house, id) ==
          std::vector<std::string>{R"(egress_denied {"host":"a.example","port":443,"reason":"not_listed"})"});
    CHECK(house.conversations->record_of_sandbox(id) == nullptr);
}

}  // namespace atl::test::egress_notices_test
