#include "http/access/ip_address.hpp"

#include <netinet/in.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>

namespace ip_address_test {

using namespace atl::http;

namespace {

IpAddress ip(std::string_view text) {
    return parse_address(text).value();
}

/// The socket address of a peer with the address `bytes`.
sockaddr_storage peer_v6(const boost::asio::ip::address_v6::bytes_type& bytes, std::uint32_t scope) {
    sockaddr_in6 peer{};
    peer.sin6_family = AF_INET6;
    peer.sin6_scope_id = scope;
    std::memcpy(&peer.sin6_addr, bytes.data(), bytes.size());
    sockaddr_storage storage{};
    std::memcpy(&storage, &peer, sizeof peer);
    return storage;
}

}  // namespace

TEST_CASE("an address is read from its text alone") {
    for (const char* text : {"192.0.2.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::", "::1"})
        CHECK(ip(text).to_string() == text);
    CHECK(ip("2001:DB8:0:0::1").to_string() == "2001:db8::1");
    for (const std::string_view text :
         {std::string_view(""), std::string_view("192.0.2"), std::string_view("192.0.2.256"),
          std::string_view("192.0.2.01"), std::string_view(" 192.0.2.1"),
          std::string_view("192.0.2.1\0x", 11), std::string_view("[::1]"), std::string_view("::1%lo"),
          std::string_view("::1:"), std::string_view("unknown"), std::string_view("0x7f000001"),
          std::string_view("2130706433")})
        CHECK_FALSE(parse_address(text));
    CHECK_FALSE(parse_address(std::string(1000, '1')));
}

TEST_CASE("what inet_aton(3) or Asio would read otherwise is no address") {
    for (const std::string_view text : {std::string_view("1.2.3"),
                                        std::string_view("1.2.3.4.5"),
                                        std::string_view("1.2.3."),
                                        std::string_view("010.0.0.1"),
                                        std::string_view("1.2.3.004"),
                                        std::string_view("+1.2.3.4"),
                                        std::string_view("1.2.3.4 "),
                                        std::string_view("1.2.3.4\n"),
                                        std::string_view("1.2.3.4%1"),
                                        std::string_view("1.2.3.-4"),
                                        std::string_view("fe80::1%1"),
                                        std::string_view("fe80::1%"),
                                        std::string_view("fe80::1%4294967297"),
                                        std::string_view("::1\0", 4),
                                        std::string_view("\0", 1),
                                        std::string_view("::00001"),
                                        std::string_view(":::"),
                                        std::string_view("1::2::3"),
                                        std::string_view("::ffff:1.2.3"),
                                        std::string_view("::ffff:1.2.3.04"),
                                        std::string_view("1:2:3:4:5:6:7:8:9"),
                                        std::string_view("0000:0000:0000:0000:0000:0000:0000:0000:0")}) {
        INFO(text);
        CHECK_FALSE(parse_address(text));
        CHECK_FALSE(parse_prefix(text));
        CHECK_FALSE(parse_prefix(std::string(text) + "/8"));
    }
    // The longest text of an address.
    CHECK(ip("0000:0000:0000:0000:0000:ffff:192.168.200.100").to_string() == "192.168.200.100");
}

TEST_CASE("a peer is the address that its text is, without a zone") {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(0xc0000201);
    sockaddr_storage storage{};
    std::memcpy(&storage, &v4, sizeof v4);
    CHECK(address_of(storage) == parse_address("192.0.2.1"));
    CHECK(address_of(peer_v6(boost::asio::ip::make_address_v6("::ffff:192.0.2.1").to_bytes(), 0)) ==
          parse_address("192.0.2.1"));
    CHECK(address_of(peer_v6(boost::asio::ip::make_address_v6("fe80::1").to_bytes(), 2)) ==
          parse_address("fe80::1"));
    storage.ss_family = AF_UNIX;
    CHECK_FALSE(address_of(storage));
}

TEST_CASE("an IPv4 address inside IPv6 is the IPv4 address") {
    CHECK(ip("::ffff:192.0.2.1") == ip("192.0.2.1"));
    CHECK(ip("::ffff:c000:201").to_string() == "192.0.2.1");
    CHECK(ip("::ffff:127.0.0.1").is_loopback());
    CHECK(ip("127.255.0.1").is_loopback());
    CHECK(ip("::1").is_loopback());
    for (const char* text : {"128.0.0.1", "::2", "::127.0.0.1", "fe80::1"})
        CHECK_FALSE(ip(text).is_loopback());
}

TEST_CASE("limits see one IPv4 address, and 64 bits of an IPv6 one") {
    CHECK(budget_number(ip("2001:db8:1:2::1")) == budget_number(ip("2001:db8:1:2:ffff::")));
    CHECK(budget_number(ip("2001:db8:1:2::1")) != budget_number(ip("2001:db8:1:3::1")));
    CHECK(budget_number(ip("192.0.2.1")) != budget_number(ip("192.0.2.2")));
    CHECK(budget_number(ip("::ffff:192.0.2.1")) == budget_number(ip("192.0.2.1")));
    CHECK(budget_number(ip("192.0.2.1")) != budget_number(ip("2001:db8::1")));
}

TEST_CASE("a prefix holds the addresses of its network") {
    const auto holds = [](std::string_view prefix, std::string_view address) {
        return contains(parse_prefix(prefix).value(), ip(address));
    };
    CHECK(holds("10.0.0.0/8", "10.255.0.1"));
    CHECK_FALSE(holds("10.0.0.0/8", "11.0.0.0"));
    CHECK(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
    CHECK(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
    CHECK(holds("::ffff:0:0/96", "203.0.113.9"));
    CHECK_FALSE(holds("::ffff:0:0/96", "::1"));
    CHECK(holds("10.0.0.0/08", "10.255.0.1"));
    CHECK(holds("::ffff:192.0.2.1", "192.0.2.1"));
    CHECK_FALSE(holds("::ffff:192.0.2.1", "192.0.2.2"));
    CHECK(holds("2001:db8::1", "2001:db8::1"));
    CHECK_FALSE(holds("2001:db8::1", "2001:db8::2"));
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
    for (const char* text : {"",
                             "/8",
                             "10.0.0.0/",
                             "10.0.0.0/33",
                             "10.0.0.0/-1",
                             "10.0.0.0/8/8",
                             "10.0.0.1/8",
                             "fd00::/129",
                             "fd00::1/64",
                             "10.0.0.0/8 ",
                             "localhost",
                             "10.0.0.0/255.0.0.0",
                             "10.0.0.0/4294967304",
                             "fd00::/4294967304",
                             "10.0.0.0/18446744073709551624",
                             "10.0.0.0/+8",
                             "10.0.0.0/ 8",
                             "10.0.0.0/0x8",
                             "10.0.0/8",
                             "10/8",
                             "::ffff:10.0.0.0/90",
                             "::ffff:0:0/95",
                             "::ffff:10.0.0.1/104",
                             "fe80::%1/64"}) {
        INFO(text);
        CHECK_FALSE(parse_prefix(text));
    }
}

}  // namespace ip_address_test
