#include "http/api/tool_formats.hpp"

#include <iterator>
#include <string>

namespace atl::http {
namespace {

using sandbox::ToolNeed;
using sandbox::ToolParameter;
using sandbox::ToolSpec;
using sandbox::ToolValue;
using Json = nlohmann::ordered_json;

constexpr std::string_view type_word(ToolValue value) {
    switch (value) {
        case ToolValue::text:
            return "string";
        case ToolValue::flag:
            return "boolean";
        case ToolValue::count:
            return "integer";
        case ToolValue::text_list:
            return "array";
    }
    return {};
}

Json parameter_schema(const ToolParameter& parameter) {
    Json out{{"type", type_word(parameter.value)}, {"description", parameter.means}};
    if (parameter.value == ToolValue::count) {
        out["minimum"] = parameter.least;
        if (parameter.most != INT32_MAX)
            out["maximum"] = parameter.most;
    }
    if (parameter.value == ToolValue::text_list) {
        out["items"] = {{"type", "string"}};
        out["maxItems"] = base::k_max_tool_ignores;
    }
    if (!parameter.fallback.empty())
        out["default"] = Json::parse(parameter.fallback);
    return out;
}

/// Gemini takes a part of OpenAPI 3.0: types in capitals, no default, no additionalProperties.
Json gemini_schema(const Json& schema) {
    Json out;
    for (const auto& [name, value] : schema.items()) {
        if (name == "type") {
            std::string word = value.get<std::string>();
            for (char& letter : word)
                letter = static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
            out[name] = word;
        } else if (name == "items") {
            out[name] = gemini_schema(value);
        } else if (name == "properties") {
            for (const auto& [property, inner] : value.items())
                out[name][property] = gemini_schema(inner);
        } else if (name == "description" || name == "required" || name == "minimum" || name == "maximum") {
            out[name] = value;
        }
    }
    return out;
}

Json one_tool(const ToolSpec& tool, ToolFormat format) {
    const Json schema = tool_schema(tool);
    switch (format) {
        case ToolFormat::json_schema:
            return {{"name", tool.name}, {"description", tool.means}, {"inputSchema", schema}};
        case ToolFormat::openai:
            return {{"type", "function"},
                    {"function", {{"name", tool.name}, {"description", tool.means}, {"parameters", schema}}}};
        case ToolFormat::anthropic:
            return {{"name", tool.name}, {"description", tool.means}, {"input_schema", schema}};
        case ToolFormat::gemini:
            return {{"name", tool.name}, {"description", tool.means}, {"parameters", gemini_schema(schema)}};
    }
    return {};
}

}  // namespace

std::optional<ToolFormat> tool_format(std::string_view word) noexcept {
    for (std::size_t i = 0; i < std::size(k_tool_formats); ++i)
        if (k_tool_formats[i] == word)
            return static_cast<ToolFormat>(i);
    return std::nullopt;
}

Json tool_schema(const ToolSpec& tool) {
    Json out{{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (const ToolParameter& parameter : tool.parameters) {
        if (parameter.need == ToolNeed::accepted)
            continue;
        const std::string name(parameter.name);
        out["properties"][name] = parameter_schema(parameter);
        if (parameter.need == ToolNeed::required)
            out["required"].push_back(name);
    }
    out["additionalProperties"] = false;
    return out;
}

Json tool_list(ToolFormat format) {
    Json tools = Json::array();
    for (const ToolSpec& tool : sandbox::k_tools)
        tools.push_back(one_tool(tool, format));
    // All of them are functions of one of its tools.
    if (format == ToolFormat::gemini)
        tools = Json::array({Json{{"functionDeclarations", std::move(tools)}}});
    return {{"format", k_tool_formats[static_cast<std::size_t>(format)]}, {"tools", std::move(tools)}};
}

}  // namespace atl::http
