#include "core/execution/argument_schema.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace argument_schema_test {

using atl::execution::ArgumentSchema;

namespace {

std::string compile_fault(const std::string& schema) {
    const auto compiled = ArgumentSchema::compile(schema);
    return compiled ? "" : compiled.error().detail();
}

std::string fault(const std::string& schema, const std::string& args) {
    const auto compiled = ArgumentSchema::compile(schema);
    REQUIRE(compiled.has_value());
    const auto checked = compiled->check("tool", args);
    return checked ? "" : checked.error().detail();
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// "KEYWORD WHY;" of each warning.
std::string warned(const std::string& schema) {
    const auto compiled = ArgumentSchema::compile(schema);
    REQUIRE(compiled.has_value());
    std::string told;
    for (const auto& each : compiled->warnings())
        told += each.keyword + " " + each.why + ";";
    return told;
}

}  // namespace

TEST_CASE("Arguments are checked against the schema and the fault has its place") {
    const std::string schema = R"({"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}})";
    CHECK(fault(schema, R"([{"a":1}])").empty());
    CHECK(has(fault(schema, R"([{"a":"x"}])"), "args[0]/a"));
    CHECK_FALSE(fault(schema, "[]").empty());
    CHECK(has(fault(schema, "[1,2]"), "tool: takes one object, not 2"));
    CHECK_FALSE(fault(schema, "{}").empty());
    CHECK_FALSE(fault(schema, std::string(200, '[') + std::string(200, ']')).empty());
}

TEST_CASE("A tagged bigint is checked as the integer that it is") {
    const std::string schema = R"({"properties":{"id":{"type":"integer","minimum":9007199254740993}}})";
    const auto of = [&](const std::string& value) {
        return fault(schema, R"([{"id":{"$atoll":"bigint","value":)" + value + "}}]");
    };
    CHECK(of("\"9007199254740993\"").empty());
    CHECK(has(of("\"9007199254740992\""), "args[0]/id"));
    for (const char* const no_integer : {"\"x\"", "\"1.5\"", "5", "\"[1]\""})
        CHECK_FALSE(of(no_integer).empty());
}

TEST_CASE("A schema of type array is for the arguments themselves") {
    const std::string schema =
        R"({"type":"array","items":[{"type":"number"},{"type":"number"}],"minItems":2})";
    CHECK(fault(schema, "[5,3]").empty());
    CHECK(has(fault(schema, R"([5,"x"])"), "args/1"));
}

TEST_CASE("A pattern that takes other engines exponential time or a deep stack is matched in RE2") {
    const std::string schema = R"({"properties":{"a":{"type":"string","pattern":"(a+)+$"}}})";
    const std::string text(1024 * 1024, 'a');
    CHECK(fault(schema, R"([{"a":")" + text + R"("}])").empty());
    CHECK_FALSE(fault(schema, R"([{"a":")" + text + R"(!"}])").empty());
    const std::string names =
        R"({"patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":false})";
    CHECK(fault(names, R"([{"x_1":1}])").empty());
    CHECK_FALSE(fault(names, R"([{"x_1":"no"}])").empty());
    CHECK_FALSE(fault(names, R"([{"y":1}])").empty());
}

