#include "cgroup/members.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "../isolation/fixture.hpp"
#include "core/plain/unique_fd.hpp"

namespace members_test {

namespace {

using namespace atl;

TEST_CASE("members: a process's own name does not say whose it is") {
    char before[16] = {};
    REQUIRE(::prctl(PR_GET_NAME, before) == 0);
    REQUIRE(::prctl(PR_SET_NAME, "Uid: 1879048199") == 0);
    const test::TempFolder group;
    test::write_text(group / "cgroup.procs", std::to_string(::getpid()) + "\n");
    const base::UniqueFd folder(::open(group.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto uids = cgroup::uids_of_members(folder.get());
    ::prctl(PR_SET_NAME, before);
    CHECK(uids == std::vector<std::uint32_t>{::getuid()});
}

}  // namespace

}  // namespace members_test
