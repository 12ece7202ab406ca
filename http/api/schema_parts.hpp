// The parts that component schemas are put together from. A property is declared with its description, so
// that neither is there without the other; units belong into the description.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/field_table.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

using Schema = nlohmann::ordered_json;

/// A property of an object.
struct Property {
    std::string name;
    std::string means;
    Schema schema;
};

/// optional: none has to be there, and no others may (bodies of requests). required: all are there.
enum class Members : std::uint8_t { optional, required };

inline Schema integer(IntRange range) {
    return Schema{{"type", "integer"}, {"minimum", range.least}, {"maximum", range.most}};
}
inline Schema counter() {
    return Schema{{"type", "integer"}, {"minimum", 0}};
}
inline Schema text() {
    return Schema{{"type", "string"}};
}
inline Schema flag() {
    return Schema{{"type", "boolean"}};
}
inline Schema nullable_counter() {
    return Schema{{"type", {"integer", "null"}}, {"minimum", 0}};
}
inline Schema nullable_text() {
    return Schema{{"type", {"string", "null"}}};
}
inline Schema time() {
    return Schema{{"type", "string"}, {"format", "date-time"}};
}
/// An object of any members: without `additionalProperties` generators of clients give it none.
inline Schema any_object() {
    return Schema{{"type", "object"}, {"additionalProperties", true}};
}
inline Schema list_of(Schema items) {
    return Schema{{"type", "array"}, {"items", std::move(items)}};
}
inline Schema ref(std::string_view name) {
    return Schema{{"$ref", "#/components/schemas/" + std::string(name)}};
}
inline Schema constant(const char* word) {
    return Schema{{"type", "string"}, {"const", word}};
}
inline Schema text_up_to(std::size_t bytes) {
    return Schema{{"type", "string"}, {"minLength", 1}, {"maxLength", bytes}};
}
inline Schema one_of(std::initializer_list<const char*> words) {
    Schema list = Schema::array();
    for (const char* word : words)
        list.push_back(word);
    return Schema{{"type", "string"}, {"enum", std::move(list)}};
}
inline Schema any_of_these(std::initializer_list<Schema> schemas) {
    Schema list = Schema::array();
    for (const Schema& schema : schemas)
        list.push_back(schema);
    return Schema{{"oneOf", std::move(list)}};
}

/// An object of these properties; of optional ones those of `needed` have to be there all the same.
inline Schema object(Members members, const std::vector<Property>& properties,
                     std::initializer_list<const char*> needed = {}) {
    Schema out{{"type", "object"}};
    Schema names = Schema::array();
    for (const Property& property : properties) {
        Schema& schema = out["properties"][property.name] = property.schema;
        schema["description"] = property.means;
        names.push_back(property.name);
    }
    if (members == Members::required) {
        out["required"] = std::move(names);
        return out;
    }
    out["additionalProperties"] = false;
    for (const char* name : needed)
        out["required"].push_back(name);
    return out;
}

/// The same schema with a description of its own.
inline Schema described(Schema schema, std::string_view means) {
    schema["description"] = means;
    return schema;
}

/// The place of a field that clients set: an answer, or a request.
enum class FieldUse : std::uint8_t { answer, make, patch };

/// `properties`, and behind them those of a table of fields.
std::vector<Property> with_fields(const auto& table, FieldUse use, std::vector<Property> properties) {
    base::each_row(table, [&](const auto& row) {
        const bool is_text = std::is_same_v<typename std::remove_cvref_t<decltype(row)>::Value, std::string>;
        Schema schema = is_text ? text_up_to(row.most) : integer({0, std::int64_t(row.most)});
        if (is_text && use == FieldUse::answer)
            schema = nullable_text();
        else if (is_text && use == FieldUse::patch)
            schema["type"] = {"string", "null"};
        const auto means = use == FieldUse::answer ? row.means
                           : use == FieldUse::make ? row.at_make
                                                   : row.at_patch;
        properties.push_back({std::string(row.api), std::string(means), std::move(schema)});
    });
    return properties;
}

/// An object of the limits of a sandbox.
Schema limits_schema(Members members);

// The groups of schemas, for component_schemas().
void add_request_schemas(Schema& out);
void add_resource_schemas(Schema& out);
void add_report_schemas(Schema& out);   // usage and log of a sandbox
void add_exec_schemas(Schema& out);     // programs that a request waits for
void add_process_schemas(Schema& out);  // programs that outlive the request
void add_file_schemas(Schema& out);
void add_tool_schemas(Schema& out);
void add_execution_schemas(Schema& out);
void add_event_schemas(Schema& out);  // Event, and a schema for each of its types
void add_frame_schemas(Schema& out);  // frames of streams and WebSockets
void add_secret_schemas(Schema& out);
void add_server_schemas(Schema& out);

}  // namespace atl::http
