#include <catch2/catch_test_macros.hpp>

#include "core/base/json_dump.hpp"
#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "http/wire/json_reader.hpp"

namespace json_test {

using namespace atl::http;
using atl::base::Errc;

TEST_CASE("JSON nested 100,000 deep is refused without recursion") {
    for (const char* open : {"[", "{\"a\":"}) {
        std::string text;
        for (int i = 0; i < 100'000; ++i)
            text += open;
        CHECK(parse_json(text).error().code() == Errc::invalid_json);
    }
    const auto depth = atl::base::k_max_json_depth;
    CHECK(parse_json(std::string(depth, '[') + std::string(depth, ']')).has_value());
    CHECK_FALSE(parse_json(std::string(depth + 1, '[') + std::string(depth + 1, ']')).has_value());
}

TEST_CASE("JSON within a budget ends at the first value or member beyond it") {
    using atl::base::JsonBudget;
    const auto refused_at = [](const std::string& text, JsonBudget budget) {
        const auto read = parse_json(text, budget);
        CHECK((read.has_value() || read.error().code() == Errc::body_too_large));
        return std::pair(read.has_error(), budget.used);
    };
    CHECK(refused_at(R"([1,"a",{"k":null}])", {5, 1}) == std::pair(false, std::size_t{5}));
    for (const char* const value : {"1", "-1", "1.5", "true", "null", "\"s\"", "{}", "[]"}) {
        INFO(value);
        std::string text = "[1,2,3";
        for (int i = 0; i < 100'000; ++i)
            text.append(",").append(value);
        // The rest is not looked at: it is no JSON at all.
        CHECK(refused_at(text + " x", {4, 4}) == std::pair(true, std::size_t{5}));
    }
    std::string members = "{\"m\":0";
    for (int i = 1; i < 1024; ++i)
        members += ",\"m" + std::to_string(i) + "\":0";
    CHECK(refused_at(members + "}", atl::base::k_client_json) == std::pair(false, std::size_t{1025}));
    CHECK(refused_at(members + ",\"one more\":0}", atl::base::k_client_json).first);
    // The arguments of a program are as many as they ever were.
    std::string argv = R"({"argv":["a")";
    for (int i = 1; i < 4096; ++i)
        argv += ",\"a\"";
    CHECK_FALSE(refused_at(argv + "]}", atl::base::k_client_json).first);
}

TEST_CASE("what is not JSON is refused with its place") {
    for (const char* text :
         {"", " ", "{", "{]", "nul", "{\"a\":1,}", "'a'", "1 2", "{\"a\":1}x", "NaN", "\"\\ud800\""}) {
        INFO(text);
        REQUIRE(parse_json(text).has_error());
        CHECK(parse_json(text).error().code() == Errc::invalid_json);
    }
    using namespace std::string_view_literals;
    for (const auto text : {"{}\0"sv, "{}\0x"sv, "\0{}"sv, "{\"a\":\"\0\"}"sv})
        CHECK(parse_json(text).error().code() == Errc::invalid_json);
    CHECK(parse_json("[1,x]").error().detail().find("byte") != std::string::npos);
    CHECK(parse_json("").error().detail() == "The body is empty, and JSON is expected.");
}

TEST_CASE("text that is not UTF-8 and names that come twice are refused") {
    CHECK(parse_json("\"\xFF\"").error().code() == Errc::invalid_utf8);
    CHECK(parse_json(R"({"a":1,"a":2})").error().code() == Errc::invalid_json);
    CHECK(parse_json(R"({"a":{"b":1},"c":{"b":2}})").has_value());
}

TEST_CASE("a value is built as written") {
    const auto value = parse_json(R"({"a":[1,-2,3.5,"x",true,null,{"b":[]}],"c":{}})");
    CHECK(value->dump() == R"({"a":[1,-2,3.5,"x",true,null,{"b":[]}],"c":{}})");
}

TEST_CASE("text of any length is built with its escapes, in names too, and a mark of byte order is ignored") {
    // The parser gives text with escapes in parts of some 2 KB.
    for (const std::size_t size : {0, 1, 2'040, 2'048, 70'000}) {
        std::string text = "\\u00e4";
        for (std::size_t i = 0; i < size; i += 7)
            text += "abc\\n\\\"d";
        text += "\\ud83d\\ude00";
        const auto value = parse_json("\xEF\xBB\xBF{\"" + text + "\":\"" + text + "\"}");
        REQUIRE(value.has_value());
        const auto plain = nlohmann::json::parse('"' + text + '"').get<std::string>();
        CHECK((*value)[plain] == plain);
    }
    CHECK(parse_json("\xEF\xBB\xBF[x]").error().detail() == "The body is not JSON: look at byte 5.");
    CHECK(parse_json("\xEF\xBB\xBF").has_error());
}

TEST_CASE("the text of a value is the one that nlohmann gives it") {
    const std::string all =
        R"({"":[],"a":{"b":[1,-2,0,18446744073709551615,-9223372036854775808,3.5,1e300,true,false,null]},)"
        R"("text":"\u0000\u001f\"\\/\b\f\n\r\t\u007fä😀","z":[[{}]]})";
    const auto value = parse_json(all);
    CHECK(atl::base::json_dump(*value) == value->dump());
    for (const char* scalar : {"1", "\"x\"", "null", "[]", "{}", "-0.0"})
        CHECK(atl::base::json_dump(*parse_json(scalar)) == parse_json(scalar)->dump());
}

TEST_CASE("an integer is kept exactly or refused") {
    const std::string kept =
        "[9007199254740993,-9223372036854775808,18446744073709551615,590295810358705700000]";
    // The last one is 2^69 as JavaScript writes it: the double that is read is the one that was written.
    CHECK(parse_json(kept)->dump() ==
          "[9007199254740993,-9223372036854775808,18446744073709551615,5.902958103587057e+20]");
    CHECK(parse_json("[100000000000000000000,-1e400000,1.5e300]").has_error());
    CHECK(parse_json("[100000000000000000000,1.5e300]")->dump() == "[1e+20,1.5e+300]");
    CHECK(parse_json("[9007199254740992.0,0.1e1,9007199254740993.5,9.9999999999999992e+22]").has_value());
    for (const char* text :
         {"18446744073709551616", "-9223372036854775809", "{\"n\":123456789012345678901234567890}",
          "9007199254740993.0", "9007199254740993e0", "[90071992547409930E-1]", "9.007199254740993e+15"}) {
        INFO(text);
        REQUIRE(parse_json(text).has_error());
        CHECK(parse_json(text).error().code() == Errc::invalid_json);
        CHECK(parse_json(text).error().detail().find("write it as a string") != std::string::npos);
    }
}

TEST_CASE("nothing is coerced") {
    const auto value =
        parse_json(R"({"s":1,"i":"1","f":1.0,"n":-1,"big":100000000000000000000,"b":true,"z":null})");
    const auto fails = [&](auto read) {
        ObjectReader reader(*value);
        read(reader);
        return reader.failed();
    };
    CHECK(fails([](auto& r) { r.string("s", 10); }));
    for (const char* name : {"i", "f", "n", "big", "b", "z"})
        CHECK(fails([&](auto& r) { r.integer(name, {0, 100}); }));
    CHECK(fails([](auto& r) { r.object("s"); }));
}

TEST_CASE("unknown fields are refused by name, the first error is told") {
    const auto value = parse_json(R"({"known":1,"surprise":2})");
    ObjectReader reader(*value);
    CHECK(reader.integer("known", {0, 10}) == 1U);
    const auto result = reader.finish();
    CHECK(result.error().code() == Errc::unknown_field);
    CHECK(result.error().detail().find("`surprise`") != std::string::npos);

    ObjectReader strict(*value);
    strict.integer("known", {5, 10});
    CHECK(strict.finish().error().detail() == "`known` must be an integer from 5 to 10.");

    const auto list = parse_json("[]");
    CHECK(ObjectReader(*list).finish().error().code() == Errc::invalid_field);
}

TEST_CASE("a member that nobody knows is told before the one that is missing") {
    const auto refused = [](const char* text, bool depends) {
        const auto value = parse_json(text);
        ObjectReader reader(*value);
        if (!reader.string("code", 100))
            reader.fail("code", "a program");
        if (depends)
            reader.know({"source"});
        CHECK(reader.failed());
        return reader.finish().error();
    };
    const auto unknown = refused(R"({"source":"1"})", false);
    CHECK(unknown.code() == Errc::unknown_field);
    CHECK(unknown.pointer() == "/source");
    CHECK(refused(R"({"source":"1"})", true).pointer() == "/code");
    CHECK(refused("{}", false).detail() == "`code` must be a program.");
    CHECK(refused("{}", false).pointer() == "/code");
    // A wrong value comes before both.
    CHECK(refused(R"({"source":"1","code":1})", false).detail() == "`code` must be a string.");
}

TEST_CASE("an error about a field carries its JSON pointer, and an unknown name the nearest known one") {
    const auto value = parse_json(R"({"metdata":{},"limits":{"memory_mb":1},"a/b~c":2,"x":3})");
    const auto refused = [&](const char* path, std::vector<const char*> known) {
        ObjectReader reader(*value, path);
        for (const char* name : known)
            reader.any(name);
        return reader.finish().error();
    };
    const auto near = refused("", {"metadata", "limits", "a/b~c", "x"});
    CHECK(near.detail() ==
          "There is no field `metdata` here; did you mean `metadata`? The fields are `metadata`, "
          "`limits`, `a/b~c`, `x`.");
    CHECK(near.pointer() == "/metdata");
    CHECK(refused("", {"metdata", "limits", "x"}).pointer() == "/a~1b~0c");
    CHECK(refused("content[12].", {"metdata", "limits", "a/b~c"}).pointer() == "/content/12/x");
    CHECK(refused("", {"metdata", "limits", "a/b~c"}).detail() ==
          "There is no field `x` here. The fields are `metdata`, `limits`, `a/b~c`.");

    ObjectReader limits((*value)["limits"], "limits.");
    limits.integer("memoryMb", {16, 100});
    const auto unknown = limits.finish().error();
    CHECK(unknown.detail() ==
          "There is no field `limits.memory_mb` here; did you mean `memoryMb`? The fields are `memoryMb`.");
    CHECK(unknown.pointer() == "/limits/memory_mb");
    ObjectReader typed((*value)["limits"], "limits.");
    typed.string("memory_mb", 10);
    CHECK(typed.finish().error().pointer() == "/limits/memory_mb");
    ObjectReader none((*value)["x"], "limits.");
    CHECK(none.finish().error().pointer() == "/limits");
    ObjectReader whole((*value)["x"]);
    CHECK(whole.finish().error().pointer().empty());
    // Hostile: as long as a body may be.
    const Json huge{{std::string(500'000, 'n'), 1}};
    ObjectReader bounded(huge);
    CHECK(bounded.any("name") == nullptr);
    CHECK(bounded.finish().error().pointer().empty());
    CHECK(bounded.finish().error().detail().size() < 1000);
}

TEST_CASE("what is written is valid JSON whatever the text holds") {
    std::string out;
    atl::base::JsonWriter json(out);
    json.begin_object();
    json.key("text").string("a\"\\\n\x01\xFF\xE2\x82\xC3\xA9");
    json.key("list").begin_array().number(1).null().begin_object().end_object().end_array();
    json.key("raw").raw("{}");
    json.end_object();
    const auto parsed = parse_json(out);
    REQUIRE(parsed.has_value());
    // A byte that is never valid and a character that is cut short are one replacement each.
    CHECK((*parsed)["text"] == "a\"\\\n\x01\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
    CHECK((*parsed)["list"].size() == 3);
    CHECK(out.starts_with(R"({"text":"a\"\\\n\u0001)"));
}

}  // namespace json_test
