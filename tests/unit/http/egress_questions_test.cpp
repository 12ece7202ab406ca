// Requests to hosts that no rule lists, which wait for a person's decision, in time that stands still.
#include "http/egress/egress_questions.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "http/egress/egress_adapters.hpp"
#include "tests/unit/http/egress_lab.hpp"

namespace egress_questions_test {

using namespace atl;
using namespace atl::test;
using http::EgressDecision;

namespace {

/// A conversation with followers, and a person.
struct Desk {
    FakeClock clock;
    FakeTimers timers{clock};
    egress::Ceilings ceilings = all_public();
    http::CeilingPolicy policy{ceilings};
    bool is_followed = true;
    std::vector<conversation::EgressQuestion> told;
    std::vector<std::string> decided;
    std::vector<std::string> allowed;  // rules, each with the user who decided
    std::vector<std::string> answers;  // of requests: "yes", or the reason
    http::EgressQuestions questions{
        {clock, timers, policy,
         [this](const std::string&, const conversation::EgressQuestion& question) {
             if (is_followed)
                 told.push_back(question);
             return is_followed;
         },
         [this](const std::string&, const std::string& id, std::string_view decision) {
             decided.push_back(id + ' ' + std::string(decision));
         },
         [this](const std::string& sandbox, const std::string& rule, const std::string& by_user_id,
                const http::EgressQuestions::Done& done) {
             allowed.push_back(rule + ' ' + by_user_id);
             sandbox::EgressSettings settings{{rule}, "", {}, true};
             questions.review(sandbox, *policy.rules(settings));
             done({});
         }}};

