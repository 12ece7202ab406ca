// The rules of a sandbox as a server has them.
#include "http/egress/egress_adapters.hpp"

#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>

#include "http/egress/route_rules.hpp"

namespace egress_adapters_test {

using namespace atl;

namespace {

/// No further descriptor can be opened while this lives.
class NoDescriptors {
  public:
    NoDescriptors() {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const rlimit none{0, before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    }
    ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;

  private:
    rlimit before_{};
};

}  // namespace

TEST_CASE("Without a flag of the operator no request lists a host, and the routes of agents are served") {
    const egress::Ceilings off;
    const http::CeilingPolicy policy(off);
    CHECK(policy.check({}).has_value());
    sandbox::EgressSettings asking;
    asking.ask = true;
    const sandbox::EgressSettings by_user{{"a.example"}, "ann"};
    for (const auto& settings : {sandbox::EgressSettings{{"a.example"}, ""}, by_user, asking}) {
        const auto refused = policy.check(settings);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == base::Errc::network_not_allowed);
        CHECK(refused.error().detail().find("--egress-allow") != std::string::npos);
    }
    const auto route = http::make_route_rule(policy, {"model", "https://a.example", {}, {}, {}}, "");
    REQUIRE(route != nullptr);
    CHECK(route->rules->check("a.example:443", 0).has_value());
    CHECK(route->rules->check("b.example:443", 0).has_error());
}

TEST_CASE("Where the addresses of this host cannot be read, any could be one of them, and none is dialled") {
    egress::Ceilings ceilings;
    REQUIRE(ceilings.allow("*").has_value());
    const http::CeilingPolicy policy(ceilings);
    const auto rules = policy.rules({{"a.example"}, ""});
    const auto grant = rules->check("a.example:443", 0);
    REQUIRE(grant.has_value());
    const auto may_dial = [&] {
        http::EgressAddresses addresses{*http::parse_address("1.1.1.1")};
        rules->keep_dialable(*grant, addresses);
        return !addresses.empty();
    };
    {
        const NoDescriptors none;
        CHECK_FALSE(may_dial());
    }
    CHECK(may_dial());
    // Once they are known, a connection needs no descriptor for them.
    const NoDescriptors none;
    CHECK(may_dial());
}

}  // namespace egress_adapters_test
