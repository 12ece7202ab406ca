// Addresses of a name that only together are a difficulty. The others are in session_test.cpp.
#include "http/server/listener.hpp"

#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace listener_test {

using namespace atl;

TEST_CASE("a name may have the addresses that stand for all of IPv6 and for all of IPv4") {
    boost::asio::io_context io;
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::array<addrinfo, 2> list{};
    const std::size_t v6_at = GENERATE(0U, 1U);
    list.at(v6_at).ai_addr = reinterpret_cast<sockaddr*>(&v6);
    list.at(v6_at).ai_addrlen = sizeof v6;
    list.at(1 - v6_at).ai_addr = reinterpret_cast<sockaddr*>(&v4);
    list.at(1 - v6_at).ai_addrlen = sizeof v4;
    list[0].ai_next = &list[1];
    const bool has_v6 = http::Listener::open(io.get_executor(), "[::]:0").has_value();
    const auto opened = http::Listener::open_all(io.get_executor(), "name:0", list.data());
    REQUIRE(opened.has_value());
    CHECK(opened->size() == (has_v6 ? 2U : 1U));
    CHECK(opened->front().port() == opened->back().port());
}

}  // namespace listener_test
