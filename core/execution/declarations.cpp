#include "core/execution/declarations.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/execution/json_depth.hpp"
#include "core/plain/path_text.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

std::string literal(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// On one line, and nothing in it ends the comment.
std::string comment_of(const std::string& text) {
    std::string out = "/** ";
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool ends = text[i] == '/' && i > 0 && text[i - 1] == '*';
        out += static_cast<unsigned char>(text[i]) < 0x20 ? " " : ends ? " /" : std::string(1, text[i]);
    }
    return out + " */";
}

std::string text_member(const Json& schema, const char* name) {
    const auto found = schema.is_object() ? schema.find(name) : schema.end();
    return found != schema.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The beginning of a long value, cut between characters.
std::string shortened(std::string value) {
    constexpr std::size_t k_value_bytes = 200;
    if (value.size() <= k_value_bytes)
        return value;
    std::size_t end = k_value_bytes;
    while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0U) == 0x80)
        --end;
    return value.substr(0, end) + "…";
}

/// The keywords that no type says.
constexpr const char* k_remark_keywords[] = {"default",
                                             "examples",
                                             "format",
                                             "pattern",
                                             "minimum",
                                             "maximum",
                                             "exclusiveMinimum",
                                             "exclusiveMaximum",
                                             "multipleOf",
                                             "minLength",
                                             "maxLength",
                                             "minItems",
                                             "maxItems",
                                             "uniqueItems",
                                             "contains",
                                             "minContains",
                                             "maxContains",
                                             "minProperties",
                                             "maxProperties",
                                             "propertyNames",
                                             "dependentRequired",
                                             "dependentSchemas",
                                             "not",
                                             "if",
                                             "then",
                                             "else"};

/// A schema's description, or else its title, and what no type says; empty: there is nothing of that.
std::string remarks_of(const Json& schema) {
    std::string out = text_member(schema, "description");
    if (out.empty())
        out = text_member(schema, "title");
    if (!schema.is_object())
        return out;
    for (const char* const key : k_remark_keywords)
        if (const auto found = schema.find(key); found != schema.end())
            out += (out.empty() ? "@" : " @") + std::string(key) + ' ' +
                   shortened(found->is_string() ? found->get<std::string>() : literal(*found));
    return out;
}

/// The names of types that are declared before the tools, one for each $ref.
class TypeNames {
  public:
    std::string next(const std::string& wanted) {
        std::string name;
        for (const char each : wanted) {
            const bool is_letter =
                (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || each == '_';
            if (is_letter || (each >= '0' && each <= '9' && !name.empty()))
                name += each;
        }
        if (name.empty())
            name = "Type";
        if (name[0] >= 'a' && name[0] <= 'z')  // not as a type of the language
            name[0] = static_cast<char>(name[0] - 'a' + 'A');
        std::string free = name;
        for (int i = 2; !used_.insert(free).second; ++i)
            free = name + std::to_string(i);
        return free;
    }

  private:
    std::set<std::string> used_{"Array", "Promise", "Record"};
};

/// The types of one tool. A list of types repeats what each says, and so does each within it: where what was
/// written, nested text counted at each level, is more than k_tool_text_bytes, the rest is `unknown`. A $ref
/// becomes a name, whose type is written once.
class TypeWriter {
  public:
    TypeWriter(const Json& root, std::string tool, TypeNames& names)
        : root_(root), tool_(std::move(tool)), names_(names) {}

    std::string type_of(const Json& schema) {
        if (written_ > k_tool_text_bytes)
            return "unknown";
        std::string out = text_of(schema);
        written_ += out.size();
        return out;
    }

    /// The types that were named.
    std::string named_types() {
        std::string out;
        for (std::size_t i = 0; i < targets_.size(); ++i) {  // each may name more
            const auto [target, name] = targets_[i];
            if (const std::string remarks = remarks_of(*target); !remarks.empty())
                out += comment_of(remarks) + '\n';
            out += "type " + name + " = " + type_of(*target) + ";\n";
        }
        return out;
    }

