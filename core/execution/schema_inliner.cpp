#include "core/execution/schema_inliner.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/execution/schema_limits.hpp"
#include "core/plain/path_text.hpp"
#include "core/plain/utf8.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_schema(const std::string& place, const std::string& what) {
    throw SchemaRefused{schema_refusal("inputSchema" + place + ": " + what)};
}

enum class Kind : std::uint8_t { value, number, schema, schemas, map, dependencies, items, pattern, ignored };

Kind kind_of(const std::string& key) {
    static const std::map<std::string, Kind> k_keyword_kinds{{"type", Kind::value},
                                                             {"enum", Kind::value},
                                                             {"const", Kind::value},
                                                             {"multipleOf", Kind::number},
                                                             {"maximum", Kind::number},
                                                             {"exclusiveMaximum", Kind::number},
                                                             {"minimum", Kind::number},
                                                             {"exclusiveMinimum", Kind::number},
                                                             {"maxLength", Kind::value},
                                                             {"minLength", Kind::value},
                                                             {"maxItems", Kind::value},
                                                             {"minItems", Kind::value},
                                                             {"uniqueItems", Kind::value},
                                                             {"maxProperties", Kind::value},
                                                             {"minProperties", Kind::value},
                                                             {"required", Kind::value},
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
                                                             {"allOf", Kind::schemas},
                                                             {"anyOf", Kind::schemas},
                                                             {"oneOf", Kind::schemas},
                                                             {"properties", Kind::map},
                                                             {"patternProperties", Kind::map},
                                                             {"dependencies", Kind::dependencies}};
    const auto found = k_keyword_kinds.find(key);
    return found == k_keyword_kinds.end() ? Kind::ignored : found->second;
}

