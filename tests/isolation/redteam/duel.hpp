// A whole resource attack: outside as the control, then in a sandbox, each with a neighbour beside it.
#pragma once

#include <functional>

#include "tests/isolation/redteam/attack_run.hpp"
#include "tests/isolation/redteam/host_meter.hpp"
#include "tests/isolation/redteam/neighbour.hpp"

namespace atl::test {

struct ResourceAttack {
    Words words;                    // of the program `attack`
    Json request = Json::object();  // of the attacker's conversation
    HostSample slack = default_slack();
};

struct Duel {
    Loot outside;
    Loot inside;
    HostSample before;         // nothing was attacked
    HostSample while_outside;  // while the control held its loot
    HostSample while_inside;   // the attacker in the sandbox did
    std::vector<Json> events;  // of the attacker's turn, to its end or to `holding`
    Json conversation;         // the attacker's, while it held or after its end
};

/// Fails the test if a neighbour is refused anything, if an attack takes longer than k_attack_limit, or if
/// the host has not all back within k_client_deadline after the attacker's conversation was deleted. With
/// ATOLL_TEST_FULL=1 also if the neighbour is slower than allowed: that is measured up to three times, since
/// the host has other work.
Duel attack_beside_neighbour(Lab& lab, const ResourceAttack& attack);

/// Fails the test if a neighbour of `attack` is slower than allowed beside the one of `control`, in each of
/// three turns. Both end what they have begun.
void compare_neighbours(const std::function<Service()>& control, const std::function<Service()>& attack);

}  // namespace atl::test
