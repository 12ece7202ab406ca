#include "app/limits_warning.hpp"

#include <catch2/catch_test_macros.hpp>

namespace limits_warning_test {

using namespace atl::app;

TEST_CASE("Limits that do not hold are one block with cause and cure; where they hold there is none") {
    CHECK(limits_warning({}, Starter::user).empty());
    CHECK(limits_warning({{"uid", "shared"}, {"disk", "measured"}}, Starter::user).empty());
    const auto both = limits_warning({{"memory", "no place"}, {"cpu", "no place"}}, Starter::user);
    INFO(both);
    CHECK(both.find("WARNING: this server limits neither memory nor processor time") != std::string::npos);
    CHECK(both.find("Cause:  no place\n") != std::string::npos);
    CHECK(both.ends_with("\nFIX: systemd-run --user --scope -p Delegate=yes atolld ..."));
    CHECK(both.find("docs/operations/service.md") != std::string::npos);
    const auto one = limits_warning({{"memory", "offers no memory"}}, Starter::root);
    INFO(one);
    CHECK(one.find("limits no memory of") != std::string::npos);
    CHECK(one.find("Cause:  memory: offers no memory\n") != std::string::npos);
    CHECK(one.find("/sys/fs/cgroup writable") != std::string::npos);
    CHECK(one.find("systemd-run --user") == std::string::npos);
    CHECK(one.ends_with("\nFIX: docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw ..."));
}

}  // namespace limits_warning_test
