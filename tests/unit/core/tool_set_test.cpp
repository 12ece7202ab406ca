#include "core/execution/tool_set.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/execution/declarations.hpp"

namespace tool_set_test {

using namespace atl::execution;

namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string fault(const std::vector<ToolSpec>& specs) {
    const auto verified = ToolSet::verify(specs);
    return verified.has_value() ? "" : verified.error().detail();
}

}  // namespace

TEST_CASE("Names that no property can have, and a name twice, are refused by name") {
    CHECK(fault({{"fetch", "", "", {}}, {"read_file", "", "", {}}}).empty());
    for (const char* const name : {"__proto__", "then", "toJSON", "constructor", "a b", "1a", "", "a-b"})
        CHECK(has(fault({{name, "", "", {}}}), "'" + std::string(name) + "'"));
    CHECK(has(fault({{"a", "", "", {}}, {"a", "", "", {}}}), "'a' is there twice"));
    CHECK(fault({{"a", "", R"({"pattern":5})", {}}}).empty());  // told as a warning
    CHECK_FALSE(fault({{std::string(65, 'a'), "", "", {}}}).empty());
}

TEST_CASE("Of two policies the stronger one wins and a call has its tool's") {
    CHECK(stronger(Policy::deny, Policy::ask) == Policy::deny);
    CHECK(stronger(Policy::allow, Policy::ask) == Policy::ask);
    CHECK(*parse_policy("deny") == Policy::deny);
    CHECK_FALSE(parse_policy("never").has_value());
    const std::vector<ToolSpec> specs{{"a", "", R"({"required":["x"]})", Policy::ask},
                                      {"b", "", "", Policy::deny}};
    const auto set = ToolSet::make(specs);
    REQUIRE(set.has_value());
    std::size_t steps = 1000;
    CHECK(set->check_call("a", R"([{"x":1}])", steps)->policy == Policy::ask);
    CHECK_FALSE(set->check_call("a", "[{}]", steps).has_value());
    CHECK(set->check_call("b", "[1]", steps)->policy == Policy::deny);
    CHECK(has(set->check_call("c", "[]", steps).error().detail(), "no tool 'c'; there are: a b"));
}

TEST_CASE("A set whose schemas take long to compile is left to others, and so are its calls") {
    using Arguments = ToolSet::Verdict::Arguments;
    std::string schema = R"({"enum":[0)";
    while (schema.size() < k_tools_small_work)
        schema += ",1";
    const std::vector<ToolSpec> specs{{"long", "", schema + "]}", {}},
                                      {"short", "", R"({"type":"array"})", {}},
                                      {"no", "", "", Policy::deny}};
    const auto set = ToolSet::make(specs);
    REQUIRE(set.has_value());
    CHECK_FALSE(set->is_compiled());
    CHECK(fault(specs).empty());
    std::size_t steps = 1000;
    CHECK(set->check_call("short", "[]", steps)->arguments == Arguments::unchecked);
    CHECK(set->check_call("no", "[]", steps)->arguments == Arguments::fit);
    CHECK(set->schema_of("short") == specs[1].schema_json);
    // Alone it is short, and a call of it is not if it is long, or if others have used the time.
    const auto one = ToolSet::make(std::span(specs).subspan(1));
    REQUIRE(one->is_compiled());
    CHECK(one->check_call("short", "[]", steps)->arguments == Arguments::fit);
    CHECK(one->check_call("short", "[\"" + std::string(10'000, 'x') + "\"]", steps)->arguments ==
          Arguments::unchecked);
    CHECK(one->check_call("short", "[]", steps)->arguments == Arguments::unchecked);
    // A set that compiles nothing itself does not find the fault; verify() does.
    const std::string deep = R"({"a":)" + std::string(40, '[') + std::string(40, ']') + "}";
    const std::vector<ToolSpec> bad{specs[0], {"b", "", deep, {}}};
    CHECK(ToolSet::make(bad).has_value());
    CHECK(has(fault(bad), "'b': inputSchema: nested deeper"));
}

TEST_CASE("What is not checked of the schemas is told of each tool, by whoever compiles them") {
    std::vector<ToolSpec> specs{{"good", "", R"({"properties":{"a":{"pattern":"^a"}}})", {}}};
    CHECK(ToolSet::make(specs)->warnings().empty());
    CHECK(ToolSet::verify(specs)->empty());
    specs.push_back({"mail", "", R"_({"properties":{"a":{"pattern":"(?=\"x)"}}})_", {}});
    specs.push_back({"ref", "", R"({"$ref":"other.json"})", {}});
    const auto made = ToolSet::make(specs);
    CHECK(made->is_compiled());
    CHECK(made->warnings().starts_with(
        R"([{"tool":"mail","keyword":"pattern","why":"inputSchema/properties/a/pattern: RE2 cannot run )"));
    CHECK(made->warnings().ends_with(
        "\"},{\"tool\":\"ref\",\"keyword\":\"$ref\",\"why\":\"inputSchema/$ref: only "
        "a $ref within the schema (#/...) is followed\"}]"));
    CHECK(*ToolSet::verify(specs) == made->warnings());
}

TEST_CASE("Eight usual tools are compiled at once") {
    std::vector<ToolSpec> specs;
    for (int i = 0; i < 8; ++i)
        specs.push_back({"t" + std::to_string(i),
                         "",
                         R"({"type":"object","properties":{"path":{"type":"string","description":"The path"},
            "id":{"type":"string","pattern":"^[a-z0-9-]{1,64}$"},"limit":{"type":"integer","minimum":1},
            "tags":{"type":"array","items":{"type":"string"}}},"required":["path"]})",
                         {}});
    const auto set = ToolSet::make(specs);
    REQUIRE(set.has_value());
    CHECK(set->is_compiled());
}

