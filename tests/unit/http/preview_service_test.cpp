// Who is let in to previews, and what is said to the others.
#include "http/proxy/preview_service.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/result_printer.hpp"
#include "tests/unit/http/preview_house.hpp"

namespace preview_service_test {

using namespace atl;
using namespace atl::test;
using base::Errc;

TEST_CASE(
    "A listener of previews gives an address so many connections, a trusted proxy as many as it wants") {
    http::PreviewSettings settings;
    settings.names = http::PreviewNames::make("preview.example", "preview-{id}").value();
    settings.trusted_proxies.add("192.0.2.1");
    settings.limits.connections_per_address = 2;
    PreviewHouse lab(settings);
    const http::PeerAddress one = http::parse_address("203.0.113.9");
    const http::PeerAddress other = http::parse_address("203.0.113.10");
    const http::PeerAddress proxy = http::parse_address("192.0.2.1");
    const auto first = lab.service().connect(one);
    CHECK(first.has_value());
    {
        const auto second = lab.service().connect(one);
        CHECK(second.has_value());
        const auto third = lab.service().connect(one);
        REQUIRE(third.has_error());
        CHECK(third.error().code() == Errc::too_many_connections);
        CHECK(lab.service().connect(other).has_value());
    }
    CHECK(lab.service().connect(one).has_value());
    std::vector<http::CountLimiter::Lease> of_proxy;
    for (int i = 0; i < 3; ++i) {
        auto lease = lab.service().connect(proxy);
        REQUIRE(lease.has_value());
        of_proxy.push_back(std::move(*lease));
    }
}

}  // namespace preview_service_test
