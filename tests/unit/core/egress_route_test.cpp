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
                             "/a%2fb", "/a%5Cb", "/..;x/", "/a%", "/a%2"}) {
        INFO(path);
        CHECK(is_ambiguous_path(path));
    }
    for (const char* path : {"", "/", "/a", "/a/", "/a..b", "/...", "/.git", "/a%20b", "/a/b.c;d"}) {
        INFO(path);
        CHECK_FALSE(is_ambiguous_path(path));
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