TEST_CASE("Tools are declared in TypeScript") {
    const std::vector<ToolSpec> specs{
        {"get",
         "Gets */ it",
         R"({"type":"object","properties":{"id":{"type":"integer"},"k":{"enum":["a","b"]}},
            "required":["id"]})",
         {}},
        {"add", "", R"({"type":"array","items":[{"type":"number"},{"type":"number"}]})", {}}};
    CHECK(typescript_declarations(specs) ==
          "declare const codemode: {\n  /** Gets * / it */\n"
          "  \"get\"(args: { \"id\": number; \"k\"?: (\"a\" | \"b\"); }): Promise<unknown>;\n"
          "  \"add\"(...args: [number, number]): Promise<unknown>;\n};\n");
}

TEST_CASE("Declarations say what a schema says") {
    const auto declared = [](const std::string& schema) {
        const std::vector<ToolSpec> specs{{"t", "", schema, {}}};
        return typescript_declarations(specs);
    };
    const auto argument = [&](const std::string& schema) {
        const std::string text = declared(R"({"properties":{"a":)" + schema + "}}");
        const std::string begin = "\"a\"?: ";
        const std::size_t at = text.find(begin) + begin.size();
        return text.substr(at, text.rfind("; })") - at);
    };
    CHECK(declared(R"({"type":"object","required":["order"],"properties":{"order":{"$ref":"#/$defs/order"}},
        "$defs":{"order":{"description":"An order","properties":{"sku":{"type":"string"},
        "parts":{"type":"array","items":{"$ref":"#/$defs/order"}}}}}})") ==
          "/** An order */\ntype Order = { \"parts\"?: Array<Order>; \"sku\"?: string; };\n"
          "declare const codemode: {\n  \"t\"(args: { \"order\": Order; }): Promise<unknown>;\n};\n");
    CHECK(declared(R"({"type":"object","properties":{"child":{"$ref":"#"}}})") ==
          "type T_args = { \"child\"?: T_args; };\n"
          "declare const codemode: {\n  \"t\"(args?: { \"child\"?: T_args; }): Promise<unknown>;\n};\n");
    const std::vector<ToolSpec> two(2, {"t",
                                        "",
                                        R"({"properties":{"a":{"$ref":"#/definitions/promise"}},
        "definitions":{"promise":{"type":"string"}}})",
                                        {}});
    CHECK(has(typescript_declarations(two), "type Promise2 = string;\ntype Promise3 = string;\n"));
    CHECK(has(
        declared(
            R"({"properties":{"a":{"type":"string","description":"A\nname */","default":"x","maxLength":5}}})"),
        "{ /** A name * / @default x @maxLength 5 */ \"a\"?: string; }"));
    CHECK(has(declared(R"({"description":"Of the schema","type":"object"})"), "/** Of the schema */\n"));
    CHECK(argument(R"({"type":"object","additionalProperties":{"type":"number"}})") ==
          "Record<string, number>");
    CHECK(argument(R"({"type":"object","additionalProperties":false})") == "Record<string, never>");
    CHECK(argument(R"({"properties":{"b":{"type":"null"}},"patternProperties":{"^x":{"type":"string"}},
        "additionalProperties":{"type":"number"}})") ==
          "({ \"b\"?: null; } & Record<string, /** names that match ^x */ string | number>)");
    CHECK(argument(R"({"type":"object","required":["b"]})") == "{ \"b\": unknown; }");
    CHECK(argument(
              R"({"type":"object","properties":{"b":{"type":"number"}},"anyOf":[{"required":["b"]},{}]})") ==
          "{ \"b\"?: number; }");
    CHECK(argument(R"({"allOf":[{"type":"string"},{"$ref":"#/none"}]})") == "string");
    CHECK(argument(R"({"$ref":"https://example.com/a.json"})") == "unknown");
    CHECK(argument(R"({"const":{"k":[1]}})") == R"({"k":[1]})");
    CHECK(argument("false") == "never");
    CHECK(argument(R"({"type":"string","nullable":true})") == "(string | null)");
    CHECK(argument(R"({"oneOf":[{"type":"integer","minimum":5},{"type":"string","title":"A date"}]})") ==
          "(/** @minimum 5 */ number | /** A date */ string)");
    CHECK(argument(R"({"type":"string","allOf":[{"minLength":2}]})") ==
          "(string & /** @minLength 2 */ unknown)");
    CHECK(argument(R"({"type":"array","items":{"type":"string","description":"A name"}})") ==
          "Array</** A name */ string>");
    CHECK(argument(R"({"type":"array","items":[{"type":"string","examples":["x"]}]})") ==
          "[/** @examples [\"x\"] */ string]");
    CHECK(argument(R"({"additionalProperties":{"type":"number","maximum":9}})") ==
          "Record<string, /** @maximum 9 */ number>");
    CHECK(
        has(declared(R"({"properties":{"a":{"type":"array","contains":{"const":1}},"b":{"not":{"const":2}},
        "c":{"type":"object","propertyNames":{"maxLength":3}}}})"),
            "{ /** @contains {\"const\":1} */ \"a\"?: unknown[]; /** @not {\"const\":2} */ \"b\"?: unknown; "
            "/** @propertyNames {\"maxLength\":3} */ \"c\"?: Record<string, unknown>; }"));
    // A long value is cut, and between characters.
    CHECK(has(declared(R"({"properties":{"a":{"type":"string","default":")" + std::string(199, 'x') +
                       "\xc3\xa4y\"}}}"),
              std::string(199, 'x') + "… */"));
    // The tool's own description stands above, the schema's beside it.
    const std::vector<ToolSpec> both{
        {"t", "By the tool", R"({"type":"object","description":"By the schema"})", {}}};
    CHECK(has(typescript_declarations(both),
              "/** By the tool */\n  \"t\"(args?: /** By the schema */ Record<string, unknown>)"));
    CHECK(argument(R"({"type":"array","prefixItems":[{"type":"string"}]})") == "[string]");
    CHECK(argument(R"({"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}})") ==
          "[string, ...Array<number>]");
    CHECK(argument(R"({"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"number"}})") ==
          "[string, ...Array<number>]");
}

