// Whose a rule of a network is: that of the key which set it, for as long as it says the same.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "house.hpp"

namespace atl::test::network_rights_test {
namespace {

using sandbox::EgressRoute;
using sandbox::EgressSettings;
using sandbox::UserRules;

EgressRoute rule_with_headers(const std::string& name, const std::string& secret = "KEY") {
    EgressRoute rule;
    rule.name = name;
    rule.upstream = "https://api.example";
    rule.headers = {{"x-api-key", "", secret}};
    return rule;
}

EgressSettings network_of(const std::string& user_id) {
    EgressSettings settings;
    settings.user_id = user_id;
    settings.allow = {"a.example", "headed.example:443"};
    settings.hosts = {rule_with_headers("headed.example:443")};
    settings.routes = {rule_with_headers("model")};
    return settings;
}

/// The settings that a key sets in place of `before`.
EgressSettings set_after(const EgressSettings& before, EgressSettings settings) {
    settings.keep_user_rules(before);
    return settings;
}

const UserRules k_all_of_alice{"alice", {"a.example", "headed.example:443", "/model"}};

}  // namespace

TEST_CASE("Rules that an operator's key sends as a user's key set them stay that user's") {
    EgressSettings wanted = network_of("");
    wanted.allow.emplace_back("new.example");
    const EgressSettings changed = set_after(network_of("alice"), wanted);
    CHECK(changed.of_user == k_all_of_alice);
    CHECK(changed.user_of("a.example") == "alice");
    CHECK(changed.user_of("/model") == "alice");
    CHECK(changed.user_of("headed.example:443") == "alice");
    CHECK(changed.user_of("new.example").empty());
    CHECK(changed.user_id.empty());
    // So it is with the next change.
    wanted.allow.emplace_back("newer.example");
    CHECK(set_after(changed, wanted).of_user == k_all_of_alice);
    CHECK(set_after(changed, EgressSettings()).of_user == UserRules());
    // An operator's own stay the operator's, and a user's key has all as that user's.
    CHECK(set_after(network_of(""), network_of("")).of_user == UserRules());
    const EgressSettings of_user = set_after(changed, network_of("alice"));
    CHECK(of_user.of_user == UserRules());
    CHECK(of_user.user_of("/model") == "alice");
}

TEST_CASE("A rule that an operator's key changes is the operator's") {
    const EgressSettings before = network_of("alice");
    EgressSettings wanted = network_of("");
    wanted.routes[0].upstream = "https://other.example";
    CHECK(set_after(before, wanted).user_of("/model").empty());
    wanted = network_of("");
    wanted.routes[0].headers[0].secret = "OTHER";
    CHECK(set_after(before, wanted).user_of("/model").empty());
    wanted = network_of("");
    wanted.routes[0].name = "other";
    CHECK(set_after(before, wanted).user_of("/other").empty());
    wanted = network_of("");
    wanted.hosts[0].paths = {"/v1/*"};
    CHECK(set_after(before, wanted).user_of("headed.example:443").empty());
    // The headers are taken off, or set where there were none.
    wanted = network_of("");
    wanted.hosts.clear();
    CHECK(set_after(before, wanted).user_of("headed.example:443").empty());
    CHECK(set_after(set_after(before, wanted), network_of("")).user_of("headed.example:443").empty());
    // A route and a host of the same name are two rules.
    wanted = network_of("");
    wanted.allow.emplace_back("model");
    CHECK(set_after(before, wanted).user_of("model").empty());
}

TEST_CASE("A rule by a decision is that of who decided, and one among a user's own is that user's") {
    EgressSettings settings = network_of("");
    settings.add_rule("decided.example:443", "alice");
    CHECK(settings.of_user == UserRules{"alice", {"decided.example:443"}});
    CHECK(settings.user_of("a.example").empty());
    settings.add_rule("second.example:443", "");
    CHECK(settings.user_of("second.example:443").empty());
    CHECK(settings.allow.size() == 4);
    // The operator decides on what that user's ceilings do not let through any more.
    settings.add_rule("decided.example:443", "");
    CHECK(settings.allow.size() == 4);
    CHECK(settings.user_of("decided.example:443").empty());
    // The user takes nothing over that is the operator's.
    settings.add_rule("a.example", "alice");
    CHECK(settings.user_of("a.example").empty());
    EgressSettings of_alice = network_of("alice");
    of_alice.add_rule("decided.example:443", "");
    CHECK(of_alice.user_of("decided.example:443") == "alice");
}

TEST_CASE("A change of the network of a conversation, and of a sandbox alone, keeps whose each rule is") {
    House house{sandbox::ManagerSettings{}};
    conversation::PatchRequest change;
    const auto view = house.create().value();
    const auto patch = [&](const std::string& user_id) {
        change.network = sandbox::NetworkSettings{sandbox::NetworkMode::none, network_of(user_id)};
        return house
            .answer([&](auto reply) { house.conversations->patch(view.record.id, change, std::move(reply)); })
            .value()
            .network.egress;
    };
    CHECK(patch("alice").user_id == "alice");
    const EgressSettings kept = patch("");
    CHECK(kept.user_id.empty());
    CHECK(kept.of_user == k_all_of_alice);
    const auto decided = house.answer([&](auto reply) {
        house.conversations->allow_host(view.record.sandbox_id, "b.example:443", "alice", std::move(reply));
    });
    CHECK(decided.value().network.egress.user_of("b.example:443") == "alice");
    CHECK(patch("alice").of_user == UserRules());

    conversation::SandboxRequest alone;
    alone.network = {sandbox::NetworkMode::none, network_of("alice")};
    const auto box = house.answer<conversation::Manager::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(alone, std::move(reply)); });
    conversation::SandboxPatch sandbox_change;
    sandbox_change.network = sandbox::NetworkSettings{sandbox::NetworkMode::none, network_of("")};
    const auto changed = house.answer<conversation::Manager::SandboxView>([&](auto reply) {
        house.conversations->patch_sandbox(box.value().record.id, sandbox_change, std::move(reply));
    });
    CHECK(changed.value().record.egress.of_user == k_all_of_alice);
}

}  // namespace atl::test::network_rights_test