/// Whether a schema under that keyword is for a part of the value. The others are for the value itself.
bool is_for_a_part(const std::string& key) {
    return key == "properties" || key == "patternProperties" || key == "additionalProperties" ||
           key == "items" || key == "additionalItems" || key == "contains" || key == "propertyNames";
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
            return from.get<bool>() ? Json::object() : Json{{"not", Json::object()}};
        if (!from.is_object())
            refuse_schema(place, "a schema is an object or a boolean");
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
        open_.pop_back();
        return out;
    }

    /// Leaves `keyword` to the caller.
    void leave_out(const char* keyword, const std::string& place, const std::string& why) {
        constexpr std::size_t k_told_warnings = 16;
        ++left_out_;
        if (warnings_.size() < k_told_warnings)
            warnings_.push_back({keyword, base::excerpt("inputSchema" + place + ": " + why, 512)});
    }

    /// Something within `key` is left out, so more fits there. What would then fit less is left out, too.
    static void loosen(Json& out, const std::string& key) {
        if (key == "not" || key == "if")
            out.erase(key);
        if (key == "patternProperties")
            out.erase("additionalProperties");  // which comes before
        if (key == "oneOf") {
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
            case Kind::pattern:
                if (!value.is_string())
                    refuse_schema(place, "a pattern is a string");
                if (!pattern(key.c_str(), value.get<std::string>(), place))
                    return;
                [[fallthrough]];
            case Kind::value:
                copied(value, place);
                if (key == "uniqueItems")
                    unique(out, value, place);
                else if (key == "enum" && !value.is_array())
                    refuse_schema(place, "an array of values is meant");
                else if (key == "enum" || key == "const")
                    out[key == "enum" ? k_inlined_enum : k_inlined_const] =
                        key == "enum" ? value : Json::array({value});
                else
                    out[key] = value;
                return;
            case Kind::number:
                if (!value.is_number() || (key == "multipleOf" && !(value.get<double>() > 0)))
                    refuse_schema(
                        place, key == "multipleOf" ? "multipleOf is a number above 0" : "a number is meant");
                copied(value, place);
                out[number_rule(key)] = value;
                round_beyond_int64(out[number_rule(key)]);
                return;
            case Kind::schema:
                out[key] = schema(value, place, is_part);
                return;
            case Kind::items:
                out[key] = value.is_array() ? schemas(value, place, is_part) : schema(value, place, is_part);
                return;
            case Kind::schemas:
                out[key] = schemas(value, place, is_part);
                return;
            case Kind::map:
            case Kind::dependencies:
                if (!value.is_object())
                    refuse_schema(place, "an object of schemas is meant");
                out[key] = Json::object();
                for (const auto& [name, each] : value.items()) {
                    copied(k_value_bytes + name.size(), place);
                    if (key == "patternProperties" && !pattern(key.c_str(), name, pointer_step(place, name)))
                        continue;
                    const bool names = key == "dependencies" && each.is_array();
                    if (names)
                        copied(each, place);
                    out[key][name] = names ? each : schema(each, pointer_step(place, name), is_part);
                }
        }
    }

    Json schemas(const Json& from, const std::string& place, bool is_part) {
        if (!from.is_array())
            refuse_schema(place, "an array of schemas is meant");
        Json out = Json::array();
        for (std::size_t i = 0; i < from.size(); ++i)
            out.push_back(schema(from[i], pointer_step(place, std::to_string(i)), is_part));
        return out;
    }

    /// The texts "true" and "false" are taken for what they say.
    static void unique(Json& out, const Json& value, const std::string& place) {
        if (value == true || value == "true")
            out[k_inlined_unique] = true;
        else if (value != false && value != "false")
            refuse_schema(place, "true or false is meant");
    }

    /// False: RE2 cannot run it.
    bool pattern(const char* keyword, const std::string& text, const std::string& place) {
        if (patterns_.contains(text))
            return true;
        if (patterns_.size() >= k_schema_patterns)
            refuse_schema(place, "more than 64 patterns");
        spend(k_compile_work_per_pattern);
        re2::RE2::Options options(re2::RE2::Quiet);
        options.set_max_mem(static_cast<std::int64_t>(pattern_memory_bytes_));
        auto compiled = std::make_shared<const re2::RE2>(text, options);
        const std::string shown = "the pattern '" + base::excerpt(text, 100) + "'";
        // It may be one for more memory: whoever has more work to spend says so.
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
        if (!ref.is_string())
            refuse_schema(place, "a $ref is a string");
        if (!ref.get_ref<const std::string&>().starts_with('#')) {
            leave_out("$ref", place, "only a $ref within the schema (#/...) is followed");
            return Json::object();
        }
        const std::string fragment = ref.get_ref<const std::string&>().substr(1);
        spend(fragment.size());
        // RFC 6901 section 6: a fragment is percent-encoded. A % that begins no escape stands for itself.
        const std::string pointer = base::path_bytes(fragment);
        const Json* target = nullptr;
        try {
            target = &root_.at(Json::json_pointer(pointer));
        } catch (const Json::exception&) {
            leave_out("$ref", place, "the $ref names nothing");
            return Json::object();
        }
        const auto open = std::find_if(open_.begin(), open_.end(),
                                       [target](const Open& each) { return each.schema == target; });
        if (open == open_.end())
            return schema(*target, place, false);
        if (std::none_of(open + 1, open_.end(), [](const Open& each) { return each.is_part; }))
            refuse_schema(place, "a $ref that leads to itself");
        const auto known = std::find(recursive_.begin(), recursive_.end(), target);
        const auto index = static_cast<std::size_t>(known - recursive_.begin());
        if (known == recursive_.end()) {
            if (recursive_.size() >= k_schema_recursive)
                refuse_schema(place, "more than 4 schemas that a $ref within them names");
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

InlinedSchema inline_schema(const nlohmann::json& root, std::size_t& work, std::size_t pattern_memory_bytes) {
    Inliner inliner(root, work, pattern_memory_bytes);
    Json whole = inliner.whole();
    return inliner.take(std::move(whole));
}

}  // namespace atl::execution