  private:
    /// The type behind what it does not say.
    std::string described(const Json& schema) {
        const std::string remarks = remarks_of(schema);
        return (remarks.empty() ? "" : comment_of(remarks) + ' ') + type_of(schema);
    }

    std::string joined(const Json& schemas, std::string_view between) {
        const bool is_union = between == k_or;
        std::vector<std::string> parts;
        for (const Json& each : schemas) {
            std::string part = described(each);
            if (part != "unknown")
                parts.push_back(std::move(part));
            else if (is_union)
                return part;
        }
        std::string out;
        for (const std::string& part : parts)
            out += (out.empty() ? "" : std::string(between)) + part;
        return parts.empty() ? "unknown" : parts.size() == 1 ? out : "(" + out + ")";
    }

    std::string referred(const Json& ref) {
        const auto* const text = ref.get_ptr<const std::string*>();
        if (text == nullptr || !text->starts_with('#'))
            return "unknown";
        const std::string pointer = base::path_bytes(text->substr(1));
        const Json* target = nullptr;
        try {
            target = &root_.at(Json::json_pointer(pointer));
        } catch (const Json::exception&) {
            return "unknown";
        }
        for (const auto& [known, name] : targets_)
            if (known == target)
                return name;
        const std::size_t last = pointer.rfind('/');
        targets_.emplace_back(
            target, names_.next(last == std::string::npos ? tool_ + "_args" : pointer.substr(last + 1)));
        return targets_.back().second;
    }

    /// The type of the members that have no name of their own in `properties`; empty: there are none.
    std::string others_of(const Json& schema) {
        std::string out;
        if (const auto found = schema.find("patternProperties"); found != schema.end() && found->is_object())
            for (const auto& [pattern, each] : found->items())
                out += (out.empty() ? "" : " | ") + comment_of("names that match " + shortened(pattern)) +
                       ' ' + described(each);
        if (const auto found = schema.find("additionalProperties");
            found != schema.end() && found->is_object())
            out += (out.empty() ? "" : " | ") + described(*found);
        return out.empty() ? "" : "Record<string, " + out + ">";
    }

    std::string object_of(const Json& schema) {
        static const Json k_none = Json::object();
        const auto found = schema.find("properties");
        const Json& properties = found != schema.end() && found->is_object() ? *found : k_none;
        std::set<std::string> needed;
        if (const auto required = schema.find("required"); required != schema.end() && required->is_array())
            for (const Json& name : *required)
                if (const auto* const text = name.get_ptr<const std::string*>())
                    needed.insert(*text);
        std::string out;
        for (const auto& [name, each] : properties.items()) {
            if (const std::string remarks = remarks_of(each); !remarks.empty())
                out += comment_of(remarks) + ' ';
            out += literal(Json(name)) + (needed.erase(name) > 0 ? ": " : "?: ") + type_of(each) + "; ";
        }
        for (const std::string& name : needed)
            out += literal(Json(name)) + ": unknown; ";
        const std::string others = others_of(schema);
        if (out.empty() && others.empty()) {
            const auto more = schema.find("additionalProperties");
            return more != schema.end() && *more == false ? "Record<string, never>"
                                                          : "Record<string, unknown>";
        }
        if (out.empty())
            return others;
        return others.empty() ? "{ " + out + "}" : "({ " + out + "} & " + others + ")";
    }