TEST_CASE("The text of declarations is bounded and says what is left out") {
    const std::vector<ToolSpec> specs(128, {"a", std::string(4096, 'x'), "", {}});
    const std::string text = typescript_declarations(specs);
    CHECK(text.size() <= k_declarations_bytes);
    CHECK(has(text, "more are left out"));
}

TEST_CASE("A tool without a schema of an object is declared with any number of arguments") {
    const std::vector<ToolSpec> specs{
        {"a", "", "", {}}, {"b", "", "{}", {}}, {"c", "", R"({"enum":[1]})", {}}, {"d", "", "[", {}}};
    CHECK(typescript_declarations(specs) ==
          "declare const codemode: {\n  \"a\"(...args: unknown[]): Promise<unknown>;\n"
          "  \"b\"(...args: unknown[]): Promise<unknown>;\n  \"c\"(...args: Array<(1)>): Promise<unknown>;\n"
          "  \"d\"(args?: unknown): Promise<unknown>;\n};\n");
}

TEST_CASE("Types that repeat what is within them are not written out without end") {
    std::string types = "\"object\"";
    for (int i = 0; i < 50; ++i)
        types += ",\"object\"";
    std::string schema = "{}";
    for (int i = 0; i < 14; ++i)
        schema = R"({"type":[)" + types + R"(],"properties":{"a":)" + schema + "}}";
    const std::vector<ToolSpec> specs{{"a", "", schema, {}}};
    CHECK(typescript_declarations(specs).size() <= k_declarations_bytes);
}

TEST_CASE("The schemas of a set are bounded together") {
    std::string schema = R"({"patternProperties":{"0":{})";
    for (int i = 1; i < 50; ++i)
        schema += ",\"" + std::to_string(i) + "\":{}";
    std::vector<ToolSpec> specs;
    for (int i = 0; i < 5; ++i)
        specs.push_back({"t" + std::to_string(i), "", schema + "}}", {}});
    CHECK(fault(specs).empty());
    specs.push_back({"t5", "", schema + "}}", {}});
    CHECK(has(fault(specs), "'t5'"));
    std::string large;
    for (int i = 0; i < 30'000; ++i)
        large += (i == 0 ? "" : ",") + std::to_string(i % 10);
    specs.clear();
    for (int i = 0; i < 20; ++i)
        specs.push_back({"t" + std::to_string(i), "", R"({"enum":[)" + large + "]}", {}});
    CHECK(has(fault(specs), "4 MiB"));
}

}  // namespace tool_set_test
