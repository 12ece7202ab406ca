#include "core/egress/address_filter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace egress_address_test {

namespace {

/// Read without unmapping, as a resolver gives it.
std::string kind(const char* text) {
    return std::string(atl::egress::special_kind(boost::asio::ip::make_address(text)).value_or("public"));
}

}  // namespace

TEST_CASE("Addresses of the internet are public") {
    for (const char* text : {"1.1.1.1",         "8.8.8.8",     "9.255.255.255",   "11.0.0.0",
                             "100.63.255.255",  "100.128.0.0", "126.255.255.255", "128.0.0.0",
                             "169.253.255.255", "169.255.0.0", "168.63.129.15",   "168.63.129.17",
                             "172.15.255.255",  "172.32.0.0",  "192.167.255.255", "192.169.0.0",
                             "198.17.255.255",  "198.20.0.0",  "223.255.255.255", "192.0.2.1",
                             "198.51.100.1",    "203.0.113.1", "2606:4700::1111", "2001:4860:4860::8888",
                             "2001:200::1",     "2000::",      "3fff:ffff::1",    "2003::1"}) {
        INFO(text);
        CHECK(kind(text) == "public");
    }
}

TEST_CASE("Addresses of hosts, networks and groups are special, from the first to the last of each range") {
    const struct {
        const char* text;
        const char* kind;
    } cases[] = {
        {"0.0.0.0", "unspecified"},
        {"0.255.255.255", "unspecified"},
        {"10.0.0.0", "private"},
        {"10.255.255.255", "private"},
        {"100.64.0.0", "carrier-grade NAT"},
        {"100.127.255.255", "carrier-grade NAT"},
        {"127.0.0.1", "loopback"},
        {"127.255.255.255", "loopback"},
        {"168.63.129.16", "cloud metadata"},
        {"169.254.169.254", "link-local"},
        {"172.16.0.0", "private"},
        {"172.31.255.255", "private"},
        {"192.0.0.1", "reserved"},
        {"192.88.99.1", "reserved"},
        {"192.168.0.0", "private"},
        {"192.168.255.255", "private"},
        {"198.18.0.0", "private"},
        {"198.19.255.255", "private"},
        {"224.0.0.1", "multicast"},
        {"239.255.255.255", "multicast"},
        {"240.0.0.1", "reserved"},
        {"255.255.255.255", "reserved"},
        {"::", "unspecified"},
        {"::1", "loopback"},
        {"fc00::1", "private"},
        {"fdff::1", "private"},
        {"fe80::1", "link-local"},
        {"febf::1", "link-local"},
        {"fec0::1", "private"},
        {"ff02::1", "multicast"},
        {"2001:1ff::1", "reserved"},
        {"4000::1", "reserved"},
        {"1fff::1", "reserved"},
        {"100::1", "reserved"},
    };
    for (const auto& one : cases) {
        INFO(one.text);
        CHECK(kind(one.text) == one.kind);
    }
}

TEST_CASE("An IPv6 address that stands for an IPv4 address is special, also for a public one") {
    for (const char* text :
         {"::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1",
          "64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1",
          "2002:7f00:1::", "2002:0808:0808::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
          "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:8.8.8.8"}) {
        INFO(text);
        CHECK(kind(text) == "IPv4 in IPv6");
    }
}

}  // namespace egress_address_test
