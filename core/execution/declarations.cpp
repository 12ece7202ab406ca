#include "core/execution/declarations.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/execution/json_depth.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

std::string literal(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The type of one schema. A list of types repeats what each says, and so does each within it: where what was
/// written, nested text counted at each level, is more than k_tool_text_bytes, the rest is `unknown`.
class TypeWriter {
  public:
    std::string type_of(const Json& schema) {
        if (written_ > k_tool_text_bytes)
            return "unknown";
        std::string out = text_of(schema);
        written_ += out.size();
        return out;
    }

  private:
    std::string joined(const Json& schemas, const char* between) {
        std::string out;
        for (const Json& each : schemas)
            out += (out.empty() ? "" : between) + type_of(each);
        return out.empty() ? "unknown" : "(" + out + ")";
    }

    std::string object_of(const Json& schema) {
        const auto properties = schema.find("properties");
        if (properties == schema.end() || !properties->is_object() || properties->empty())
            return "Record<string, unknown>";
        std::set<std::string_view> needed;
        if (const auto required = schema.find("required"); required != schema.end() && required->is_array())
            for (const Json& name : *required)
                if (const auto* const text = name.get_ptr<const std::string*>())
                    needed.insert(*text);
        std::string out = "{ ";
        for (const auto& [name, each] : properties->items())
            out += literal(Json(name)) + (needed.contains(name) ? ": " : "?: ") + type_of(each) + "; ";
        return out + "}";
    }

    std::string array_of(const Json& schema) {
        const auto items = schema.find("items");
        if (items == schema.end())
            return "unknown[]";
        if (!items->is_array())
            return "Array<" + type_of(*items) + ">";
        std::string out;
        for (const Json& each : *items)
            out += (out.empty() ? "" : ", ") + type_of(each);
        return "[" + out + "]";
    }

    std::string named(const Json& name, const Json& schema) {
        if (written_ > k_tool_text_bytes)
            return "unknown";
        std::string out = "unknown";
        if (name == "string" || name == "boolean" || name == "null")
            out = name.get<std::string>();
        else if (name == "number" || name == "integer")
            out = "number";
        else if (name == "array")
            out = array_of(schema);
        else if (name == "object")
            out = object_of(schema);
        written_ += out.size();
        return out;
    }

    std::string text_of(const Json& schema) {
        if (!schema.is_object())
            return "unknown";
        if (const auto value = schema.find("const"); value != schema.end())
            return value->is_structured() ? "unknown" : literal(*value);
        if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
            std::string out;
            for (const Json& value : *values)
                out += (out.empty() ? "" : " | ") + (value.is_structured() ? "unknown" : literal(value));
            return out.empty() ? "never" : "(" + out + ")";
        }
        for (const char* const key : {"anyOf", "oneOf", "allOf"})
            if (const auto found = schema.find(key); found != schema.end() && found->is_array())
                return joined(*found, key[1] == 'l' ? " & " : " | ");
        const auto type = schema.find("type");
        if (type == schema.end())
            return schema.contains("properties") ? object_of(schema) : "unknown";
        if (!type->is_array())
            return named(*type, schema);
        std::string out;
        for (const Json& each : *type)
            out += (out.empty() ? "" : " | ") + named(each, schema);
        return out.empty() ? "unknown" : "(" + out + ")";
    }

    static constexpr std::size_t k_tool_text_bytes = 256 * 1024;
    std::size_t written_ = 0;
};

/// On one line each, and nothing in it ends the comment.
std::string comment_of(const std::string& text) {
    std::string out = "  /** ";
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool ends = text[i] == '/' && i > 0 && text[i - 1] == '*';
        out += static_cast<unsigned char>(text[i]) < 0x20 ? " " : ends ? " /" : std::string(1, text[i]);
    }
    return out + " */\n";
}

std::string declaration(const ToolSpec& tool) {
    std::string parameter = tool.schema_json.empty() ? "...args: unknown[]" : "args?: unknown";
    const bool fits =
        tool.schema_json.size() <= k_schema_limit_bytes && json_depth(tool.schema_json) <= k_schema_depth;
    const Json schema = fits ? Json::parse(tool.schema_json, nullptr, false) : Json();
    if (schema.is_object()) {
        const auto type = schema.find("type");
        const bool is_array = type != schema.end() && *type == "array";
        const bool is_one =
            type != schema.end() || schema.contains("properties") || schema.contains("required");
        const bool optional = !schema.contains("required") || schema["required"].empty();
        const std::string text = TypeWriter().type_of(schema);
        if (is_array)
            parameter = "...args: " + text;
        else
            parameter = is_one ? (optional ? "args?: " : "args: ") + text : "...args: Array<" + text + ">";
        if (text == "unknown" && !is_one)
            parameter = "...args: unknown[]";
    }
    return (tool.description.empty() ? "" : comment_of(tool.description)) + "  " + literal(Json(tool.name)) +
           "(" + parameter + "): Promise<unknown>;\n";
}

}  // namespace

std::string typescript_declarations(std::span<const ToolSpec> tools) {
    constexpr std::size_t k_end_bytes = 64;
    std::string out = "declare const codemode: {\n";
    std::size_t written = 0;
    for (const ToolSpec& tool : tools) {
        const std::string next = declaration(tool);
        if (out.size() + next.size() + k_end_bytes > k_declarations_bytes)
            break;
        out += next;
        ++written;
    }
    if (written < tools.size())
        out += "  // " + std::to_string(tools.size() - written) + " more are left out\n";
    return out + "};\n";
}

}  // namespace atl::execution