    std::string array_of(const Json& schema) {
        // Draft 2020-12 says `prefixItems` and `items` for what draft 7 says with `items` and
        // `additionalItems`.
        const auto prefix = schema.find("prefixItems");
        const bool has_prefix = prefix != schema.end() && prefix->is_array();
        const auto items = has_prefix ? prefix : schema.find("items");
        if (items == schema.end())
            return "unknown[]";
        if (!items->is_array())
            return "Array<" + described(*items) + ">";
        std::string out;
        for (const Json& each : *items)
            out += (out.empty() ? "" : ", ") + described(each);
        auto more = schema.find("additionalItems");
        if (const auto rest = schema.find("items"); has_prefix && rest != schema.end())
            more = rest;
        if (more != schema.end() && more->is_object())
            out += (out.empty() ? "...Array<" : ", ...Array<") + described(*more) + ">";
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

    /// The type that `type`, `const` and `enum` name.
    std::string own_type(const Json& schema) {
        if (const auto value = schema.find("const"); value != schema.end())
            return literal(*value);
        if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
            std::string out;
            for (const Json& value : *values)
                out += (out.empty() ? "" : " | ") + literal(value);
            return out.empty() ? "never" : "(" + out + ")";
        }
        const auto type = schema.find("type");
        if (type == schema.end()) {
            for (const char* const key : {"properties", "patternProperties", "additionalProperties"})
                if (const auto found = schema.find(key); found != schema.end() && found->is_object())
                    return object_of(schema);
            return schema.contains("items") ? array_of(schema) : "unknown";
        }
        if (!type->is_array())
            return named(*type, schema);
        std::string out;
        for (const Json& each : *type)
            out += (out.empty() ? "" : " | ") + named(each, schema);
        return out.empty() ? "unknown" : "(" + out + ")";
    }

    std::string text_of(const Json& schema) {
        if (schema == false)
            return "never";
        if (!schema.is_object())
            return "unknown";
        std::vector<std::string> parts{own_type(schema)};
        if (const auto ref = schema.find("$ref"); ref != schema.end())
            parts.push_back(referred(*ref));
        for (const char* const key : {"anyOf", "oneOf", "allOf"})
            if (const auto found = schema.find(key); found != schema.end() && found->is_array())
                parts.push_back(joined(*found, key[1] == 'l' ? k_and : k_or));
        std::string out;
        int count = 0;
        for (const std::string& part : parts)
            if (part != "unknown") {
                out += (out.empty() ? "" : " & ") + part;
                ++count;
            }
        if (count == 0)
            return "unknown";
        const std::string whole = count == 1 ? out : "(" + out + ")";
        return schema.value("nullable", Json()) == true ? "(" + whole + " | null)" : whole;
    }

    static constexpr std::size_t k_tool_text_bytes = 256 * 1024;
    static constexpr std::string_view k_or = " | ";
    static constexpr std::string_view k_and = " & ";
    const Json& root_;
    std::string tool_;
    TypeNames& names_;
    std::vector<std::pair<const Json*, std::string>> targets_;
    std::size_t written_ = 0;
};

struct Declaration {
    std::string types;
    std::string member;
};

Declaration declaration(const ToolSpec& tool, TypeNames& names) {
    Declaration out;
    std::string remarks = tool.description;
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
        TypeWriter writer(schema, tool.name, names);
        const std::string own = remarks_of(schema);
        const bool is_said = remarks.empty() || own.empty() || own == remarks;
        const std::string type_text = writer.type_of(schema);
        const std::string text = is_said ? type_text : comment_of(own) + ' ' + type_text;
        out.types = writer.named_types();
        if (remarks.empty())
            remarks = own;
        if (is_array)
            parameter = "...args: " + text;
        else
            parameter = is_one ? (optional ? "args?: " : "args: ") + text : "...args: Array<" + text + ">";
        if (type_text == "unknown" && !is_one)
            parameter = "...args: unknown[]";
    }
    out.member = (remarks.empty() ? "" : "  " + comment_of(remarks) + "\n") + "  " +
                 literal(Json(tool.name)) + "(" + parameter + "): Promise<unknown>;\n";
    return out;
}

}  // namespace

std::string typescript_declarations(std::span<const ToolSpec> tools) {
    constexpr std::size_t k_end_bytes = 64;
    const std::string begin = "declare const codemode: {\n";
    std::string types;
    std::string members;
    TypeNames names;
    std::size_t written = 0;
    for (const ToolSpec& tool : tools) {
        const Declaration next = declaration(tool, names);
        if (types.size() + members.size() + next.types.size() + next.member.size() + k_end_bytes >
            k_declarations_bytes)
            break;
        types += next.types;
        members += next.member;
        ++written;
    }
    if (written < tools.size())
        members += "  // " + std::to_string(tools.size() - written) + " more are left out\n";
    return types + begin + members + "};\n";
}

}  // namespace atl::execution
