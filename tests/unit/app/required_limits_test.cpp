#include "app/required_limits.hpp"

#include <catch2/catch_test_macros.hpp>

namespace required_limits_test {

using namespace atl;
using app::Gaps;

TEST_CASE("required limits: what is enforced may be required") {
    sandbox::Enforcement all;
    all.filesystem = "bubblewrap";
    all.network = "netns";
    all.syscalls = "seccomp";
    all.uid = "private";
    all.memory = all.cpu = all.processes = "cgroup1";
    all.disk = "quota";
    all.sockets = "count";
    all.tmp = "tmpfs";
    const Gaps gaps = app::gaps_of(all, {{"memory", "never shown"}});
    CHECK(gaps.empty());
    CHECK(app::check_required(app::limit_names(), gaps).has_value());
}

TEST_CASE("required limits: a disk that is only measured is not limited") {
    sandbox::Enforcement measured;
    measured.disk = "check";
    const Gaps gaps = app::gaps_of(measured, {{"disk", "no quotas"}});
    CHECK(gaps.at("disk") == "no quotas");
    const auto refused = app::check_required({"disk"}, gaps);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().detail().find("disk (no quotas)\nFIX: ") != std::string::npos);
    CHECK(refused.error().detail().ends_with("mount -o prjquota DEVICE DATA-DIRECTORY"));
}

TEST_CASE("required limits: what is not enforced is refused with its reason, all at once") {
    sandbox::Enforcement nothing;
    nothing.network = "host";
    const Gaps gaps = app::gaps_of(nothing, {{"memory", "no cgroup"}});
    CHECK(gaps.size() == app::limit_names().size());
    CHECK(app::check_required({}, gaps).has_value());
    const auto refused = app::check_required({"memory", "uid"}, gaps);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == base::Errc::host_unsupported);
    CHECK(refused.error().detail().find("memory (no cgroup); uid (") != std::string::npos);
    CHECK(refused.error().detail().find("cpu") == std::string::npos);
    CHECK(refused.error().detail().ends_with(app::limits_fix(app::this_starter())));
}

}  // namespace required_limits_test
