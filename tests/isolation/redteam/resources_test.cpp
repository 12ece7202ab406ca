// Tables of the host that one sandbox could fill: processes, terminals, epoll watches.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/redteam/duel.hpp"

namespace redteam_resources_test {

using namespace atl::test;

// Not [kernel]: outside, for the control, the bomb is in no group. A sandbox that starts beside it on the
// virtual machine's emulated processors is not ready in time.
TEST_CASE("A fork bomb stays within the processes of its sandbox, and a neighbour works beside it",
          "[redteam]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"fork-bomb", "--max-count", "120"}});
    // The control: outside, the bomb was stopped by its own bound, the rlimit or its time, and did fork. Its
    // processes take the processors from each other: a busy machine gives them time for few.
    CHECK(duel.outside["processes"] > 20);
    CHECK(duel.inside["processes"] > 10);
    const auto limit = duel.conversation["limits"]["maxProcesses"].get<std::uint64_t>();
    CHECK(duel.while_inside.at("processes") - duel.before.at("processes") <=
          static_cast<std::int64_t>(limit) + 16);
}

TEST_CASE("Epoll watches of one sandbox leave a neighbour its own", "[redteam][kernel]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"epoll-watches", "--max-count", "200000"}});
    CHECK(duel.outside["watches"] == 200'000);
    CHECK(duel.inside["watches"] > 0);
}

TEST_CASE("Terminals of one sandbox leave a neighbour its own", "[redteam][kernel][vm]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"ptys", "--max-count", "1000"}});
    CHECK(duel.outside["ptys"] > 900);
    CHECK(duel.while_outside.at("ptys") - duel.before.at("ptys") > 900);
    CHECK(duel.inside["ptys"] > 0);
    if (lab.has_private_uids)
        CHECK(duel.inside["ptys"] <= 256);
}

}  // namespace redteam_resources_test
