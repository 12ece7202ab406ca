#include "core/execution/schema_inliner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/execution/schema_limits.hpp"
#include "core/plain/path_text.hpp"
#include "core/plain/utf8.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_schema(const std::string& place, const std::string& what) {
    throw SchemaRefused{schema_refusal("inputSchema" + base::excerpt(place, 256) + ": " + what)};
}

enum class Kind : std::uint8_t {
    type,
    value,
    names,
    count,
    number,
    schema,
    schemas,
    map,
    dependencies,
    items,
    pattern,
    unchecked,
    ignored
};

Kind kind_of(const std::string& key) {
    static const std::map<std::string, Kind> k_keyword_kinds{{"type", Kind::type},
                                                             {"enum", Kind::value},
                                                             {"const", Kind::value},
                                                             {"multipleOf", Kind::number},
                                                             {"maximum", Kind::number},
                                                             {"exclusiveMaximum", Kind::number},
                                                             {"minimum", Kind::number},
                                                             {"exclusiveMinimum", Kind::number},
                                                             {"maxLength", Kind::count},
                                                             {"minLength", Kind::count},
                                                             {"maxItems", Kind::count},
                                                             {"minItems", Kind::count},
                                                             {"uniqueItems", Kind::value},
                                                             {"maxProperties", Kind::count},
                                                             {"minProperties", Kind::count},
                                                             {"required", Kind::names},
                                                             {"pattern", Kind::pattern},
                                                             {"not", Kind::schema},
                                                             {"if", Kind::schema},
                                                             {"then", Kind::schema},
                                                             {"else", Kind::schema},
                                                             {"contains", Kind::schema},
                                                             {"propertyNames", Kind::schema},
                                                             {"additionalProperties", Kind::schema},
                                                             {"additionalItems", Kind::schema},
                                                             {"items", Kind::items},
                                                             {"prefixItems", Kind::items},
                                                             {"allOf", Kind::schemas},
                                                             {"anyOf", Kind::schemas},
                                                             {"oneOf", Kind::schemas},
                                                             {"properties", Kind::map},
                                                             {"patternProperties", Kind::map},
                                                             {"dependencies", Kind::dependencies},
                                                             {"dependentRequired", Kind::dependencies},
                                                             {"dependentSchemas", Kind::dependencies},
                                                             {"minContains", Kind::unchecked},
                                                             {"maxContains", Kind::unchecked},
                                                             {"unevaluatedItems", Kind::unchecked},
                                                             {"unevaluatedProperties", Kind::unchecked},
                                                             {"$dynamicRef", Kind::unchecked},
                                                             {"$recursiveRef", Kind::unchecked}};
    const auto found = k_keyword_kinds.find(key);
    return found == k_keyword_kinds.end() ? Kind::ignored : found->second;
}

/// True if a schema under this keyword is for a part of the value. The others are for the value itself.
bool is_for_a_part(const std::string& key) {
    return key == "properties" || key == "patternProperties" || key == "additionalProperties" ||
           key == "items" || key == "prefixItems" || key == "additionalItems" || key == "contains" ||
           key == "propertyNames";
}

bool is_list_of_strings(const Json& value) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
}

/// The names that `type` has; nothing: it has others, or none.
std::optional<Json> type_names(const Json& type) {
    static const std::set<std::string> k_types{"null",   "boolean", "object", "array",
                                               "number", "string",  "integer"};
    Json names = type.is_array() ? type : Json::array({type});
    const bool is_known = !names.empty() && is_list_of_strings(names) &&
                          std::all_of(names.begin(), names.end(), [](const Json& each) {
                              return k_types.contains(each.get_ref<const std::string&>());
                          });
    return is_known ? std::optional(std::move(names)) : std::nullopt;
}

/// A length or a number of members, which may be written as 1.0 or 1e30; nothing: it is none.
std::optional<std::int64_t> count_of(const Json& value) {
    constexpr double k_most = 9007199254740992.0;  // more than anything has
    if (!value.is_number())
        return std::nullopt;
    const auto count = value.get<double>();
    if (count < 0 || std::trunc(count) != count)
        return std::nullopt;
    return static_cast<std::int64_t>(std::min(count, k_most));
}