TEST_CASE("A keyword whose value is malformed or endless is left to the caller by name") {
    for (const char* const itself : {R"({"$ref":"#"})", R"({"allOf":[{"$ref":"#"}]})",
                                     R"({"$ref":"#/a","a":{"not":{"$ref":"#/b"}},"b":{"$ref":"#/a"}})"})
        CHECK(has(warned(itself), "leads to itself"));
    for (const char* const number : {"0", "-1", "0.0", "\"2\"", "null"})
        CHECK(has(warned(R"({"multipleOf":)" + std::string(number) + "}"), "above 0"));
    for (const char* const keyword :
         {R"("exclusiveMinimum":true)", R"("minLength":"x")", R"("minLength":-1)", R"("maxItems":1.5)",
          R"("type":"int")", R"("type":[])", R"("required":true)", R"("pattern":null)",
          R"("additionalProperties":null)", R"("enum":7)", R"("uniqueItems":1)", R"("oneOf":{})",
          R"("properties":[])", R"("dependencies":{"a":[1]})", R"("maximum":"1")", R"("items":1)",
          R"("unevaluatedProperties":false)", R"("minContains":2)", R"("not":5)"}) {
        INFO(keyword);
        const std::string schema = R"({"allOf":[{"minProperties":1,"additionalProperties":false,)" +
                                   std::string(keyword) + R"(}],"maxProperties":1})";
        CHECK(warned(schema).starts_with(std::string(keyword).substr(1, std::string(keyword).find(':') - 2)));
        CHECK_FALSE(fault(schema, R"([{"a":1,"b":2}])").empty());
    }
    CHECK(fault(R"({"properties":5,"additionalProperties":false})", R"([{"a":1}])").empty());
    CHECK(warned(R"({"minLength":1.0,"maxLength":1e30,"minContains":1,"unevaluatedItems":true})").empty());
    CHECK_FALSE(fault(R"({"type":"string","minLength":2.0})", R"(["a"])").empty());
}

TEST_CASE("A schema that is too large or too deep is refused by name") {
    CHECK(has(compile_fault("[]"), "not a JSON object"));
    CHECK(has(compile_fault(R"({"a":")" + std::string(65536, 'x') + "\"}"), "64 KiB"));
    CHECK(has(compile_fault(R"({"a":)" + std::string(40, '[') + std::string(40, ']') + "}"), "deeper"));
}

TEST_CASE("Keywords of later drafts and of OpenAPI are checked as they are meant there") {
    const std::string pair =
        R"({"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}})";
    CHECK(warned(pair).empty());
    CHECK(fault(pair, R"(["a",1,2])").empty());
    CHECK(has(fault(pair, R"(["a","b"])"), "args/1"));
    CHECK(has(fault(pair, "[1]"), "args/0"));
    const std::string closed = R"({"type":"array","prefixItems":[{"type":"string"}],"items":false})";
    CHECK(fault(closed, R"(["a"])").empty());
    CHECK_FALSE(fault(closed, R"(["a",1])").empty());
    const std::string maybe = R"({"properties":{"a":{"type":"string","enum":["x"],"nullable":true}}})";
    CHECK(fault(maybe, R"([{"a":null}])").empty());
    CHECK(fault(maybe, R"([{"a":"x"}])").empty());
    CHECK(has(fault(maybe, R"([{"a":5}])"), "args[0]/a"));
    const std::string together =
        R"({"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"maxProperties":1}}})";
    CHECK(warned(together).empty());
    CHECK(fault(together, R"([{"a":1,"b":2}])").empty());
    CHECK_FALSE(fault(together, R"([{"a":1}])").empty());
    CHECK_FALSE(fault(together, R"([{"c":1,"d":2}])").empty());
    CHECK(fault(R"({"type":"array","contains":{"type":"null"},"minContains":0})", "[1]").empty());
}

TEST_CASE("A refusal names the property that is too many, and both types") {
    const std::string schema =
        R"({"properties":{"a":{"type":["integer","null"]},"n":false},"additionalProperties":false})";
    CHECK(has(fault(schema, R"([{"b":1}])"), "args[0]: there is no property 'b'"));
    CHECK(has(fault(schema, R"([{"a":"x"}])"),
              "args[0]/a: is a string, but the schema has the type integer or null"));
    CHECK(has(fault(schema, R"([{"a":5.5}])"), "is the number 5.5, but"));
    CHECK(has(fault(schema, R"([{"n":1}])"), "args[0]/n: no value is allowed here"));
}

