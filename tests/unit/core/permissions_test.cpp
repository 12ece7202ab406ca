#include "core/conversation/permissions.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.hpp"
#include "core/plain/operation_limits.hpp"
#include "house.hpp"
#include "tests/support/result_printer.hpp"

namespace atl::test::permissions_test {
namespace {

using conversation::EventType;
using conversation::parse_permission_request;
using conversation::PermissionDecision;
using conversation::Permissions;
using conversation::to_string;
using sandbox::AgentSpec;
using sandbox::PermissionPolicy;

const std::string k_data =
    R"({"id":"p1","toolUseId":"c1","options":[{"optionId":"y","name":"Yes","kind":"allow_once"},)"
    R"({"optionId":"a","name":"Always","kind":"allow_always"},7,{"optionId":"n","name":"No","kind":"reject_once"}]})";

AgentSpec agent(PermissionPolicy policy) {
    AgentSpec spec;
    spec.permissions = policy;
    return spec;
}

/// The permissions of a turn, with what was decided as "id outcome reason option".
struct Table {
    void ask(PermissionPolicy policy, Permissions::Attended attended, std::string_view data = k_data) {
        permissions.ask(parse_permission_request(data), agent(policy), attended);
    }

    FakeWorld world{7};
    std::vector<std::string> decided;
    Permissions permissions{
        world.timers, [this](const PermissionDecision& decision) {
            decided.push_back(decision.id + " " + std::string(to_string(decision.outcome)) + " " +
                              std::string(to_string(decision.reason)) + " " + decision.option_id);
        }};
};

using Permits = std::vector<std::pair<std::string, std::string>>;

/// A conversation whose turn runs, and a reader of its log.
struct AskedTurn {
    explicit AskedTurn(std::size_t turn_bytes = base::k_max_turn_log_bytes)
        : house(sandbox::ManagerSettings{}, bounded_by(turn_bytes)) {
        reader = subscribe(*house.conversations, id, 0).value();
        REQUIRE(house.answer<conversation::TurnTicket>([&](auto reply) {
            house.conversations->message(id, {"x", "", ""}, conversation::MessageReply::at_once,
                                         std::move(reply));
        }));
    }
    void say(const char* name, std::string_view data) {
        house.world.queries.back()->observer->on_event({name, data});
        house.settle();
    }
    /// The types of the events of the turn, each with a space.
    std::string types() {
        std::string all;
        const auto all_of_it = subscribe(*house.conversations, id, 0).value();
        for (const auto& event : all_of_it->next(1'000'000).value().events)
            if (event->turn != 0)
                all.append(to_string(event->type)).append(" ");
        return all;
    }

    static conversation::ManagerSettings bounded_by(std::size_t turn_bytes) {
        conversation::ManagerSettings settings;
        settings.log_bounds.turn_bytes = turn_bytes;
        return settings;
    }

    House house;
    const conversation::View made = house.create().value();
    const std::string id = made.record.id;
    std::unique_ptr<conversation::Subscription> reader;
};

}  // namespace

TEST_CASE("the policy of an agent decides its permissions, and asks only where somebody follows") {
    Table table;
    table.ask(PermissionPolicy::allow, Permissions::Attended::no);
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes);
    table.ask(PermissionPolicy::ask, Permissions::Attended::no);
    table.ask(PermissionPolicy::allow, Permissions::Attended::yes, R"({"id":"p2","options":[]})");
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes, R"({"id":"p3","options":{}})");
    CHECK(table.decided == std::vector<std::string>{"p1 allowed policy y", "p1 denied policy n",
                                                    "p1 denied unattended n", "p2 cancelled policy ",
                                                    "p3 denied policy "});
    table.ask(PermissionPolicy::ask, Permissions::Attended::yes);
    CHECK(table.decided.size() == 5);
}

TEST_CASE("a permission is answered once, with one of its options") {
    Table table;
    table.ask(PermissionPolicy::ask, Permissions::Attended::yes);
    table.ask(PermissionPolicy::ask, Permissions::Attended::yes);
    CHECK(table.permissions.answer("p2", "y").error().code() == base::Errc::not_found);
    CHECK(table.permissions.answer("p1", "root").error().code() == base::Errc::invalid_field);
    const std::string option = GENERATE(std::string("a"), std::string("n"), std::string());
    REQUIRE(table.permissions.answer("p1", option).has_value());
    CHECK(table.permissions.answer("p1", option).error().code() == base::Errc::not_found);
    const std::string outcome = option == "a" ? "allowed" : option == "n" ? "denied" : "cancelled";
    CHECK(table.decided == std::vector<std::string>{"p1 " + outcome + " answered " + option});
}

TEST_CASE("the end of a turn cancels what waits, and so many wait at once") {
    Table table;
    for (std::size_t i = 0; i <= base::k_max_open_permissions; ++i)
        table.ask(
            PermissionPolicy::ask, Permissions::Attended::yes,
            R"({"id":")" + std::to_string(i) + R"(","options":[{"optionId":"y","kind":"allow_once"}]})");
    CHECK(table.decided ==
          std::vector<std::string>{std::to_string(base::k_max_open_permissions) + " denied unattended "});
    table.permissions.end_turn();
    CHECK(table.decided.size() == base::k_max_open_permissions + 1);
    CHECK(table.decided.back().find("cancelled turn_ended") != std::string::npos);
}

