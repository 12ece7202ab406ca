#include "http/access/client_address.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/base/limits.hpp"

namespace client_address_test {

using namespace atl::http;

namespace {

TrustedProxies trusting(const std::vector<std::string>& texts) {
    TrustedProxies trusted;
    for (const auto& text : texts)
        if (!trusted.add(text))
            throw std::invalid_argument(text);
    return trusted;
}

Request with(std::vector<HeaderField> fields) {
    Request request;
    request.fields = std::move(fields);
    return request;
}

const TrustedProxies k_trusted = trusting({"10.0.0.0/8", "2001:db8:ffff::/48"});

// Whom X-Forwarded-For makes of a request from `peer`.
std::string client(const std::string& forwarded_for, const char* peer = "10.0.0.1") {
    return address_text(
        client_of(with({{"X-Forwarded-For", forwarded_for}}), parse_address(peer), k_trusted).address);
}

}  // namespace

TEST_CASE("what forwards a request counts only from a named proxy") {
    const Request request = with({{"X-Forwarded-For", "203.0.113.9"},
                                  {"X-Forwarded-Host", "atoll.example"},
                                  {"X-Forwarded-Proto", "https"}});
    // The positive control: the same request through the proxy.
    const Client through = client_of(request, parse_address("10.1.2.3"), k_trusted);
    CHECK(address_text(through.address) == "203.0.113.9");
    CHECK(through.host == "atoll.example");
    CHECK(through.scheme == "https");
    CHECK_FALSE(through.is_trusted);
    for (const char* peer : {"11.0.0.1", "127.0.0.1", "2001:db8::1", "203.0.113.9"}) {
        const Client direct = client_of(request, parse_address(peer), k_trusted);
        CHECK(address_text(direct.address) == peer);
        CHECK(direct.host.empty());
        CHECK(direct.scheme.empty());
        CHECK_FALSE(direct.is_trusted);
    }
    CHECK(address_text(client_of(request, std::nullopt, k_trusted).address) == "unix");
    const TrustedProxies unix_proxy = trusting({"unix"});
    CHECK(address_text(client_of(request, std::nullopt, unix_proxy).address) == "203.0.113.9");
    CHECK(address_text(client_of(request, parse_address("127.0.0.1"), unix_proxy).address) == "127.0.0.1");
}

TEST_CASE("the client is the first address from the right that is no named proxy") {
    CHECK(client("203.0.113.9") == "203.0.113.9");
    CHECK(client("203.0.113.9, 10.0.0.7, 10.0.0.8") == "203.0.113.9");
    // Any client can have written the elements to the left of it.
    CHECK(client("127.0.0.1, 203.0.113.9") == "203.0.113.9");
    CHECK(client("10.0.0.3, 203.0.113.9, 10.0.0.7") == "203.0.113.9");
    CHECK(client("nonsense, 203.0.113.9") == "203.0.113.9");
    CHECK(client("10.0.0.3, 10.0.0.7") == "10.0.0.3");
    CHECK(client("2001:db8:ffff::1, 10.0.0.7") == "2001:db8:ffff::1");
    CHECK(client("2001:db8::7, 2001:db8:ffff::1") == "2001:db8::7");
    CHECK(client(" 203.0.113.9\t,, 10.0.0.7 ,") == "203.0.113.9");
    CHECK(client("::ffff:203.0.113.9, ::ffff:10.0.0.7") == "203.0.113.9");
    CHECK(client("203.0.113.9:1234") == "203.0.113.9");
    CHECK(client("[2001:db8::7]:1234, [2001:db8:ffff::1]") == "2001:db8::7");
}

TEST_CASE("more than one field is one list in their order") {
    const auto address = [](std::vector<HeaderField> fields) {
        return address_text(client_of(with(std::move(fields)), parse_address("10.0.0.1"), k_trusted).address);
    };
    CHECK(address({{"X-Forwarded-For", "198.51.100.1"}, {"A", "b"}, {"x-forwarded-for", "203.0.113.9"}}) ==
          "203.0.113.9");
    CHECK(address({{"X-Forwarded-For", "198.51.100.1, 203.0.113.9"}, {"X-Forwarded-For", "10.0.0.7"}}) ==
          "203.0.113.9");
    CHECK(address({{"X-Forwarded-For", "203.0.113.9"}, {"X-Forwarded-For", ""}}) == "203.0.113.9");
    CHECK(address({{"Forwarded", "for=203.0.113.9"}, {"X-Real-IP", "203.0.113.9"}}) == "10.0.0.1");
}

TEST_CASE("a list that is none leaves the peer") {
    for (const char* text :
         {"", ",", "unknown", "_hidden", "203.0.113.9;x", "203.0.113.9 10.0.0.7", "203.0.113.999",
          "[203.0.113.9]", "[::1", "[::1]x", "[::1]:", "::1%lo", "203.0.113.9:", "203.0.113.9:x",
          "203.0.113.9, unknown", "203.0.113.9, x, 10.0.0.7"}) {
        INFO(text);
        CHECK(client(text) == "10.0.0.1");
    }
    std::string many = "203.0.113.9";
    for (std::size_t hop = 1; hop < atl::base::k_max_forwarded_hops; ++hop)
        many += ",10.0.0.7";
    CHECK(client(many) == "203.0.113.9");
    CHECK(client(many + ",10.0.0.7") == "10.0.0.1");
}

TEST_CASE("host and scheme are what the nearest proxy wrote, if it is of their form") {
    const auto from = [](std::string_view host, std::string_view scheme) {
        static Request request;
        request = with({{"X-Forwarded-Host", host}, {"X-Forwarded-Proto", scheme}});
        return client_of(request, parse_address("10.0.0.1"), k_trusted);
    };
    CHECK(from("evil.example, atoll.example:444", "https, http").host == "atoll.example:444");
    CHECK(from("a", "https, http").scheme == "http");
    CHECK(from("[2001:db8::1]:80", "HTTPS").scheme == "https");
    CHECK(from("[2001:db8::1]:80", "HTTPS").host == "[2001:db8::1]:80");
    for (const char* host : {"", "a/b", "a@b", "a b", "a?b", "a#b", "\"a\""})
        CHECK(from(host, "ftp").host.empty());
    CHECK(from(std::string(300, 'a'), "").host.empty());
    for (const char* scheme : {"", "ftp", "https:", "http s"})
        CHECK(from("a", scheme).scheme.empty());
}

}  // namespace client_address_test
