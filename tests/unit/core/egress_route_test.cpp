// The grammar of routes: addresses of upstreams, paths and headers.
#include "core/egress/route.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace egress_route_test {

using namespace atl::egress;

namespace {

std::string normal(std::string_view text) {
    const auto upstream = parse_upstream(text);
    return upstream ? upstream->text() : "nothing";
}

}  // namespace

TEST_CASE("An upstream has one spelling") {
    CHECK(normal("https://API.example.com") == "https://api.example.com");
    CHECK(normal("https://api.example.com:443/") == "https://api.example.com");
    CHECK(normal("http://api.example.com:443/v1/") == "http://api.example.com:443/v1");
    CHECK(normal("http://[2001:DB8::1]:8080/a/b") == "http://[2001:db8::1]:8080/a/b");
    CHECK(parse_upstream("https://a.example")->authority() == "a.example");
    CHECK(parse_upstream("https://a.example:80")->authority() == "a.example:80");
    for (const char* text :
         {"", "a.example", "ftp://a.example", "https://", "https://a.example?x", "https://a.example/?x",
          "https://a.example/#x", "https://u:p@a.example", "https://127.1", "https://a.example:0",
          "https://a.example/../x", "https://a.example//x", "https://a.example/%2e%2e/x",
          "https://a.example/a b", "https://a.example/\r\nX: y", "https://*.example", "HTTPS://a.example"}) {
        INFO(text);
        CHECK_FALSE(parse_upstream(text));
    }
}

TEST_CASE("A path with two readings is told from one that only looks strange") {
    for (const char* path : {"/a/../b", "/..", "..", "/a/.", "/a//b", "//", "/a\\b", "/%2e%2e/", "/%2E/",
                             "/a%2fb", "/a%5Cb", "/..;x/", "/a%", "/a%2", "/a%zz", "/a%u002e"}) {
        INFO(path);
        CHECK(is_ambiguous_path(path));
    }
    for (const char* path : {"", "/", "/a", "/a/", "/a..b", "/...", "/.git", "/a%20b", "/a/b.c;d", "/100%25",
                             "/100%25%20x", "/a%2541", "/%c3%a9", "/%e0%a4%85", "/%f0%9f%98%80"}) {
        INFO(path);
        CHECK_FALSE(is_ambiguous_path(path));
    }
}

TEST_CASE("A path that a server reads only after one more step has two readings") {
    for (const char* path :
         {// decoded twice
          "/v1/%252e%252e/x", "/v1/%252E/x", "/v1/a%252fb", "/v1/a%255Cb", "/v1/%25252e%25252e/x",
          "/v1/a%2500",
          // with something behind the dots that is taken off
          "/v1/..%3bx/y", "/v1/.%3B/y", "/v1/..%20/y", "/v1/.%20", "/v1/..%00/y", "/v1/..;/y",
          // longer forms of "." and "/"
          "/v1/%c0%ae%c0%ae/y", "/v1/a%C0%AFb", "/v1/%c1%9c", "/v1/%e0%80%ae%e0%80%ae/y", "/v1/%E0%80%AF",
          "/v1/%f0%80%80%ae", "/v1/%f8%80%80%80%ae", "/v1/%25c0%25ae",
          // control characters
          "/v1/a%00", "/v1/a%0a", "/v1/%1F", "/v1/%7f"}) {
        INFO(path);
        CHECK(is_ambiguous_path(path));
    }
}

TEST_CASE("A pattern of paths is exact, or the beginning of paths") {
    CHECK(matches_path("/v1/models", "/v1/models"));
    CHECK_FALSE(matches_path("/v1/models", "/v1/models/"));
    CHECK(matches_path("/v1/*", "/v1/"));
    CHECK(matches_path("/v1/*", "/v1/a/b"));
    CHECK_FALSE(matches_path("/v1/*", "/v1"));
    for (const char* pattern : {"/", "/*", "/v1", "/v1*", "/v1/*"})
        CHECK(is_path_pattern(pattern));
    for (const char* pattern : {"", "*", "v1", "/a*b", "/a/**", "/../*", "/a b", "/a?b"}) {
        INFO(pattern);
        CHECK_FALSE(is_path_pattern(pattern));
    }
}

TEST_CASE("A route sets headers that are a request's own matter, and one line each") {
    CHECK(is_route_header("x-api-key"));
    CHECK(is_route_header("Authorization"));
    for (const char* name :
         {"", "Host", "connection", "Content-Length", "Transfer-Encoding", "a b", "a:", "x\r\ny"}) {
        INFO(name);
        CHECK_FALSE(is_route_header(name));
    }
    CHECK(is_header_value("Bearer x\ty"));
    CHECK_FALSE(is_header_value("x\r\nEvil: y"));
    CHECK_FALSE(is_header_value(std::string_view("x\0y", 3)));
    CHECK(is_route_method("PATCH"));
    for (const char* method : {"", "TRACE", "CONNECT", "GET POST"})
        CHECK_FALSE(is_route_method(method));
}

}  // namespace egress_route_test