TEST_CASE("a permission that its agent takes back is cancelled, once") {
    Table table;
    table.ask(PermissionPolicy::ask, Permissions::Attended::yes);
    table.permissions.withdraw("p2");
    CHECK(table.decided.empty());
    table.permissions.withdraw("p1");
    table.permissions.withdraw("p1");
    table.world.timers.advance(base::Millis{86'400'000});
    table.permissions.end_turn();
    CHECK(table.decided == std::vector<std::string>{"p1 cancelled withdrawn "});
}

TEST_CASE("a permission that nobody answers is denied when its time is over") {
    Table table;
    AgentSpec spec = agent(PermissionPolicy::ask);
    spec.permission_timeout = std::chrono::seconds{5};
    table.permissions.ask(parse_permission_request(k_data), spec, Permissions::Attended::yes);
    table.world.timers.advance(base::Millis{4999});
    CHECK(table.decided.empty());
    table.world.timers.advance(base::Millis{1});
    CHECK(table.decided == std::vector<std::string>{"p1 denied timeout n"});
    table.permissions.end_turn();
    CHECK(table.decided.size() == 1);
}

TEST_CASE("an agent hears of the decision of its permission, and the log has it before the end of the turn") {
    AskedTurn turn;
    turn.reader->follow();
    turn.say("permission_request", k_data);
    CHECK(turn.house.world.permits.empty());
    const auto give = [&](const std::string& option) {
        return turn.house.answer([&](auto reply) {
            turn.house.conversations->answer_permission(turn.id, "p1", option, std::move(reply));
        });
    };
    SECTION("it is answered") {
        REQUIRE(give("y").has_value());
        CHECK(turn.house.world.permits == Permits{{"p1", "y"}});
        CHECK(give("y").error().code() == base::Errc::not_found);
    }
    SECTION("the turn is interrupted") {
        REQUIRE(turn.house.answer(
            [&](auto reply) { turn.house.conversations->interrupt(turn.id, std::move(reply)); }));
        CHECK(turn.house.world.permits == Permits{{"p1", ""}});
    }
    SECTION("the agent takes it back") {
        turn.say("permission_cancel", R"({"id":"p1"})");
        CHECK(turn.house.world.permits == Permits{{"p1", ""}});
        CHECK(give("y").error().code() == base::Errc::not_found);
    }
    SECTION("the turn ends first") {}
    turn.say("done", "{}");
    CHECK(turn.types() == "turn_start permission_request permission_resolved done ");
}

TEST_CASE("what an agent takes back counts for the bound of its turn, though it is not logged") {
    AskedTurn turn(4096);
    const std::string unknown = R"({"id":"p0","x":")" + std::string(1000, 'x') + "\"}";
    turn.say("permission_cancel", unknown);
    CHECK_FALSE(turn.house.world.queries.back()->observer->truncated());
    for (int i = 0; i < 4; ++i)
        turn.say("permission_cancel", unknown);
    CHECK(turn.house.world.queries.back()->observer->truncated());
}

TEST_CASE("a server that was killed leaves no question open") {
    AskedTurn turn;
    turn.reader->follow();
    turn.say("permission_request", k_data);
    REQUIRE(
        turn.house.conversations->on_egress_question(turn.made.record.sandbox_id, {"q1", "a.example", 443}));
    turn.house.settle();
    turn.reader.reset();
    turn.house.restart();
    CHECK(turn.types() ==
          "turn_start permission_request egress_request permission_resolved egress_resolved error done ");
    const auto log = subscribe(*turn.house.conversations, turn.id, 0).value();
    std::vector<std::string> resolved;
    for (const auto& event : log->next(1'000'000).value().events)
        if (event->type == EventType::permission_resolved || event->type == EventType::egress_resolved)
            resolved.push_back(event->json.substr(event->json.find("\"data\":")));
    CHECK(resolved ==
          std::vector<std::string>{R"("data":{"id":"p1","outcome":"cancelled","reason":"turn_ended"}})",
                                   R"("data":{"id":"q1","decision":"deny"}})"});
    // The next start finds nothing to resolve.
    turn.house.restart();
    CHECK(turn.types() ==
          "turn_start permission_request egress_request permission_resolved egress_resolved error done ");
}

TEST_CASE("a question of no turn is resolved behind a server that was killed") {
    House house{sandbox::ManagerSettings{}};
    const auto view = house.create().value();
    {
        const auto reader = subscribe(*house.conversations, view.record.id, 0).value();
        reader->follow();
        REQUIRE(house.conversations->on_egress_question(view.record.sandbox_id, {"q1", "a.example", 443}));
        house.settle();
    }
    house.restart();
    const auto log = subscribe(*house.conversations, view.record.id, 0).value();
    std::string types;
    for (const auto& event : log->next(1'000'000).value().events)
        types.append(to_string(event->type)).append(" ");
    CHECK(types == "session_start sandbox_ready egress_request egress_resolved sandbox_paused ");
}

