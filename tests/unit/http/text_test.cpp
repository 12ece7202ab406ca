#include "http/wire/text.hpp"
#include "core/plain/utf8.hpp"

#include <catch2/catch_test_macros.hpp>

namespace text_test {

using namespace atl;
using namespace atl::http;

TEST_CASE("percent-decoding refuses what is not two hexadecimal digits") {
    CHECK(percent_decoded("a%20b%2f") == "a b/");
    CHECK(percent_decoded("plain") == "plain");
    CHECK_FALSE(percent_decoded("%"));
    CHECK_FALSE(percent_decoded("%2"));
    CHECK_FALSE(percent_decoded("%zz"));
}

TEST_CASE("loose percent-decoding keeps what is not two hexadecimal digits") {
    CHECK(loosely_percent_decoded("a%20b%2f") == "a b/");
    CHECK(loosely_percent_decoded("") == "");
    CHECK(loosely_percent_decoded("%%41%4%zz%2541%") == "%A%4%zz%41%");
}

TEST_CASE("UTF-8 is checked as RFC 3629 defines it") {
    CHECK(base::is_utf8(""));
    CHECK(base::is_utf8("plain text that is longer than a machine word"));
    CHECK(base::is_utf8("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
    CHECK_FALSE(base::is_utf8("\x80"));
    CHECK_FALSE(base::is_utf8("\xC0\xAF"));          // overlong
    CHECK_FALSE(base::is_utf8("\xE0\x80\x80"));      // overlong
    CHECK_FALSE(base::is_utf8("\xED\xA0\x80"));      // a surrogate
    CHECK_FALSE(base::is_utf8("\xF4\x90\x80\x80"));  // beyond U+10FFFF
    CHECK_FALSE(base::is_utf8("12345678\xE2\x82"));  // cut short
}

TEST_CASE("a decimal number has digits only and fits") {
    CHECK(parse_decimal("0") == 0);
    CHECK(parse_decimal("18446744073709551615") == UINT64_MAX);
    CHECK_FALSE(parse_decimal("18446744073709551616"));
    CHECK_FALSE(parse_decimal(""));
    CHECK_FALSE(parse_decimal("+1"));
    CHECK_FALSE(parse_decimal("-1"));
    CHECK_FALSE(parse_decimal("1 "));
    CHECK_FALSE(parse_decimal("0x1"));
}

TEST_CASE("a query is split before it is decoded") {
    const auto items = parse_query("a=1%262&b=x+y&&c");
    REQUIRE(items);
    CHECK(*items == QueryItems{{"a", "1&2"}, {"b", "x y"}, {"c", ""}});
    // Once, and a value may be any bytes: which of them are taken is the route's matter.
    CHECK(*parse_query("a=%2541&b=%ff") == QueryItems{{"a", "%41"}, {"b", "\xff"}});
    CHECK_FALSE(parse_query("%ff=a"));
    CHECK_FALSE(parse_query("a=%"));
    CHECK(parse_query("")->empty());
}

TEST_CASE("list elements are taken one by one and trimmed") {
    std::string_view list = " a ;\tb;;c";
    CHECK(take_element(list, ';') == "a");
    CHECK(take_element(list, ';') == "b");
    CHECK(take_element(list, ';').empty());
    CHECK(take_element(list, ';') == "c");
    CHECK(list.empty());
}

TEST_CASE("tokens are equal in either case, visible ASCII is bounded") {
    CHECK(iequals("Content-Type", "content-type"));
    CHECK_FALSE(iequals("a", "ab"));
    CHECK(is_visible_ascii("abc-123", 7));
    CHECK_FALSE(is_visible_ascii("abc-123", 6));
    CHECK_FALSE(is_visible_ascii("a b", 10));
    CHECK_FALSE(is_visible_ascii("", 10));
    CHECK_FALSE(is_visible_ascii("a\n", 10));
}

}  // namespace text_test