TEST_CASE("An integer is one of any length, and -0 a number") {
    const auto of = [](const std::string& rule, const std::string& value) {
        return fault(R"({"properties":{"n":{)" + rule + "}}}", R"([{"n":)" + value + "}]");
    };
    const auto bigint = [](const std::string& digits) {
        return R"({"$atoll":"bigint","value":")" + digits + "\"}";
    };
    for (const std::string rule : {R"("type":"integer")", R"("type":"number")", R"("type":["integer"])"}) {
        INFO(rule);
        for (const std::string& value :
             {std::string("9223372036854775808"), std::string("18446744073709551615"), std::string("1e20"),
              std::string("1e300"), bigint("9223372036854775808"), bigint("18446744073709551616"),
              bigint("-" + std::string(400, '9')), std::string(R"({"$atoll":"number","value":"-0"})")})
            CHECK(of(rule, value).empty());
        for (const std::string& value : {std::string(R"({"$atoll":"number","value":"NaN"})"), bigint("0x10"),
                                         bigint("-"), bigint("007")})
            CHECK_FALSE(of(rule, value).empty());
    }
    CHECK_FALSE(of(R"("maximum":5)", bigint(std::string(400, '9'))).empty());
    CHECK_FALSE(of(R"("uniqueItems":true)", R"([0,{"$atoll":"number","value":"-0"}])").empty());
    CHECK(of(R"("enum":[18446744073709551615])", "18446744073709551615").empty());
}