TEST_CASE("a decision that does not reach the guest is told again while its turn runs") {
    AskedTurn turn;
    turn.house.world.lost_permits = 2;
    turn.say("permission_request", k_data);
    CHECK(turn.house.world.permits.empty());
    turn.house.world.timers.advance(base::k_interrupt_retry);
    turn.house.settle();
    CHECK(turn.house.world.lost_permits == 0);
    CHECK(turn.house.world.permits.empty());
    SECTION("it reaches it") {
        turn.house.world.timers.advance(base::k_interrupt_retry);
        turn.house.settle();
        CHECK(turn.house.world.permits == Permits{{"p1", "n"}});
        turn.house.world.timers.advance(base::k_interrupt_retry);
        turn.house.settle();
        CHECK(turn.house.world.permits.size() == 1);
    }
    SECTION("the turn ends first") {
        turn.say("done", "{}");
        turn.house.world.timers.advance(base::k_interrupt_retry);
        turn.house.settle();
        CHECK(turn.house.world.permits.empty());
    }
    CHECK(turn.types().starts_with("turn_start permission_request permission_resolved "));
}

TEST_CASE("ids of permissions are bounded, and so is the event") {
    const std::string most(base::k_max_permission_id_bytes, 'x');
    const auto data = [](const std::string& id, const std::string& option) {
        return R"({"id":")" + id + R"(","options":[{"optionId":")" + option + R"(","kind":"reject_once"}]})";
    };
    Table table;
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes, data(most, most));
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes, data("p2", most + "x"));
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes, data(most + "x", "n"));
    table.ask(PermissionPolicy::deny, Permissions::Attended::yes, data("", "n"));
    CHECK(table.decided == std::vector<std::string>{most + " denied policy " + most, "p2 denied policy "});

    AskedTurn turn;
    turn.say("permission_request", R"({"id":"p1","options":[],"x":")" +
                                       std::string(base::k_max_permission_request_bytes, 'x') + "\"}");
    CHECK(turn.types() == "turn_start error ");
    CHECK(turn.house.world.permits.empty());
}

TEST_CASE("one who reads pages of the log does not follow the conversation: a permission is denied at once") {
    AskedTurn turn;
    turn.say("permission_request", k_data);
    CHECK(turn.house.world.permits == Permits{{"p1", "n"}});
    CHECK(turn.types() == "turn_start permission_request permission_resolved ");
    turn.reader->follow();
    turn.say("permission_request", k_data);
    CHECK(turn.house.world.permits.size() == 1);
}

TEST_CASE("what waits for a person is denied a while after the last one who followed has left") {
    AskedTurn turn;
    turn.reader->follow();
    std::vector<std::string> ended;
    turn.house.conversations->set_unattended([&](const std::string& sandbox) { ended.push_back(sandbox); });
    turn.say("permission_request", k_data);
    REQUIRE(
        turn.house.conversations->on_egress_question(turn.made.record.sandbox_id, {"q1", "a.example", 443}));
    const auto wait = [&](base::Millis time) {
        turn.house.world.timers.advance(time);
        turn.house.settle();
    };
    const auto follow = [&] {
        turn.reader = subscribe(*turn.house.conversations, turn.id, 0).value();
        turn.reader->follow();
    };
    turn.reader.reset();
    wait(base::k_unattended_grace - base::Millis(1));
    CHECK(turn.house.world.permits.empty());
    SECTION("nobody comes back") {
        wait(base::Millis(1));
        CHECK(turn.house.world.permits == Permits{{"p1", "n"}});
        CHECK(turn.types() == "turn_start permission_request egress_request permission_resolved ");
        CHECK(ended == std::vector<std::string>{turn.made.record.sandbox_id});
    }
    SECTION("somebody comes back in time") {
        follow();
        wait(2 * base::k_unattended_grace);
        CHECK(turn.house.world.permits.empty());
        CHECK(ended.empty());
        // The next one who leaves has the whole time again.
        turn.reader.reset();
        follow();
        turn.reader.reset();
        wait(base::k_unattended_grace - base::Millis(1));
        CHECK(turn.house.world.permits.empty());
        wait(base::Millis(1));
        CHECK(turn.house.world.permits == Permits{{"p1", "n"}});
    }
    SECTION("one of two leaves") {
        follow();
        const auto other = subscribe(*turn.house.conversations, turn.id, 0).value();
        other->follow();
        turn.reader.reset();
        wait(2 * base::k_unattended_grace);
        CHECK(turn.house.world.permits.empty());
    }
}

TEST_CASE("a permission that the log has no room for is denied: nobody hears of it") {
    AskedTurn turn(4096);
    turn.reader->follow();
    turn.say("text_delta", R"({"delta":")" + std::string(5000, 'x') + "\"}");
    turn.say("permission_request", k_data);
    CHECK(turn.house.world.permits == Permits{{"p1", "n"}});
}

}  // namespace atl::test::permissions_test
