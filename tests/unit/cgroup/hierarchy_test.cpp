#include "cgroup/hierarchy.hpp"

#include <catch2/catch_test_macros.hpp>

namespace hierarchy_test {

namespace {

using namespace atl::cgroup;

const char* const k_pure = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const char* const k_hybrid =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "34 31 0:31 /lxc/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "35 31 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("cgroup: the v2 hierarchy is found by itself, beside v1, and as a part", "[cgroup]") {
    const char* part = "30 24 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    CHECK(parse_layout(k_pure, "0::/\n").unified == Candidates{"/sys/fs/cgroup"});
    CHECK(parse_layout(k_pure, "0::/\n").v1.empty());
    CHECK(parse_layout(k_pure, "0::/user.slice/a.scope\n").unified ==
          Candidates{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/a.scope"});
    CHECK(parse_layout(k_hybrid, "4:memory:/x\n0::/\n").unified == Candidates{"/sys/fs/cgroup/uni fied"});
    CHECK(parse_layout(part, "0::/user.slice/a\n").unified ==
          Candidates{"/sys/fs/cgroup", "/sys/fs/cgroup/a"});
    CHECK(parse_layout(part, "0::/other\n").unified == Candidates{"/sys/fs/cgroup"});
    CHECK(parse_layout("1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n").unified.empty());
}

TEST_CASE("cgroup: the v1 hierarchies are found by their controllers", "[cgroup]") {
    const auto layout =
        parse_layout(k_hybrid, "4:memory:/lxc/7/a\n3:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/\n");
    REQUIRE(layout.v1.size() == 3);
    const Candidates cpu{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/b"};
    CHECK(layout.v1.at(Controller::cpu) == cpu);
    CHECK(layout.v1.at(Controller::cpuacct) == cpu);
    CHECK(layout.v1.at(Controller::memory) == Candidates{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a"});
    CHECK_FALSE(layout.v1.contains(Controller::pids));
    CHECK_FALSE(layout.v1.contains(Controller::freezer));
}

TEST_CASE("cgroup: text that is no mount table is none", "[cgroup]") {
    for (const char* text :
         {"", "\n\n", " - cgroup cgroup rw,memory\n", "1 2 3 4 5 6 - cgroup\n", "a b c d e f - "})
        CHECK(parse_layout(text, ":::\n::\n0:\n").v1.empty());
}

}  // namespace hierarchy_test
