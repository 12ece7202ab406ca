#include "bridge/agents/json_outline.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace atl::test::json_outline_test {
namespace {

/// The text is fed in pieces of so many bytes.
std::string outline_of(std::string_view text, std::size_t piece_bytes) {
    guest::JsonOutline outline;
    for (std::size_t at = 0; at < text.size(); at += piece_bytes)
        outline.feed(text.substr(at, piece_bytes));
    return outline.text();
}

}  // namespace

TEST_CASE("an outline has the short members of two levels, however the text comes") {
    const std::string most(guest::k_outline_string_bytes, 'm');
    const std::string quotes = R"(\"\\)" + std::string(8, 'q') + R"(\")";
    std::string longer;
    for (int i = 0; i < 200; ++i)
        longer += quotes;
    const std::string text = "{ \"deep\" : {\"a\":[[1,\"]\"],{\"b\":\"}\"}], \"c\" :\t{}},\r\n\"long\":\"" +
                             longer + "\",\"list\":[1,\"x\",[2]],\"most\":\"" + most + "\",\"over\":\"" +
                             most + "m\",\"" + longer + "\":true,\"id\":-7.5e1}";
    REQUIRE(nlohmann::json::accept(text));
    const std::string expected = R"({"deep":{"a":null,"c":null},"long":"","list":[1,"x",null],"most":")" +
                                 most + R"(","over":"","":true,"id":-7.5e1})";
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, text.size()})
        CHECK(outline_of(text, piece) == expected);
}

TEST_CASE("an outline is bounded, whatever the text is") {
    std::string members = "{\"a\":1";
    std::string brackets;
    std::string strings = "[";
    for (int i = 0; i < 200'000; ++i) {
        members += ",\"a\":1";
        brackets += "[{";
        strings += "\"xxxxxxxxxxxxxxxxxxx";
    }
    for (const std::string& text : {members, brackets, strings, std::string(1'000'000, '}'),
                                    std::string(1'000'000, '\\'), std::string(1'000'000, '\0')}) {
        const std::string whole = outline_of(text, text.size());
        CHECK(whole.size() <= guest::k_max_outline_bytes);
        CHECK(outline_of(text, 1000) == whole);
    }
    CHECK(outline_of(brackets, 100) == "[{null");
}

}  // namespace atl::test::json_outline_test
