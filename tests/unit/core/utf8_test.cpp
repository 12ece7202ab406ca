#include "core/plain/utf8.hpp"

#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

namespace atl::guest::utf8_test {
namespace {

std::string repaired(std::string_view bytes, std::size_t piece) {
    base::Utf8Repair repair;
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
        repair.feed(bytes.substr(at, piece), out);
    repair.finish(out);
    return out;
}

}  // namespace

TEST_CASE("bytes become valid UTF-8, the same however they are cut") {
    const std::string r = "\xEF\xBF\xBD";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"plain", "plain"},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\x80", r},                          // a continuation out of place
        {"\xFF\xFE", r + r},                  // never valid
        {"\xC0\xAF", r + r},                  // overlong
        {"\xE0\x80\xAF", r + r + r},          // overlong
        {"\xED\xA0\x80", r + r + r},          // a surrogate
        {"\xF4\x90\x80\x80", r + r + r + r},  // beyond U+10FFFF
        {"\xF5\x80", r + r},
        {"\xE2\x82", r},  // cut at the end
        {"\xE2\x82"
         "a",
         r + "a"},                                 // cut by something else
        {"\xF0\x9F\x98\xC3\xA9", r + "\xC3\xA9"},  // cut by the next character
        {"\xC3\xC3\xA9", r + "\xC3\xA9"},
        {std::string("a\0b", 3), std::string("a\0b", 3)},
    };
    for (const auto& [bytes, expected] : cases)
        for (std::size_t piece = 1; piece <= bytes.size(); ++piece)
            CHECK(repaired(bytes, piece) == expected);
}

}  // namespace atl::guest::utf8_test
