#include "core/egress/host.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "core/egress/limits.hpp"

namespace egress_host_test {

using namespace atl::egress;

namespace {

/// The host as it is compared and resolved; empty if it is none.
std::string host(std::string_view text) {
    const auto parsed = parse_host(text);
    return parsed ? parsed->name : "";
}

std::string endpoint(std::string_view text, std::uint16_t default_port = 0) {
    const auto parsed = parse_endpoint(text, default_port);
    return parsed ? parsed->text() : "";
}

}  // namespace

TEST_CASE("A host has one spelling: in lower case, without the dot at its end") {
    CHECK(host("api.example.com") == "api.example.com");
    CHECK(host("API.Example.COM") == "api.example.com");
    CHECK(host("api.example.com.") == "api.example.com");
    CHECK(host("_dmarc.a-b.example") == "_dmarc.a-b.example");
    CHECK(host("localhost") == "localhost");
    for (const std::string_view text :
         {std::string_view(""), std::string_view("."), std::string_view("a..b"), std::string_view(".a"),
          std::string_view("api.example.com.."), std::string_view("a b"), std::string_view("a/b"),
          std::string_view("user@a"), std::string_view("a%2eb"), std::string_view("a%lo"),
          std::string_view("b\xc3\xbc"
                           "cher.example"),
          std::string_view("api.example.com\0.evil.example", 29), std::string_view("api.example.com\r\n"),
          std::string_view("*.example.com"), std::string_view("127.0.0.1%00.example.org")}) {
        INFO(text);
        CHECK_FALSE(parse_host(text));
    }
}

TEST_CASE("A name is as long as names of the DNS are") {
    const std::string label(k_max_label_bytes, 'a');
    CHECK(parse_host(label + ".example"));
    CHECK_FALSE(parse_host(label + "a.example"));
    const std::string longest = label + '.' + label + '.' + label + '.' + std::string(61, 'b');
    REQUIRE(longest.size() == k_max_name_bytes);
    CHECK(host(longest) == longest);
    CHECK(host(longest + '.') == longest);
    CHECK_FALSE(parse_host(longest + 'b'));
}

TEST_CASE("What a resolver could take for an address is an address in its one spelling, or nothing") {
    CHECK(host("127.0.0.1") == "127.0.0.1");
    CHECK(host("127.0.0.1.") == "127.0.0.1");
    CHECK(host("[::1]") == "::1");
    CHECK(host("[2001:DB8:0:0::1]") == "2001:db8::1");
    CHECK(parse_host("192.0.2.1")->address);
    CHECK(parse_host("[::1]")->address);
    CHECK_FALSE(parse_host("a.example")->address);
    for (const std::string_view text : {"2130706433",
                                        "127.1",
                                        "127.0.1",
                                        "0x7f000001",
                                        "0x7f.1",
                                        "0X7F.0.0.1",
                                        "0177.0.0.1",
                                        "127.0.0.01",
                                        "127.0.0.0x1",
                                        "127.0.0.0x",
                                        "256.0.0.1",
                                        "1.2.3.4.5",
                                        "example.1",
                                        "1",
                                        "::1",
                                        "[::1",
                                        "::1]",
                                        "[]",
                                        "[::1%lo]",
                                        "[127.0.0.1]",
                                        "[::ffff:127.0.0.1]",
                                        "[::ffff:7f00:1]",
                                        "[a.example]"}) {
        INFO(text);
        CHECK_FALSE(parse_host(text));
    }
    // A digit alone makes no address: the last label counts.
    CHECK(host("1.example") == "1.example");
    CHECK(host("0x7f.example") == "0x7f.example");
    CHECK(host("a.0xyz") == "a.0xyz");
}

TEST_CASE("An endpoint is a host with a port of digits") {
    CHECK(endpoint("API.example.com:443") == "api.example.com:443");
    CHECK(endpoint("[::1]:8080") == "[::1]:8080");
    CHECK(endpoint("192.0.2.1:1") == "192.0.2.1:1");
    CHECK(endpoint("a.example", 80) == "a.example:80");
    CHECK(endpoint("[::1]", 80) == "[::1]:80");
    CHECK(endpoint("a.example:81", 80) == "a.example:81");
    for (const std::string_view text :
         {"", ":443", "a.example", "[::1]", "a.example:", "a.example:0", "a.example:65536", "a.example:+80",
          "a.example:080", "a.example:80 ", "a.example:80:80", "::1:80", "user@a.example:80", "[::1]80",
          "a.example:http"}) {
        INFO(text);
        CHECK(endpoint(text) == "");
    }
    CHECK(endpoint("a.example:", 80) == "");
}

}  // namespace egress_host_test
