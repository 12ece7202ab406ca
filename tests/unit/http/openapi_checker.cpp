#include "tests/unit/http/openapi_checker.hpp"

#include <algorithm>
#include <regex>

namespace atl::test {
namespace {

using nlohmann::json;

bool has_type(const json& type, const json& value) {
    if (type.is_array())
        return std::any_of(type.begin(), type.end(), [&](const json& one) { return has_type(one, value); });
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "integer" && value.is_number_integer()) ||
           (type == "boolean" && value.is_boolean()) || (type == "null" && value.is_null());
}

}  // namespace

OpenApiChecker::OpenApiChecker(const std::string& document) : document_(json::parse(document)) {}

const json* OpenApiChecker::find_path(const std::string& path) const {
    for (const auto& [pattern, item] : document_["paths"].items()) {
        const std::regex expression(std::regex_replace(pattern, std::regex(R"(\{[^}]*\})"), "[^/]+"));
        if (std::regex_match(path, expression))
            return &item;
    }
    return nullptr;
}

std::string OpenApiChecker::check(const std::string& method, const std::string& path,
                                  const HttpResponse& response) const {
    const json* item = find_path(path.substr(0, path.find('?')));
    std::string name = method;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (item == nullptr || !item->contains(name))
        return "the document has no " + method + ' ' + path;
    const json& responses = (*item)[name]["responses"];
    const auto status = std::to_string(response.status);
    if (!responses.contains(status))
        return method + ' ' + path + " answered " + status + ", which the document does not tell";
    const json& told = resolved(responses[status]);
    if (!told.contains("content"))
        return response.body.empty() ? "" : "a body where the document has none";
    const auto type = response.header("content-type");
    if (!told["content"].contains(type))
        return "the document does not tell " + status + " as " + type;
    const json& schema = told["content"][type]["schema"];
    if (!type.starts_with("application/") || type == "application/jsonl")
        return "";
    return check_value(schema, json::parse(response.body), type);
}

const json& OpenApiChecker::resolved(const json& node) const {
    if (!node.contains("$ref"))
        return node;
    return document_.at(json::json_pointer(node["$ref"].get<std::string>().substr(1)));
}

std::string OpenApiChecker::check_value(const json& schema, const json& value,
                                        const std::string& where) const {
    if (schema.contains("$ref"))
        return check_value(resolved(schema), value, where);
    if (schema.contains("oneOf")) {
        const auto fitting =
            std::count_if(schema["oneOf"].begin(), schema["oneOf"].end(),
                          [&](const json& one) { return check_value(one, value, where).empty(); });
        return fitting == 1 ? "" : where + " fits " + std::to_string(fitting) + " schemas of oneOf";
    }
    if (schema.contains("const") && value != schema["const"])
        return where + " is not " + schema["const"].dump();
    if (schema.contains("type") && !has_type(schema["type"], value))
        return where + " has another type: " + value.dump();
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
        return where + " is none of the told values: " + value.dump();
    if (schema.contains("minimum") && value.is_number() && value < schema["minimum"])
        return where + " is less than told";
    if (schema.contains("maximum") && value > schema["maximum"])
        return where + " is more than told";
    if (value.is_array() && schema.contains("items")) {
        for (const json& element : value)
            if (auto wrong = check_value(schema["items"], element, where + "[]"); !wrong.empty())
                return wrong;
    }
    return value.is_object() ? check_object(schema, value, where) : "";
}

std::string OpenApiChecker::check_object(const json& schema, const json& value,
                                         const std::string& where) const {
    for (const json& name : schema.value("required", json::array()))
        if (!value.contains(name.get<std::string>()))
            return where + " lacks " + name.get<std::string>();
    const bool open = schema.contains("additionalProperties") && schema["additionalProperties"] != false;
    if (open || !schema.contains("properties"))
        return "";
    for (const auto& [name, member] : value.items()) {
        if (!schema["properties"].contains(name))
            return where + " has the untold member " + name;
        if (auto wrong = check_value(schema["properties"][name], member, where + '.' + name); !wrong.empty())
            return wrong;
    }
    return "";
}

}  // namespace atl::test
