#include "http/api/tool_formats.hpp"

#include <iterator>
#include <string>

namespace atl::http {
namespace {

using base::ToolNeed;
using base::ToolParameter;
using base::ToolSpec;
using base::ToolValue;
using OrderedJson = nlohmann::ordered_json;

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

OrderedJson parameter_schema(const ToolParameter& parameter) {
    OrderedJson out{{"type", type_word(parameter.value)}, {"description", parameter.means}};
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
        out["default"] = OrderedJson::parse(parameter.fallback);
    return out;
}

/// Gemini takes a part of OpenAPI 3.0: types in capitals, no default, no additionalProperties.
OrderedJson gemini_schema(const OrderedJson& schema) {
    OrderedJson out;
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

OrderedJson one_tool(const ToolSpec& tool, ToolFormat format) {
    const OrderedJson schema = tool_schema(tool);
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

OrderedJson tool_schema(const ToolSpec& tool) {
    OrderedJson out{
        {"type", "object"}, {"properties", OrderedJson::object()}, {"required", OrderedJson::array()}};
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

OrderedJson tool_list(ToolFormat format, const sandbox::ToolSettings& settings) {
    OrderedJson tools = OrderedJson::array();
    for (const ToolSpec& tool : base::k_tools)
        if (tool.effect != ToolSpec::Effect::runs || settings.run_command)
            tools.push_back(one_tool(tool, format));
    // All of them are functions of one of its tools.
    if (format == ToolFormat::gemini)
        tools = OrderedJson::array({OrderedJson{{"functionDeclarations", std::move(tools)}}});
    return {{"format", k_tool_formats[static_cast<std::size_t>(format)]}, {"tools", std::move(tools)}};
}

}  // namespace atl::http
