#include "core/plain/json_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdio>

#include "core/execution/json_depth.hpp"

namespace json_text_test {

using namespace atl::base;

namespace {

/// RFC 8259 section 7, byte by byte.
std::string plainly(const std::string& text) {
    std::string out = "\"";
    for (const char each : text) {
        char escaped[8];
        const auto byte = static_cast<unsigned char>(each);
        if (each == '"' || each == '\\')
            out += std::string("\\") + each;
        else if (each == '\n' || each == '\t' || each == '\r')
            out += each == '\n' ? "\\n" : each == '\t' ? "\\t" : "\\r";
        else if (each == '\b' || each == '\f')
            out += each == '\b' ? "\\b" : "\\f";
        else if (byte < 0x20)
            out.append(escaped, static_cast<std::size_t>(std::snprintf(escaped, 8, "\\u%04x", byte)));
        else
            out += each;
    }
    return out + '"';
}

}  // namespace

TEST_CASE("Each byte of a JSON string is escaped or passes, wherever it stands and whatever is beside it") {
    const std::string neighbours = {'\0', '\x1f', ' ', '!',    '"',    '#',   '[',
                                    '\\', ']',    'a', '\x7f', '\x80', '\xff'};
    std::size_t wrong = 0;
    for (int byte = 0; byte < 256; ++byte) {
        for (const char beside : neighbours) {
            for (std::size_t at = 0; at < 24; ++at) {
                std::string text(at, 'x');
                text += {static_cast<char>(byte), beside};
                text.append(23 - at, byte % 2 == 0 ? 'x' : beside);
                std::string out = "{";
                append_json_string(out, text);
                wrong += out == "{" + plainly(text) ? 0 : 1;
            }
        }
    }
    CHECK(wrong == 0);
    std::string out;
    append_json_string(out, "");
    CHECK(out == "\"\"");
}

TEST_CASE("Text is one object where it ends with the object that it begins with") {
    using atl::execution::is_one_object;
    const std::string plain(100, 'x');
    for (const std::string& one :
         {std::string("{}"), std::string(R"({"a":[1,{"b":"}],\"{["}]})"), R"({")" + plain + R"(\\":"\"}"})"})
        CHECK(is_one_object(one));
    for (const std::string& other :
         {std::string(), std::string("5"), std::string("[]"), std::string(R"({},"cmd":"x")"),
          std::string("{}{}"), std::string("{} "), std::string("{"), std::string(R"({"a)"),
          std::string(R"({"a\)"), std::string(R"({"a\")"), R"({"a":")" + plain + R"("},"cmd":{})"})
        CHECK_FALSE(is_one_object(other));
}

TEST_CASE("What a JSON string has as it is is found in whole words") {
    CHECK(plain_run("") == 0);
    CHECK(plain_run("1234567") == 0);
    CHECK(plain_run("12345678") == 8);
    CHECK(plain_run("123456789abc\"defg") == 12);
    CHECK(plain_run("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4") == 8);
    CHECK(plain_run("123\n\\\"\x01!") == 3);
}

}  // namespace json_text_test
