#include "http/access/ip_address.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace atl::http;

namespace {

IpAddress ip(std::string_view text) {
    return IpAddress::parse(text).value();
}

}  // namespace

TEST_CASE("an address is read from its text alone") {
    for (const char* text : {"192.0.2.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::", "::1"})
        CHECK(ip(text).text() == text);
    CHECK(ip("2001:DB8:0:0::1").text() == "2001:db8::1");
    for (const std::string_view text :
         {std::string_view(""), std::string_view("192.0.2"), std::string_view("192.0.2.256"),
          std::string_view("192.0.2.01"), std::string_view(" 192.0.2.1"),
          std::string_view("192.0.2.1\0x", 11), std::string_view("[::1]"), std::string_view("::1%lo"),
          std::string_view("::1:"), std::string_view("unknown"), std::string_view("0x7f000001"),
          std::string_view("2130706433")})
        CHECK_FALSE(IpAddress::parse(text));
    CHECK_FALSE(IpAddress::parse(std::string(1000, '1')));
}

TEST_CASE("an IPv4 address inside IPv6 is the IPv4 address") {
    CHECK(ip("::ffff:192.0.2.1") == ip("192.0.2.1"));
    CHECK(ip("::ffff:c000:201").text() == "192.0.2.1");
    CHECK(ip("::ffff:127.0.0.1").is_loopback());
    CHECK(ip("127.255.0.1").is_loopback());
    CHECK(ip("::1").is_loopback());
    for (const char* text : {"128.0.0.1", "::2", "::127.0.0.1", "fe80::1"})
        CHECK_FALSE(ip(text).is_loopback());
}

TEST_CASE("limits see one IPv4 address, and 64 bits of an IPv6 one") {
    CHECK(ip("2001:db8:1:2::1").budget_number() == ip("2001:db8:1:2:ffff::").budget_number());
    CHECK(ip("2001:db8:1:2::1").budget_number() != ip("2001:db8:1:3::1").budget_number());
    CHECK(ip("192.0.2.1").budget_number() != ip("192.0.2.2").budget_number());
    CHECK(ip("::ffff:192.0.2.1").budget_number() == ip("192.0.2.1").budget_number());
    CHECK(ip("192.0.2.1").budget_number() != ip("2001:db8::1").budget_number());
}

TEST_CASE("a prefix holds the addresses of its network") {
    const auto holds = [](std::string_view prefix, std::string_view address) {
        return IpPrefix::parse(prefix).value().contains(ip(address));
    };
    CHECK(holds("10.0.0.0/8", "10.255.0.1"));
    CHECK_FALSE(holds("10.0.0.0/8", "11.0.0.0"));
    CHECK(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
    CHECK(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
    CHECK(holds("192.0.2.1", "192.0.2.1"));
    CHECK_FALSE(holds("192.0.2.1", "192.0.2.2"));
    CHECK(holds("192.0.2.128/25", "192.0.2.255"));
    CHECK_FALSE(holds("192.0.2.128/25", "192.0.2.127"));
    CHECK(holds("0.0.0.0/0", "203.0.113.9"));
    CHECK_FALSE(holds("0.0.0.0/0", "2001:db8::1"));
    CHECK(holds("::/0", "2001:db8::1"));
    CHECK_FALSE(holds("::/0", "203.0.113.9"));
    CHECK(holds("fd00::/8", "fdff::1"));
    CHECK_FALSE(holds("fd00::/8", "fe00::1"));
    for (const char* text :
         {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.1/8", "fd00::/129",
          "fd00::1/64", "10.0.0.0/8 ", "localhost", "10.0.0.0/255.0.0.0"}) {
        INFO(text);
        CHECK_FALSE(IpPrefix::parse(text));
    }
}