/// The integer that a tagged bigint is. One beyond all doubles becomes the last of them.
std::optional<Json> bigint_of(const std::string& text) {
    constexpr std::size_t k_double_digits = 308;
    const std::string digits = text.substr(text.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    Json number = Json::parse(text, nullptr, false);
    if (number.is_number())
        return number;
    if (digits[0] == '0' || digits.size() <= k_double_digits)
        return std::nullopt;
    constexpr double k_last = std::numeric_limits<double>::max();
    return Json(text.starts_with('-') ? -k_last : k_last);
}

/// Copies what is checked of a schema, with each $ref replaced by what it names; one that leads back to where
/// it is becomes a reference to `definitions`, which valijson follows during a check.
class Inliner {
  public:
    /// Throws TooMuchWork once `work` is used up.
    Inliner(const Json& root, std::size_t& work, std::size_t pattern_memory_bytes)
        : root_(root), work_(work), pattern_memory_bytes_(pattern_memory_bytes) {}

    Json whole() {
        Json out = schema(root_, "", true);
        for (std::size_t i = 0; i < recursive_.size(); ++i)  // each may add more
            definitions_[std::to_string(i)] = schema(*recursive_[i], "", true);
        if (!recursive_.empty())
            out["definitions"] = std::move(definitions_);
        return out;
    }
    InlinedSchema take(Json whole) {
        return {std::move(whole), std::move(warnings_), std::move(patterns_), bytes_, nodes_};
    }

  private:
    struct Open {
        const Json* schema;
        bool is_part;  // of the value that the one before is for
    };

    void spend(std::size_t cost) {
        if (cost > work_)
            throw TooMuchWork();
        work_ -= cost;
    }

    Json schema(const Json& from, const std::string& place, bool is_part) {
        spend(k_compile_work_per_schema);
        if (++nodes_ > k_schema_expanded_nodes || open_.size() > k_schema_depth)
            refuse_schema(place, "too large or too deep once its $refs are followed");
        if (from.is_boolean())
            return from.get<bool>() ? Json::object() : Json{{k_inlined_type, Json::array()}};
        if (!from.is_object()) {
            leave_out(place.substr(place.rfind('/') + 1), place, "a schema is an object or a boolean");
            return Json::object();
        }
        open_.push_back({&from, is_part});
        Json out = Json::object();
        for (const auto& [key, value] : from.items()) {
            // Also of members that are ignored: many $refs may lead to them.
            spend(k_value_bytes + key.size() + place.size() / 16);
            const std::size_t left_out = left_out_;
            member(out, key, value, pointer_step(place, key));
            if (left_out_ != left_out)
                loosen(out, key);
        }
        if (const auto ref = from.find("$ref"); ref != from.end())
            out = {{"allOf", Json::array({std::move(out), referred(*ref, pointer_step(place, "$ref"))})}};
        if (from.value("nullable", Json()) == true)  // as in OpenAPI 3.0
            out = {{"anyOf", Json::array({std::move(out), Json{{k_inlined_type, Json::array({"null"})}}})}};
        open_.pop_back();
        return out;
    }

    /// Leaves `keyword` to the caller.
    void leave_out(const std::string& keyword, const std::string& place, const std::string& why) {
        constexpr std::size_t k_told_warnings = 16;
        ++left_out_;
        if (warnings_.size() < k_told_warnings)
            warnings_.push_back(
                {base::excerpt(keyword, 64), base::excerpt("inputSchema" + place + ": " + why, 512)});
    }

    /// Something within `key` is left out, so more fits there. What would then fit less is left out, too.
    static void loosen(Json& out, const std::string& key) {
        if (key == "not" || key == "if")
            out.erase(key);
        if (key == "patternProperties")
            out.erase("additionalProperties");  // which comes before
        if (key == "oneOf" && out.contains(key)) {
            out["allOf"].push_back({{"anyOf", std::move(out[key])}});
            out.erase(key);
        }
    }

    void copied(std::size_t bytes, const std::string& place) {
        spend(bytes);
        bytes_ += bytes;
        if (bytes_ > k_schema_expanded_bytes)
            refuse_schema(place, "larger than 1 MiB once its $refs are followed");
    }
    void copied(const Json& value, const std::string& place) {
        copied(k_value_bytes + (value.is_string() ? value.get_ref<const std::string&>().size() : 0), place);
        if (value.is_object())
            for (const auto& [key, each] : value.items()) {
                copied(key.size(), place);
                copied(each, place);
            }
        else if (value.is_array())
            for (const Json& each : value)
                copied(each, place);
    }

    void member(Json& out, const std::string& key, const Json& value, const std::string& place) {
        const Kind kind = kind_of(key);
        if (kind != Kind::ignored)
            copied(k_value_bytes + key.size(), place);
        const bool is_part = is_for_a_part(key);
        switch (kind) {
            case Kind::ignored:
                return;
            case Kind::unchecked:
                unchecked(out, key, value, place);
                return;
            case Kind::pattern:
                if (!value.is_string())
                    return leave_out(key, place, "a pattern is a string");
                if (!pattern(key, value.get<std::string>(), place))
                    return;
                copied(value, place);
                out[key] = value;
                return;
            case Kind::type:
                copied(value, place);
                if (auto names = type_names(value))
                    out[k_inlined_type] = *std::move(names);
                else
                    leave_out(key, place, "no type of JSON Schema, or no list of them");
                return;
            case Kind::names:
                if (!is_list_of_strings(value))
                    return leave_out(key, place, "an array of names is meant");
                copied(value, place);
                out[key] = value;
                return;
            case Kind::count:
                if (const auto count = count_of(value))
                    out[key] = *count;
                else
                    leave_out(key, place, "an integer from 0 is meant");
                return;
            case Kind::value:
                copied(value, place);
                if (key == "uniqueItems")
                    unique(out, value, place);
                else if (key == "enum" && !value.is_array())
                    leave_out(key, place, "an array of values is meant");
                else
                    values(out, key == "enum" ? k_inlined_enum : k_inlined_const,
                           key == "enum" ? value : Json::array({value}));
                return;
            case Kind::number:
                if (!value.is_number() || (key == "multipleOf" && !(value.get<double>() > 0)))
                    return leave_out(key, place,
                                     key == "multipleOf" ? "a number above 0 is meant" : "a number is meant");
                copied(value, place);
                values(out, number_rule(key), value);
                return;
            case Kind::schema:
                // Said in its own sentence where it is false.
                out[key] =
                    key == "additionalProperties" && value == false ? value : schema(value, place, is_part);
                return;
            case Kind::items:
                items(out, key, value, place);
                return;
            case Kind::schemas:
                if (!value.is_array())
                    return leave_out(key, place, "an array of schemas is meant");
                out[key] = schemas(value, place, is_part);
                return;
            case Kind::map:
                if (key == "properties" && !value.is_object())
                    out.erase("additionalProperties");  // which comes before
                [[fallthrough]];
            case Kind::dependencies:
                if (!value.is_object())
                    return leave_out(key, place, "an object of schemas is meant");
                Json all = Json::object();
                for (const auto& [name, each] : value.items())
                    if (auto one = named(key, name, each, pointer_step(place, name)))
                        all[name] = *std::move(one);
                if (key.starts_with("dependent"))  // draft 7 has one keyword for both
                    out["allOf"].push_back({{"dependencies", std::move(all)}});
                else
                    out[key] = std::move(all);
        }
    }

    /// A value that is compared.
    static void values(Json& out, const std::string& key, const Json& value) {
        out[key] = value;
        plain_numbers(out[key]);
    }

    /// A member of an object of schemas; nothing: it is left out.
    std::optional<Json> named(const std::string& key, const std::string& name, const Json& each,
                              const std::string& place) {
        copied(k_value_bytes + name.size(), place);
        if (key == "patternProperties" && !pattern(key, name, place))
            return std::nullopt;
        const bool may_be_names = key == "dependencies" || key == "dependentRequired";
        if (!may_be_names || !each.is_array())
            return schema(each, place, is_for_a_part(key));
        if (!is_list_of_strings(each)) {
            leave_out(key, place, "an array of names is meant");
            return std::nullopt;
        }
        copied(each, place);
        return each;
    }

    /// Draft 2020-12 has `prefixItems` and `items` for the `items` and `additionalItems` of draft 7. `items`
    /// comes first.
    void items(Json& out, const std::string& key, const Json& value, const std::string& place) {
        if (key == "items") {
            out[key] = value.is_array() ? schemas(value, place, true) : schema(value, place, true);
            return;
        }
        const auto rest = out.find("items");
        if (!value.is_array() || (rest != out.end() && rest->is_array()))
            return leave_out(key, place, "an array of schemas is meant, beside no other one in `items`");
        if (rest != out.end())
            out["additionalItems"] = std::move(*rest);
        out["items"] = schemas(value, place, true);
    }

    void unchecked(Json& out, const std::string& key, const Json& value, const std::string& place) {
        if (key == "minContains" && value == 0)
            out.erase("contains");  // which comes before
        else if (value != true && value != Json::object() && !(key == "minContains" && value == 1))
            leave_out(key, place, "this keyword is not checked");
    }

    Json schemas(const Json& from, const std::string& place, bool is_part) {
        Json out = Json::array();
        for (std::size_t i = 0; i < from.size(); ++i)
            out.push_back(schema(from[i], pointer_step(place, std::to_string(i)), is_part));
        return out;
    }

    /// The texts "true" and "false" are taken for what they say.
    void unique(Json& out, const Json& value, const std::string& place) {
        if (value == true || value == "true")
            out[k_inlined_unique] = true;
        else if (value != false && value != "false")
            leave_out("uniqueItems", place, "true or false is meant");
    }

    /// False: RE2 cannot run it.
    bool pattern(const std::string& keyword, const std::string& text, const std::string& place) {
        if (patterns_.contains(text))
            return true;
        if (patterns_.size() >= k_schema_patterns) {
            leave_out(keyword, place, "more than 64 patterns");
            return false;
        }
        spend(k_compile_work_per_pattern);
        re2::RE2::Options options(re2::RE2::Quiet);
        options.set_max_mem(static_cast<std::int64_t>(pattern_memory_bytes_));
        auto compiled = std::make_shared<const re2::RE2>(text, options);
        const std::string shown = "the pattern '" + base::excerpt(text, 100) + "'";
        // It may compile with more memory: the checker has that, and decides.
        if (compiled->error_code() == re2::RE2::ErrorPatternTooLarge &&
            pattern_memory_bytes_ < k_pattern_memory_bytes)
            throw TooMuchWork();
        if (!compiled->ok() || compiled->ProgramSize() > k_pattern_instructions) {
            leave_out(keyword, place,
                      compiled->ok() ? shown + " is too large"
                                     : "RE2 cannot run " + shown + ": " + compiled->error());
            return false;
        }
        patterns_.emplace(text, std::move(compiled));
        return true;
    }

    Json referred(const Json& ref, const std::string& place) {
        const auto left = [&](const char* why) {
            leave_out("$ref", place, why);
            return Json::object();
        };
        if (!ref.is_string() || !ref.get_ref<const std::string&>().starts_with('#'))
            return left("only a $ref within the schema (#/...) is followed");
        const std::string fragment = ref.get_ref<const std::string&>().substr(1);
        spend(fragment.size());
        // RFC 6901 section 6: a fragment is percent-encoded. A % that begins no escape stands for itself.
        const std::string pointer = base::path_bytes(fragment);
        const Json* target = nullptr;
        try {
            target = &root_.at(Json::json_pointer(pointer));
        } catch (const Json::exception&) {
            return left("the $ref names nothing");
        }
        const auto open = std::find_if(open_.begin(), open_.end(),
                                       [target](const Open& each) { return each.schema == target; });
        if (open == open_.end())
            return schema(*target, place, false);
        if (std::none_of(open + 1, open_.end(), [](const Open& each) { return each.is_part; }))
            return left("the $ref leads to itself");
        const auto known = std::find(recursive_.begin(), recursive_.end(), target);
        const auto index = static_cast<std::size_t>(known - recursive_.begin());
        if (known == recursive_.end()) {
            if (recursive_.size() >= k_schema_recursive)
                return left("more than 4 schemas that a $ref within them names");
            recursive_.push_back(target);
        }
        return {{"$ref", "#/definitions/" + std::to_string(index)}};
    }

    static constexpr std::size_t k_value_bytes = 8;  // counted for each value and name
    const Json& root_;
    std::size_t& work_;
    const std::size_t pattern_memory_bytes_;
    std::vector<Open> open_;
    std::vector<const Json*> recursive_;
    Json definitions_ = Json::object();
    Patterns patterns_;
    std::vector<SchemaWarning> warnings_;
    std::size_t left_out_ = 0;
    std::size_t nodes_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace

base::Error schema_refusal(const std::string& text) {
    return {base::Errc::invalid_field, base::excerpt(text, 512)};
}

std::string pointer_step(const std::string& place, const std::string& key) {
    std::string out = place + '/';
    for (const char byte : key)
        out += byte == '~' ? "~0" : byte == '/' ? "~1" : std::string(1, byte);
    return out;
}

void plain_numbers(Json& value) {
    constexpr double k_integers_end = 9223372036854775808.0;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
        value = value.get<double>();
    } else if (value.is_number_float()) {
        const auto number = value.get<double>();
        if (std::trunc(number) == number && std::fabs(number) < k_integers_end)
            value = static_cast<std::int64_t>(number);
    } else if (value.is_array() || value.is_object()) {
        const auto tag = value.is_object() && value.size() == 2 ? value.find("$atoll") : value.end();
        const auto text = tag == value.end() ? value.end() : value.find("value");
        if (text != value.end() && text->is_string()) {
            const auto& written = text->get_ref<const std::string&>();
            auto number = *tag == "bigint" ? bigint_of(written) : std::nullopt;
            if (*tag == "number" && written == "-0")
                number = Json(0);
            if (number) {
                value = Json(*std::move(number));
                return plain_numbers(value);
            }
        }
        for (Json& each : value)
            plain_numbers(each);
    }
}

InlinedSchema inline_schema(const nlohmann::json& root, std::size_t& work, std::size_t pattern_memory_bytes) {
    Inliner inliner(root, work, pattern_memory_bytes);
    Json whole = inliner.whole();
    return inliner.take(std::move(whole));
}

}  // namespace atl::execution
