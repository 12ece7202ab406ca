#include "tests/isolation/redteam/duel.hpp"

#include <catch2/catch_test_macros.hpp>

namespace atl::test {
namespace {

constexpr int k_tries = 3;

Rlimits rlimits_for(Lab& lab, const ResourceAttack& attack) {
    Sandbox model(lab, attack.request);
    return rlimits_of(model);
}

Service beside_outside(Lab& lab, const ResourceAttack& attack, const Rlimits& rlimits, Duel& duel) {
    AttackOutside running(attack.words, rlimits);
    Service service = be_neighbour(lab);
    duel.outside = running.loot();
    duel.while_outside = measure_host();
    return service;
}

Service beside_inside(Lab& lab, const ResourceAttack& attack, Duel& duel) {
    AttackInside running(lab, attack.words, attack.request);
    Service service = be_neighbour(lab);
    duel.inside = running.loot();
    duel.while_inside = measure_host();
    duel.events = running.events();
    duel.conversation = lab.api.get(running.sandbox().id());
    return service;
}

}  // namespace

Duel attack_beside_neighbour(Lab& lab, const ResourceAttack& attack) {
    Duel duel;
    const Rlimits rlimits = rlimits_for(lab, attack);
    duel.before = measure_host();
    std::string slow;
    for (int i = 0; i < k_tries; ++i) {
        const Service control = beside_outside(lab, attack, rlimits, duel);
        REQUIRE(still_taken(duel.before, k_client_deadline, attack.slack) == "");
        const Service service = beside_inside(lab, attack, duel);
        CHECK(still_taken(duel.before, k_client_deadline, attack.slack) == "");
        if (checks_bounds())
            slow = too_slow(service, control);
        if (slow.empty())
            break;
    }
    CHECK(slow == "");
    return duel;
}

void compare_neighbours(const std::function<Service()>& control, const std::function<Service()>& attack) {
    std::string slow;
    for (int i = 0; i < k_tries; ++i) {
        const Service beside_control = control();
        slow = too_slow(attack(), beside_control);
        if (slow.empty())
            break;
    }
    CHECK(slow == "");
}

}  // namespace atl::test