    static egress::Ceilings all_public() {
        egress::Ceilings made;
        REQUIRE(made.allow("*.users.example").has_value());
        return made;
    }
    void ask(const std::string& host, const std::string& sandbox = "box", bool beyond_public = false) {
        http::EgressGrant target;
        target.host = host;
        target.port = 443;
        target.beyond_public = beyond_public;
        questions.ask(sandbox, target, [this](const base::Result<http::EgressGrant>& may) {
            answers.push_back(!may ? may.error().detail() : may->beyond_public ? "yes, beyond" : "yes");
        });
    }
    /// "ok", or the code of the error.
    std::string decide(EgressDecision decision, const std::string& user_id = "") {
        std::string answer = "none";
        const std::string id = told.back().id;
        questions.decide("box", id, decision, user_id, [&answer](const base::Result<void>& done) {
            answer = done ? "ok" : base::code_name(done.error().code());
        });
        return answer;
    }
    bool denied_for(const std::string& why) const {
        return !answers.empty() && answers.back().find(why) != std::string::npos;
    }
};

std::string tunnel_to(const std::string& target) {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
}

}  // namespace

TEST_CASE("Requests for the same host and port share a question, and its decision") {
    Desk desk;
    desk.ask("a.example");
    desk.ask("a.example");
    REQUIRE(desk.told.size() == 1);
    CHECK(desk.told[0].host == "a.example");
    CHECK(desk.told[0].port == 443);
    CHECK(desk.answers.empty());
    CHECK(desk.decide(EgressDecision::once) == "ok");
    CHECK(desk.answers == std::vector<std::string>{"yes", "yes"});
    CHECK(desk.decided == std::vector<std::string>{desk.told[0].id + " once"});
    CHECK(desk.allowed.empty());
    CHECK(desk.decide(EgressDecision::once) == "not_found");
    CHECK(desk.timers.armed() == 0);
    // The next one is asked about again.
    desk.ask("a.example");
    CHECK(desk.told.size() == 2);
    CHECK(desk.decide(EgressDecision::deny) == "ok");
    CHECK(desk.denied_for("it was denied"));
}

TEST_CASE("What is allowed always becomes a rule, and ends the question once") {
    Desk desk;
    desk.ask("a.example");
    CHECK(desk.decide(EgressDecision::always) == "ok");
    CHECK(desk.allowed == std::vector<std::string>{"a.example:443 "});
    CHECK(desk.answers == std::vector<std::string>{"yes"});
    CHECK(desk.decided == std::vector<std::string>{desk.told[0].id + " always"});
}

TEST_CASE("A key with a user lets nothing through that it may not list") {
    Desk desk;
    desk.ask("elsewhere.example");
    CHECK(desk.decide(EgressDecision::once, "alice") == "network_not_allowed");
    CHECK(desk.decide(EgressDecision::always, "alice") == "network_not_allowed");
    CHECK(desk.answers.empty());
    CHECK(desk.decide(EgressDecision::deny, "alice") == "ok");
    // The control: a host that it may list.
    desk.ask("a.users.example");
    CHECK(desk.decide(EgressDecision::once, "alice") == "ok");
    CHECK(desk.answers.back() == "yes");
}

TEST_CASE("A key with a user lets a request reach no private address that a rule of its own would not") {
    Desk desk;
    REQUIRE(desk.ceilings.allow("*").has_value());
    REQUIRE(desk.ceilings.allow_private("10.0.0.0/8:443").has_value());
    const auto of_operator = desk.policy.rules({{}, "", {}, true});
    REQUIRE(of_operator->askable("inner.example:443", 0)->beyond_public);
    for (const EgressDecision decision : {EgressDecision::once, EgressDecision::always}) {
        desk.ask("inner.example", "box", true);
        CHECK(desk.decide(decision, "alice") == "ok");
        CHECK(desk.answers.back() == "yes");
    }
    // The rule is that user's.
    CHECK(desk.allowed == std::vector<std::string>{"inner.example:443 alice"});
    desk.ask("inner.example", "box", true);
    CHECK(desk.decide(EgressDecision::once) == "ok");
    CHECK(desk.answers.back() == "yes, beyond");
    desk.ask("a.users.example", "box", true);
    CHECK(desk.decide(EgressDecision::once, "alice") == "ok");
    CHECK(desk.answers.back() == "yes, beyond");
}

TEST_CASE("So many requests wait for one decision, and more are denied at once") {
    Desk desk;
    for (std::size_t n = 0; n <= base::k_max_egress_question_waiters; ++n)
        desk.ask("a.example");
    REQUIRE(desk.answers.size() == 1);
    CHECK(desk.denied_for("too many requests wait"));
    CHECK(desk.decide(EgressDecision::once) == "ok");
    CHECK(desk.answers.size() == base::k_max_egress_question_waiters + 1);
}

TEST_CASE("A question is denied where nobody follows, after its time, and with its sandbox") {
    Desk desk;
    desk.is_followed = false;
    desk.ask("a.example");
    CHECK(desk.denied_for("nobody follows"));
    CHECK(desk.decided.empty());
    desk.is_followed = true;
    desk.ask("a.example");
    desk.timers.advance(base::k_egress_question_time - base::Millis(1));
    CHECK(desk.answers.size() == 1);
    desk.timers.advance(base::Millis(1));
    CHECK(desk.denied_for("in time"));
    CHECK(desk.decided == std::vector<std::string>{desk.told[0].id + " deny"});
    desk.ask("b.example");
    desk.questions.end("box");
    CHECK(desk.denied_for("has ended"));
    CHECK(desk.questions.open("box") == 0);
    CHECK(desk.timers.armed() == 0);
}

TEST_CASE("A change of the rules ends the questions that it answers, and no others") {
    Desk desk;
    desk.ask("a.example");
    desk.ask("b.example");
    desk.questions.review("box", *desk.policy.rules({{"a.example"}, "", {}, true}));
    CHECK(desk.answers == std::vector<std::string>{"yes"});
    CHECK(desk.questions.open("box") == 1);
    desk.questions.review("box", *desk.policy.rules({{"a.example"}, ""}));
    CHECK(desk.denied_for("rules have changed"));
}

TEST_CASE("A sandbox has four open questions and ten in a minute, whatever others have") {
    Desk desk;
    for (const char* host : {"a.example", "b.example", "c.example", "d.example", "e.example"})
        desk.ask(host);
    CHECK(desk.told.size() == base::k_max_open_egress_questions);
    CHECK(desk.denied_for("too many questions about other hosts"));
    desk.ask("e.example", "neighbour");
    CHECK(desk.told.size() == base::k_max_open_egress_questions + 1);
    desk.questions.end("neighbour");

    Desk busy;
    for (std::size_t n = 0; n < base::k_max_egress_questions; ++n) {
        busy.ask("a.example");
        CHECK(busy.decide(EgressDecision::once) == "ok");
    }
    busy.ask("a.example");
    CHECK(busy.denied_for("in the last minute"));
    busy.timers.advance(base::k_egress_question_interval);
    busy.ask("a.example");
    CHECK(busy.told.size() == base::k_max_egress_questions + 1);
}

TEST_CASE("A person is asked only about what the key that set the rules may list") {
    const egress::Ceilings ceilings = Desk::all_public();
    const http::CeilingPolicy policy(ceilings);
    const auto of_user = policy.rules({{}, "alice", {}, true});
    CHECK(of_user->askable("a.users.example:443", 0));
    CHECK_FALSE(of_user->askable("elsewhere.example:443", 0));
    CHECK_FALSE(of_user->askable("a.users.example:22", 0));
    CHECK_FALSE(of_user->askable("1.1.1.1:443", 0));
    const auto of_operator = policy.rules({{}, "", {}, true});
    CHECK(of_operator->askable("elsewhere.example:443", 0));
    CHECK_FALSE(of_operator->askable("10.0.0.1:443", 0));
    CHECK_FALSE(policy.rules({{}, ""})->askable("elsewhere.example:443", 0));

    const auto grant = of_operator->askable("elsewhere.example:443", 0);
    CHECK(of_operator->holds(*grant));
    CHECK_FALSE(of_user->holds(*grant));
    CHECK_FALSE(policy.rules({{}, ""})->holds(*grant));
    CHECK(policy.rules({{"elsewhere.example"}, ""})->holds(*grant));
}

TEST_CASE("A request waits for the decision before its name is looked up, and what was let through is cut") {
    Desk desk;
    EgressLab lab({}, nullptr, &desk.questions);
    lab.names["asked.example"] = {*http::parse_address("192.0.2.9")};
    const auto inside = lab.connect(tunnel_to("asked.example:443"));
    REQUIRE(desk.told.size() == 1);
    CHECK(lab.take(*inside).empty());
    CHECK(lab.looked_up.empty());
    CHECK(desk.decide(EgressDecision::once) == "ok");
    CHECK(lab.take(*inside).starts_with("HTTP/1.1 200 "));
    CHECK(lab.looked_up == std::vector<std::string>{"box asked.example"});
    lab.send(*inside, "TLS asked.example;");
    CHECK(lab.take(lab.upstream()) == "TLS asked.example;");
    lab.send(lab.upstream(), "back");
    // A change of the list that leaves `ask` on lets it be.
    lab.door->change({{"a.example:443"}, "", {}, true});
    lab.send(*inside, "more");
    CHECK(lab.take(lab.upstream()) == "more");
    lab.door->change({{"a.example:443"}, ""});
    lab.advance(base::Millis(1));
    CHECK(lab.door->open() == 0);

    lab.door->change({{}, "", {}, true});
    const auto denied = lab.connect(tunnel_to("asked.example:443"));
    CHECK(desk.decide(EgressDecision::deny) == "ok");
    CHECK(lab.take(*denied).starts_with("HTTP/1.1 403 "));
    const auto beyond = lab.connect(tunnel_to("b.example:443"));
    CHECK(lab.take(*beyond).starts_with("HTTP/1.1 403 "));
    CHECK(lab.looked_up.size() == 1);
    lab.end();
}

TEST_CASE("Questions that nobody can answer any more are denied, and the sandbox may ask again later") {
    Desk desk;
    desk.ask("a.users.example");
    desk.ask("b.users.example");
    desk.ask("b.users.example");
    desk.questions.leave_unattended("other");
    CHECK(desk.answers.empty());
    desk.questions.leave_unattended("box");
    CHECK(desk.answers.size() == 3);
    CHECK(desk.denied_for("nobody follows the conversation any more"));
    CHECK(desk.decided.size() == 2);
    CHECK(desk.questions.open("box") == 0);
    desk.ask("a.users.example");
    CHECK(desk.questions.open("box") == 1);
}

}  // namespace egress_questions_test
