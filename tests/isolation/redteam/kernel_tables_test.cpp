// Tables of the kernel that are charged to no cgroup and that no limit bounds: a sandbox has no access to
// them.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/redteam/duel.hpp"

namespace kernel_tables_test {

using namespace atl::test;

namespace {

/// How much more of `name` was in use; 0 where this user is not told.
std::int64_t more(const HostSample& now, const HostSample& before, const char* name) {
    return now.contains(name) && before.contains(name) ? now.at(name) - before.at(name) : 0;
}

}  // namespace

TEST_CASE("Filters on sockets take nothing of the host's budget for compiled programs", "[redteam][kernel]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"socket-filters", "--max-count", "300"}});
    CHECK(duel.outside["filters"] == 300);
    if (is_root())
        CHECK(more(duel.while_outside, duel.before, "jit_kb") > 2000);
    CHECK(duel.inside["filters"] == 0);
    CHECK(duel.inside.refused.at("filters") == "EPERM");
    CHECK(more(duel.while_inside, duel.before, "jit_kb") < 512);
}

TEST_CASE("Chains of seccomp filters take nothing of the host's budget for compiled programs",
          "[redteam][kernel][vm]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"seccomp-filters", "--max-count", "140"}});
    CHECK(duel.outside["filters"] == 140);
    if (is_root())
        CHECK(more(duel.while_outside, duel.before, "jit_kb") > 1000);
    CHECK(duel.inside["filters"] == 0);
    CHECK(more(duel.while_inside, duel.before, "jit_kb") < 512);
}

TEST_CASE("Contexts of asynchronous I/O are not to be had", "[redteam][kernel]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"aio", "--max-count", "100"}});
    CHECK(duel.outside["contexts"] == 100);
    CHECK(duel.inside["contexts"] == 0);
    CHECK(duel.inside.refused.at("contexts") == "ENOSYS");
}

TEST_CASE("Memberships of multicast groups, which delay the creates of others, are not to be had",
          "[redteam][kernel]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"memberships", "--max-count", "400"}});
    CHECK(duel.outside["memberships"] == 400);
    CHECK(duel.inside["memberships"] == 0);
    CHECK(duel.inside.refused.at("memberships") == "ENODEV");
}

TEST_CASE("Triggers of pressure are not to be had", "[redteam][kernel]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Duel duel = attack_beside_neighbour(lab, {{"pressure-triggers", "--max-count", "100"}});
    if (duel.outside["triggers"] == 0)
        SKIP("no control: this host accounts no pressure for users");
    CHECK(duel.outside["triggers"] == 100);
    CHECK(duel.inside["triggers"] == 0);
    CHECK(duel.inside.refused.at("triggers") == "ENOENT");
}

}  // namespace kernel_tables_test
