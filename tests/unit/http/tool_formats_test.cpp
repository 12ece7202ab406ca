#include "http/api/tool_formats.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

namespace tool_formats_test {

using namespace atl::http;
using Json = nlohmann::ordered_json;

namespace {

/// Checks that `schema` is a JSON Schema of an object in which every property has a description.
void check_schema(const Json& schema, const std::string& object_type) {
    CHECK(schema.at("type") == object_type);
    REQUIRE_FALSE(schema.at("properties").empty());
    for (const auto& [name, property] : schema.at("properties").items()) {
        INFO(name);
        CHECK(property.at("type").is_string());
        CHECK(property.at("description").get<std::string>().size() > 10);
    }
    for (const Json& name : schema.at("required"))
        CHECK(schema.at("properties").contains(name.get<std::string>()));
}

}  // namespace

TEST_CASE("The tools are told in four forms, each with the same arguments") {
    const Json plain = tool_list(ToolFormat::json_schema).at("tools");
    const Json openai = tool_list(ToolFormat::openai).at("tools");
    const Json anthropic = tool_list(ToolFormat::anthropic).at("tools");
    const Json gemini = tool_list(ToolFormat::gemini).at("tools").at(0).at("functionDeclarations");
    REQUIRE(plain.size() == 7);
    REQUIRE(gemini.size() == 7);
    CHECK(plain[6].at("name") == "run_command");
    CHECK(gemini[6].at("name") == "run_command");
    for (std::size_t i = 0; i < plain.size(); ++i) {
        const Json& schema = plain[i].at("inputSchema");
        INFO(plain[i].at("name"));
        check_schema(schema, "object");
        CHECK(schema.at("additionalProperties") == false);
        CHECK(openai[i].at("function").at("parameters") == schema);
        CHECK(anthropic[i].at("input_schema") == schema);
        check_schema(gemini[i].at("parameters"), "OBJECT");
        CHECK(gemini[i].at("parameters").at("properties").size() == schema.at("properties").size());
        CHECK(gemini[i].at("parameters").at("required") == schema.at("required"));
    }
    CHECK(plain[3].at("inputSchema").at("properties").at("expected_replacements").at("default") == 1);
    CHECK_FALSE(plain[3].at("inputSchema").at("properties").contains("allow_multiple"));
}

TEST_CASE("A tool that is switched off is told in no form") {
    for (std::size_t i = 0; i < std::size(k_tool_formats); ++i) {
        const auto format = static_cast<ToolFormat>(i);
        CHECK(tool_list(format).dump().find("\"run_command\"") != std::string::npos);
        const std::string without = tool_list(format, {.run_command = false}).dump();
        CHECK(without.find("run_command") == std::string::npos);
        CHECK(without.find("\"glob\"") != std::string::npos);
    }
}

TEST_CASE("A form of tools is known by its word") {
    for (const std::string_view word : k_tool_formats)
        CHECK(tool_list(*tool_format(word)).at("format") == word);
    CHECK_FALSE(tool_format("xml"));
    CHECK_FALSE(tool_format(""));
}

TEST_CASE("No two names of a tool's parameters are the same") {
    for (const auto& tool : atl::base::k_tools) {
        std::set<std::string_view> names;
        for (const auto& parameter : tool.parameters) {
            CHECK(names.insert(parameter.name).second);
            for (const std::string_view alias : parameter.aliases)
                if (!alias.empty())
                    CHECK(names.insert(alias).second);
        }
    }
}

}  // namespace tool_formats_test
