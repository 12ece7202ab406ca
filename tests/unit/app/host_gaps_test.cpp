#include "app/host_gaps.hpp"

#include <catch2/catch_test_macros.hpp>

namespace host_gaps_test {

using namespace atl;

TEST_CASE("host gaps: sandboxes that share the server's uid can use up its epoll registrations") {
    sandbox::Enforcement enforcement;
    enforcement.uid = "shared";
    const app::Gaps gaps = app::host_gaps(enforcement, {}, {});
    REQUIRE(gaps.contains("uid"));
    CHECK(gaps.at("uid").find("registrations with epoll") != std::string::npos);
    enforcement.uid = "private";
    CHECK_FALSE(app::host_gaps(enforcement, {}, {}).contains("uid"));
}

}  // namespace host_gaps_test