TEST_CASE("A keyword that cannot be checked is named, and the rest of the schema is checked") {
    const auto property = [](const std::string& pattern) {
        return R"({"required":["b"],"properties":{"a":{"type":"string","pattern":")" + pattern + R"("}}})";
    };
    for (const std::string pattern : {"^(?!\\\\.)a@b$", "(a)\\\\1", "\\\\u0041", "^[a-z]{1,2000}$"}) {
        INFO(pattern);
        const std::string schema = property(pattern);
        CHECK(has(warned(schema), "pattern inputSchema/properties/a/pattern: "));
        CHECK(fault(schema, R"([{"a":"x","b":1}])").empty());
        CHECK(has(fault(schema, R"([{"a":5,"b":1}])"), "args[0]/a"));
        CHECK_FALSE(fault(schema, R"([{"a":"x"}])").empty());
        // Also within a small bound of work: no more of it makes the pattern one that runs.
        std::size_t work = 100'000;
        const auto small = ArgumentSchema::compile_within(schema, work);
        REQUIRE((small.has_value() && *small));
        CHECK((*small)->warnings().size() == 1);
    }
    CHECK(warned(property("^a{1,3}$")).empty());
    CHECK(has(warned(R"({"$ref":"http://example.com/s"})"), "$ref inputSchema/$ref: "));
    CHECK(has(warned(R"({"$ref":"#/definitions/none"})"), "names nothing"));
    // A keyword that is left out narrows nothing.
    const std::string names =
        R"_({"patternProperties":{"^(?!x)":{"type":"integer"},"^y":{"type":"null"}},"additionalProperties":false})_";
    CHECK(has(warned(names), "patternProperties inputSchema/patternProperties/"));
    CHECK(fault(names, R"([{"a":1}])").empty());
    CHECK_FALSE(fault(names, R"([{"y":1}])").empty());
    const std::string bad = R"_({"pattern":"(?=x)"})_";
    CHECK(fault(R"({"type":"string","not":{"anyOf":[)" + bad + "]}}", R"(["a"])").empty());
    CHECK(fault(R"({"type":"string","if":)" + bad + R"(,"then":{"maxLength":0}})", R"(["a"])").empty());
    const std::string either = R"({"type":"string","oneOf":[)" + bad + R"(,{"pattern":"^a"}]})";
    CHECK(fault(either, R"(["a"])").empty());
    CHECK_FALSE(
        fault(R"({"type":"string","oneOf":[{"allOf":[{"maxLength":0},)" + bad + "]}]}", R"(["a"])").empty());
}

TEST_CASE("A local $ref is followed and an unknown format ignored") {
    const std::string schema = R"({"properties":{"a":{"$ref":"#/$defs/n"},"d":{"format":"date"}},
        "$defs":{"n":{"type":"integer"}}})";
    CHECK(fault(schema, R"([{"a":1,"d":"no date"}])").empty());
    CHECK_FALSE(fault(schema, R"([{"a":"x"}])").empty());
}

TEST_CASE("The fragment of a $ref is percent-decoded before it is followed") {
    const std::string schema = R"({"properties":{"a":{"$ref":"#/definitions/Record%3Cstring%3E"},
        "b":{"$ref":"#/definitions/a%7e1b"},"c":{"$ref":"#/definitions/100%"},"d":{"$ref":"#/definitions/100%25"}},
        "definitions":{"Record<string>":{"type":"integer"},"a/b":{"type":"integer"},"100%":{"type":"integer"}}})";
    CHECK(fault(schema, R"([{"a":1,"b":1,"c":1,"d":1}])").empty());
    for (const char* const name : {"a", "b", "c", "d"})
        CHECK(has(fault(schema, R"([{")" + std::string(name) + R"(":"x"}])"), "args[0]/"));
    const auto nothing = ArgumentSchema::compile(R"({"$ref":"#/definitions/%ff","definitions":{"a":{}}})");
    REQUIRE(nothing.has_value());
    CHECK(has(nothing->warnings().at(0).why, "names nothing"));
}

TEST_CASE("Items are unique by what they are, in arrays of many items") {
    std::string items = "[0";
    std::string few;
    for (int i = 1; i <= 50'000; ++i) {
        items += "," + std::to_string(i);
        if (i == 25'000)
            few = items;
    }
    const auto list = [](const std::string& unique) {
        return R"({"properties":{"a":{"type":"array","uniqueItems":)" + unique + "}}}";
    };
    CHECK(fault(list("false"), R"([{"a":)" + items + "]}]").empty());
    CHECK(fault(list("false"), R"([{"a":[1,1]}])").empty());
    for (const char* const unique : {"true", "\"true\""}) {
        CHECK(fault(list(unique), R"([{"a":)" + items + "]}]").empty());
        CHECK(has(fault(list(unique), R"([{"a":)" + few + ",7]}]"), "args[0]/a: Elements at indexes #7 and"));
        // The search for the fault has what the check has left of its bound.
        CHECK(has(fault(list(unique), R"([{"a":)" + items + ",7]}]"), "args[0]: does not fit"));
    }
    for (const char* const twice : {"[1,1.0]", "[0,-0.0]", R"([{"a":1,"b":[2]},{"b":[2.0],"a":1}])",
                                    R"(["\u0041","A"])", "[null,null]"})
        CHECK_FALSE(fault(list("true"), R"([{"a":)" + std::string(twice) + "}]").empty());
    for (const char* const once : {R"([1,"1",true,"t",null,"n",[],{},""])",
                                   R"([["a","b"],["a\"1:b"],["ab"]])", "[[1],[[1]],{\"1\":1}]"})
        CHECK(fault(list("true"), R"([{"a":)" + std::string(once) + "}]").empty());
    CHECK(fault(list("true"), R"([{"a":7}])").find("unique") == std::string::npos);
}

TEST_CASE("A value is one of an enum, or a const, if it equals one of them") {
    const std::string list = R"({"enum":[1,"a",{"b":[true,null]},[]]})";
    for (const char* const one : {"1", "1.0", "\"a\"", R"({"b":[true,null]})", "[]"})
        CHECK(fault(list, "[" + std::string(one) + "]").empty());
    for (const char* const none : {"2", "\"1\"", "true", "\"\"", R"({"b":[true]})", "[[]]", "{}"})
        CHECK(has(fault(list, "[" + std::string(none) + "]"), "args[0]: is none of the values"));
    CHECK(fault(R"({"properties":{"k":{"const":{"a":1}}}})", R"([{"k":{"a":1.0}}])").empty());
    CHECK(has(fault(R"({"properties":{"k":{"const":{"a":1}}}})", R"([{"k":{"a":2}}])"), "args[0]/k"));
    CHECK(has(warned(R"({"enum":7})"), "/enum: an array"));
}

TEST_CASE("Comparisons are counted by the values that they visit, before they visit them") {
    using Checked = ArgumentSchema::Checked;
    const auto steps_of = [](const std::string& schema, const std::string& args) {
        std::size_t steps = 1'000'000;
        const auto checked = ArgumentSchema::compile(schema)->check_within("tool", args, steps);
        REQUIRE(checked.has_value());
        CHECK(*checked == Checked::fits);
        return 1'000'000 - steps;
    };
    const auto list_of = [](std::size_t count, const std::string& value) {
        std::string text = "[" + value;
        for (std::size_t i = 1; i < count; ++i)
            text += "," + value;
        return text + "]";
    };
    // A pair of long lists costs what is in them, and not what one step does.
    const std::string unique = R"({"type":"array","items":{"uniqueItems":true}})";
    const std::string pair = "[[" + list_of(10'000, "{}") + "," + list_of(10'001, "{}") + "]]";
    CHECK(steps_of(unique, pair) > 20'000);
    CHECK(steps_of(unique, pair) < 50'000);
    // An enum costs as many values of what is compared as its longest has, however many it lists.
    const std::string many = R"({"items":{"enum":)" + list_of(5'000, "[1]") + "}}";
    const std::string schema = R"({"type":"array",)" + many.substr(1);
    CHECK(steps_of(schema, list_of(100, "[1]")) < 1'500);
    std::size_t steps = 1'000'000;
    const std::string other = "[" + list_of(100'000, "1") + "]";
    CHECK(ArgumentSchema::compile(schema)->check_within("tool", other, steps).has_error());
    CHECK(1'000'000 - steps < 30'000);
    // Text, too.
    CHECK(steps_of(unique, "[[\"" + std::string(640'000, 'x') + "\"]]") > 90'000);
    // Beyond the bound of all comparisons of a check it is refused.
    std::string often = R"({"type":"array","items":{"allOf":[{"uniqueItems":true})";
    for (int i = 0; i < 60; ++i)
        often += R"(,{"uniqueItems":true})";
    std::string numbers = "[0";
    for (int i = 1; i < 10'000; ++i)
        numbers += "," + std::to_string(i);
    CHECK(has(fault(often + "]}}", "[" + numbers + "]]"), "more work"));
    CHECK(fault(unique, "[" + numbers + "]]").empty());
}

TEST_CASE("References that double at each step are bounded") {
    std::string schema = R"({"$ref":"#/$defs/a0","$defs":{)";
    for (int i = 0; i < 20; ++i) {
        const std::string next = R"({"$ref":"#/$defs/a)" + std::to_string(i + 1) + "\"}";
        schema += "\"a" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
    }
    CHECK(has(compile_fault(schema + R"("a20":{}}})"), "too large"));
}

TEST_CASE("Only a schema of an object refuses positional arguments") {
    for (const char* const schema : {"{}", R"({"description":"x"})"}) {
        CHECK(fault(schema, "[5,3]").empty());
        CHECK(fault(schema, R"([5,"x",{},[]])").empty());
        CHECK(fault(schema, "[]").empty());
    }
    for (const char* const schema : {R"({"type":"object"})", R"({"properties":{}})", R"({"required":[]})"}) {
        CHECK(has(fault(schema, "[{},{}]"), "tool: takes one object, not 2"));
        CHECK(fault(schema, "[{}]").empty());
    }
    // A schema that is not of an object holds for each argument.
    CHECK(fault(R"({"anyOf":[{"type":"integer"}]})", "[5,3]").empty());
    CHECK(has(fault(R"({"anyOf":[{"type":"integer"}]})", R"([5,"x"])"), "args[1]"));
}

TEST_CASE("What the references of a schema copy is bounded in bytes") {
    const std::string big(3000, 'x');
    for (const std::string& copied :
         {R"({"enum":[")" + big + "\"]}", R"({"const":")" + big + "\"}", R"({"required":[")" + big + "\"]}",
          R"({"properties":{")" + big + "\":{}}}", R"({"dependencies":{")" + big + "\":[]}}"}) {
        const auto repeated = [&copied](int times) {
            std::string schema = R"({"$defs":{"a":)" + copied + R"(},"anyOf":[)";
            for (int i = 0; i < times; ++i)
                schema += std::string(i == 0 ? "" : ",") + R"({"$ref":"#/$defs/a"})";
            return compile_fault(schema + "]}");
        };
        CHECK(repeated(300).empty());
        CHECK(has(repeated(400), "larger than 1 MiB"));
    }
}

TEST_CASE("A schema that names itself for a part of the value is followed") {
    const std::string tree =
        R"({"type":"object","required":["n"],"properties":{"n":{"type":"integer"},
            "children":{"type":"array","items":{"$ref":"#"}}}})";
    CHECK(fault(tree, R"([{"n":1,"children":[{"n":2},{"n":3,"children":[{"n":4}]}]}])").empty());
    CHECK_FALSE(fault(tree, R"([{"n":1,"children":[{"n":2},{"n":3,"children":[{"n":"x"}]}]}])").empty());
    const std::string two = R"({"$ref":"#/$defs/a","$defs":{
        "a":{"properties":{"b":{"$ref":"#/$defs/b"},"d":{"$ref":"#/$defs/b"}},"additionalProperties":false},
        "b":{"properties":{"a":{"$ref":"#/$defs/a"}},"additionalProperties":false}}})";
    CHECK(fault(two, R"([{"b":{"a":{"d":{"a":{}}}}}])").empty());
    CHECK_FALSE(fault(two, R"([{"b":{"a":{"d":{"a":{"a":{}}}}}}])").empty());
    const auto nested = [](const std::string& schema, int times) {
        std::string value = "null";
        for (int i = 0; i < times; ++i)
            value = R"({"next":)" + value + "}";
        return fault(schema, "[" + value + "]");
    };
    const std::string list = R"({"properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}})";
    CHECK(nested(list, 120).empty());
    CHECK(has(nested(list, 128), "deeper than 128"));
    // Refused, and not a stack that ends.
    const std::string thick =
        R"({"properties":{"next":{"allOf":[{"anyOf":[{"oneOf":[{"not":{"not":{"$ref":"#"}}}]}]}]}}})";
    CHECK(nested(thick, 10).empty());
    CHECK(has(nested(thick, 120), "too deep into the schema"));
}

