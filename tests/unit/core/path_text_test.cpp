#include "core/plain/path_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <random>

namespace path_text_test {

using namespace atl::base;

TEST_CASE("plain UTF-8 is its own path text") {
    for (const std::string_view path : {"", "a", "a b/c?d#e", "\xc3\xa4/\xe2\x82\xac\n", "~/$HOME/../x"}) {
        CHECK(path_text(path) == path);
        CHECK(path_bytes(path) == path);
    }
}

TEST_CASE("bytes that are not UTF-8, and what looks like them, are escaped in path text") {
    CHECK(path_text("a\xff/b\xc3") == "a%FF/b%C3");
    CHECK(path_text("a%41") == "a%2541");
    CHECK(path_text("100%") == "100%");
    CHECK(path_text("%%41%zz") == "%%2541%zz");
    CHECK(path_text("%4\xff") == "%4%FF");
    CHECK(path_text("\xed\xa0\x80") == "%ED%A0%80");
    CHECK(path_bytes("a%ff%FF%2541%zz%4") == "a\xff\xff%41%zz%4");
}

TEST_CASE("a shown path is the path as it is, and U+FFFD for each part that is not UTF-8") {
    for (const std::string_view path :
         {"", "50%20off", "a%41", "100%", "\xc3\xa4/\xe2\x82\xac\n\"", "\xef\xbf\xbd"})
        CHECK(shown_path(path) == path);
    CHECK(shown_path("a\xff/b\xc3") == "a\xef\xbf\xbd/b\xef\xbf\xbd");
    CHECK(shown_path("\xff\xfe") == "\xef\xbf\xbd\xef\xbf\xbd");
    CHECK(shown_path("\xe2\x82") == "\xef\xbf\xbd");
}

TEST_CASE("a path as a part of a URL has each byte as it is on disk") {
    CHECK(path_href("a/B-9._~") == "a/B-9._~");
    CHECK(path_href("a\xff%41 ?#+\xc3\xa4\n") == "a%FF%2541%20%3F%23%2B%C3%A4%0A");
}

TEST_CASE("any path comes back from its text, which is UTF-8") {
    std::mt19937 random(11);
    constexpr std::string_view k_likely = "%%%4aFx/\xc3\xa4\xff\xe2\x82\xac";
    for (int round = 0; round < 20'000; ++round) {
        std::string path;
        for (std::size_t size = random() % 12; size > 0; --size)
            path.push_back(k_likely[random() % k_likely.size()]);
        const std::string text = path_text(path);
        REQUIRE(is_utf8(text));
        REQUIRE(is_utf8(shown_path(path)));
        REQUIRE(path_bytes(text) == path);
        REQUIRE(path_bytes(path_href(path)) == path);
    }
}

}  // namespace path_text_test