TEST_CASE("More schemas that name themselves than are followed are left to the caller") {
    const auto chain = [](int count) {
        std::string schema = R"({"type":"object","properties":{)";
        for (int i = 0; i < count; ++i)
            schema += std::string(i == 0 ? "" : ",") + "\"p" + std::to_string(i) +
                      R"(":{"properties":{"x":{"$ref":"#/properties/p)" + std::to_string(i) + "\"}}}";
        return warned(schema + "}}");
    };
    CHECK(chain(4).empty());
    CHECK(has(chain(5), "more than 4"));
}

TEST_CASE("Patterns are bounded in number and size") {
    const auto many = [](int count) {
        std::string schema = R"({"patternProperties":{)";
        for (int i = 0; i < count; ++i)
            schema += std::string(i == 0 ? "" : ",") + "\"^a" + std::to_string(i) + "$\":{}";
        return warned(schema + "}}");
    };
    CHECK(many(64).empty());
    CHECK(has(many(65), "more than 64 patterns"));
    // RE2 runs neither: both are left to the caller.
    for (const char* const large : {"((a{100}){100}){10}", "[ab]{900}c{900}[de]{900}f{900}g{900}"}) {
        const auto compiled = ArgumentSchema::compile(R"({"pattern":")" + std::string(large) + "\"}");
        REQUIRE(compiled.has_value());
        CHECK(compiled->warnings().size() == 1);
    }
}

TEST_CASE("A number is a multiple as a number, also where a whole one would divide badly") {
    CHECK(fault(R"({"multipleOf":2})", "[4]").empty());
    CHECK_FALSE(fault(R"({"multipleOf":2})", "[3]").empty());
    CHECK_FALSE(fault(R"({"multipleOf":1})", "[1.5]").empty());
    CHECK(fault(R"({"multipleOf":1})", "[-9223372036854775808]").empty());
    CHECK_FALSE(fault(R"({"multipleOf":7})", "[1e300]").empty());
}

TEST_CASE("Numbers are compared as they are written") {
    const auto of = [](const std::string& rule, const std::string& value) {
        return fault(R"({"properties":{"n":{)" + rule + "}}}", R"([{"n":)" + value + "}]");
    };
    for (const char* const price : {"19.99", "0.07", "1.1", "4.35", "1000000.01", "-0.29", "0", "3", "1e2"})
        CHECK(of(R"("multipleOf":0.01)", price).empty());
    CHECK(has(of(R"("multipleOf":0.01)", "19.995"), "args[0]/n: 19.995 is not a multiple of 0.01"));
    CHECK(of(R"("multipleOf":0.1)", "7").empty());
    CHECK(of(R"("multipleOf":1e-9)", "0.000000003").empty());
    CHECK(has(of(R"("multipleOf":1e-9)", "1.5e-9"), "1.5e-9 is not a multiple of 1e-9"));
    CHECK(of(R"("multipleOf":3)", "9007199254740993").empty());
    CHECK_FALSE(of(R"("multipleOf":3)", "9007199254740992").empty());
    CHECK(of(R"("multipleOf":5)", "18446744073709551615").empty());
    CHECK(of(R"("multipleOf":1e300)", "3e300").empty());
    CHECK(of(R"("maximum":9007199254740992)", "9007199254740992").empty());
    CHECK(has(of(R"("maximum":9007199254740992)", "9007199254740993"),
              "9007199254740993 is greater than 9007199254740992"));
    CHECK_FALSE(of(R"("exclusiveMinimum":-0.5)", "-0.5").empty());
    CHECK(of(R"("exclusiveMinimum":-0.5)", "-0.49").empty());
    CHECK(has(of(R"("minimum":0.3)", "0.29"), "0.29 is less than 0.3"));
    CHECK_FALSE(of(R"("exclusiveMaximum":18446744073709551615)", "18446744073709551615").empty());
    // Beyond 2^63 they are doubles, which are 2,048 apart.
    CHECK(of(R"("exclusiveMaximum":18446744073709551615)", "18446744073709549567").empty());
    CHECK(of(R"("type":"integer")", "5.0").empty());
    CHECK_FALSE(of(R"("type":"integer")", "5.5").empty());
    CHECK(of(R"("maximum":1)", "\"2\"").empty());
}

TEST_CASE("The work of a check is bounded, whatever schema and arguments make of each other") {
    std::string doubling = R"({"$ref":"#/$defs/a0","$defs":{)";
    for (int i = 0; i < 11; ++i) {
        const std::string next = R"({"$ref":"#/$defs/a)" + std::to_string(i + 1) + "\"}";
        doubling += "\"a" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
    }
    CHECK(fault(doubling + R"("a11":{}}})", "[1]").empty());
    std::string items = "[1";
    for (int i = 0; i < 1000; ++i)
        items += ",1";
    CHECK(has(fault(R"({"allOf":[{"items":)" + doubling.substr(0, 0) + R"({"$ref":"#/$defs/a0"}}],)" +
                        doubling.substr(doubling.find("\"$defs\"")) + R"("a11":{}}})",
                    "[" + items + "]]"),
              "more work"));
    // Each item has as many faults as the list has names; only the first is told.
    std::string names = R"({"items":{"required":["a0")";
    for (int i = 1; i < 5000; ++i)
        names += ",\"a" + std::to_string(i) + "\"";
    std::string objects = "[{}";
    for (int i = 0; i < 100'000; ++i)
        objects += ",{}";
    CHECK_FALSE(fault(names + "]}}", "[" + objects + "]]").empty());
    CHECK(has(fault("{\"properties\":{}}", R"([{")" + std::string(9000, 'k') + R"(":[1]}])"), "8 KiB"));
}

TEST_CASE("Within a bound of work the answer is the same, or none") {
    using Checked = ArgumentSchema::Checked;
    const std::string schema =
        R"({"type":"array","items":{"anyOf":[{"type":"string","pattern":"^a+$"},{"minimum":3}]}})";
    const auto whole = ArgumentSchema::compile(schema);
    for (const std::string args : {R"(["a",4,"aa"])", R"(["a",4,2])", "[", R"(["b"])"}) {
        INFO(args);
        const auto expected = whole->check("tool", args);
        bool is_known = false;
        for (std::size_t most = 0; most < 2000; most += 7) {
            std::size_t steps = most;
            const auto checked = whole->check_within("tool", args, steps);
            CHECK(steps <= most);
            const bool took_more = checked && *checked == Checked::takes_more;
            CHECK((!took_more || steps == 0));
            CHECK((!took_more || !is_known));  // more work never knows less
            is_known = !took_more;
            if (is_known)
                CHECK((checked ? "" : checked.error().detail()) ==
                      (expected ? "" : expected.error().detail()));
        }
        CHECK(is_known);
    }
}

TEST_CASE("A schema is compiled within a bound of work, or left") {
    std::string refs = R"({"definitions":{"d":{"enum":[1,2,3,4,5,6,7,8]}},"anyOf":[{})";
    for (int i = 0; i < 100; ++i)
        refs += R"(,{"$ref":"#/definitions/d"})";
    refs += "]}";
    const std::string pattern = R"({"pattern":"(a{1,30}[^b]{1,30}){1,8}"})";
    for (const std::string& schema : {std::string("{}"), refs, pattern, std::string(R"({"items":1})")}) {
        INFO(schema.substr(0, 100));
        const auto whole = ArgumentSchema::compile(schema);
        bool is_known = false;
        for (std::size_t most = 1; most < 1024UL * 1024; most *= 2) {
            std::size_t work = most;
            const auto compiled = ArgumentSchema::compile_within(schema, work);
            CHECK(work <= most);
            is_known = compiled.has_error() || compiled->has_value();
            if (is_known)
                CHECK(compiled.has_error() == whole.has_error());
            if (schema == refs && most < 8 * refs.size())
                CHECK_FALSE(is_known);  // what the $refs expand to counts, not the text alone
        }
        // A pattern may need more memory than there is here: then it is left with any work.
        CHECK((is_known || schema == pattern));
    }
}

TEST_CASE("Members that are ignored count as work each time that a $ref leads to them") {
    std::string schema = R"({"definitions":{"d":{)";
    for (int i = 0; i < 3000; ++i)
        schema += "\"x" + std::to_string(i) + "\":0,";
    schema += R"("minimum":1}},"anyOf":[{})";
    for (int i = 0; i < 500; ++i)
        schema += R"(,{"$ref":"#/definitions/d"})";
    CHECK(has(compile_fault(schema + "]}"), "too much work"));
}

}  // namespace argument_schema_test
