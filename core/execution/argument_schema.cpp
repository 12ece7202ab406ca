#include "core/execution/argument_schema.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

// valijson 1.0 names std::regex and has no parameter for another engine. Inside its namespace `std` is looked
// up here first: its regular expressions are RE2's, most other names those of the standard library. valijson
// must be included in no other file. The same way `deque`, which holds its errors, and `bind`, once in each
// evaluation of a schema, bound a check.
namespace atl::execution {
namespace {

using Patterns = std::unordered_map<std::string, std::shared_ptr<const re2::RE2>>;

/// What a check may still do. One at a time in a thread; none while a schema is compiled.
struct Work {
    const Patterns* patterns = nullptr;
    std::size_t steps = 0;
    std::size_t errors = 0;
    std::size_t depth = 0;
    std::size_t unique_cost = 0;  // of one uniqueItems

    void spend(std::size_t cost) {
        if (cost > steps)
            throw std::runtime_error("more work than a check of arguments may be");
        steps -= cost;
    }
};
thread_local Work* t_work = nullptr;

struct Deeper {
    explicit Deeper(Work& work) : work_(work) {
        if (work_.depth >= k_check_depth)
            throw std::runtime_error("the arguments lead too deep into the schema");
        ++work_.depth;
    }
    ~Deeper() { --work_.depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

  private:
    Work& work_;
};

}  // namespace
}  // namespace atl::execution

namespace valijson::constraints {
struct Constraint;
}
namespace atl::execution {
namespace {
std::size_t cost_of(const valijson::constraints::Constraint& constraint, const Work& work);
}
}  // namespace atl::execution

namespace valijson::std {
using namespace ::std;

class regex {
  public:
    explicit regex(const ::std::string& pattern) {
        if (atl::execution::t_work == nullptr)
            throw ::std::runtime_error("a regular expression of the schema's own");  // of an $id: taken out
        compiled_ = atl::execution::t_work->patterns->at(pattern).get();
    }
    const re2::RE2& compiled() const { return *compiled_; }

  private:
    const re2::RE2* compiled_ = nullptr;
};

inline bool regex_search(const ::std::string& text, const regex& pattern) {
    constexpr size_t k_instructions_a_step = 64;  // RE2's slow way takes each in turn for each byte
    const auto size = static_cast<size_t>(pattern.compiled().ProgramSize());
    atl::execution::t_work->spend(1 + text.size() * size / k_instructions_a_step);
    return re2::RE2::PartialMatch(text, pattern.compiled());
}
// Of `format`, which is taken out of each schema.
inline bool regex_match(const ::std::string&, const regex&) {
    return false;
}
inline bool regex_match(const ::std::string&, ::std::smatch&, const regex&) {
    return false;
}

template <class T>
class deque : public ::std::deque<T> {
  public:
    void push_back(T each) {
        auto& left = atl::execution::t_work->errors;
        if (left == 0)
            return;
        --left;
        ::std::deque<T>::push_back(::std::move(each));
    }
};

template <class Callback, class Placeholder, class Visitor>
auto bind(Callback callback, Placeholder, Visitor visitor) {
    atl::execution::t_work->spend(1);
    return [callback, visitor](const valijson::constraints::Constraint& constraint) {
        auto& work = *atl::execution::t_work;
        const atl::execution::Deeper deeper(work);
        work.spend(atl::execution::cost_of(constraint, work));
        return callback(constraint, visitor);
    };
}
}  // namespace valijson::std

// Without this valijson aborts the process at a malformed schema.
#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "core/base/utf8.hpp"
#include "core/execution/json_depth.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

std::size_t cost_of(const valijson::constraints::Constraint& constraint, const Work& work) {
    namespace vc = valijson::constraints;
    std::size_t members = 0;
    const auto count = [&members](const auto&...) {
        ++members;
        return true;
    };
    if (typeid(constraint) == typeid(vc::UniqueItemsConstraint))
        return 1 + work.unique_cost;
    if (const auto& type = typeid(constraint); type == typeid(vc::EnumConstraint))
        static_cast<const vc::EnumConstraint&>(constraint).applyToValues(count);
    else if (type == typeid(vc::RequiredConstraint))
        static_cast<const vc::RequiredConstraint&>(constraint).applyToRequiredProperties(count);
    else if (type == typeid(vc::PropertiesConstraint))
        static_cast<const vc::PropertiesConstraint&>(constraint).applyToProperties(count);
    else if (type == typeid(vc::DependenciesConstraint))
        static_cast<const vc::DependenciesConstraint&>(constraint).applyToPropertyDependencies(count);
    return 1 + members / 4;
}

base::Error refusal(const std::string& text) {
    return {base::Errc::invalid_field, base::excerpt(text, 512)};
}

struct Refused {
    base::Error error;
};

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
    throw Refused{refusal("inputSchema" + place + ": " + what)};
}

std::string step(const std::string& place, const std::string& key) {
    std::string out = place + '/';
    for (const char byte : key)
        out += byte == '~' ? "~0" : byte == '/' ? "~1" : std::string(1, byte);
    return out;
}

enum class Kind { value, schema, schemas, map, dependencies, items, pattern, ignored };

Kind kind_of(const std::string& key) {
    static const std::map<std::string, Kind> k_kinds{{"type", Kind::value},
                                                     {"enum", Kind::value},
                                                     {"const", Kind::value},
                                                     {"multipleOf", Kind::value},
                                                     {"maximum", Kind::value},
                                                     {"exclusiveMaximum", Kind::value},
                                                     {"minimum", Kind::value},
                                                     {"exclusiveMinimum", Kind::value},
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
    const auto found = k_kinds.find(key);
    return found == k_kinds.end() ? Kind::ignored : found->second;
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
    explicit Inliner(const Json& root) : root_(root) {}

    Json whole() {
        Json out = schema(root_, "", true);
        for (std::size_t i = 0; i < recursive_.size(); ++i)  // each may add more
            definitions_[std::to_string(i)] = schema(*recursive_[i], "", true);
        if (!recursive_.empty())
            out["definitions"] = std::move(definitions_);
        return out;
    }
    bool unique_items() const { return unique_items_; }
    std::size_t bytes() const { return bytes_; }
    Patterns patterns() { return std::move(patterns_); }

  private:
    struct Open {
        const Json* schema;
        bool is_part;  // of the value that the one before is for
    };

    Json schema(const Json& from, const std::string& place, bool is_part) {
        if (++nodes_ > k_schema_expanded_nodes || open_.size() > k_schema_depth)
            refuse(place, "too large or too deep once its $refs are followed");
        if (from.is_boolean())
            return from.get<bool>() ? Json::object() : Json{{"not", Json::object()}};
        if (!from.is_object())
            refuse(place, "a schema is an object or a boolean");
        open_.push_back({&from, is_part});
        Json out = Json::object();
        for (const auto& [key, value] : from.items())
            member(out, key, value, step(place, key));
        if (const auto ref = from.find("$ref"); ref != from.end())
            out = {{"allOf", Json::array({std::move(out), referred(*ref, step(place, "$ref"))})}};
        open_.pop_back();
        return out;
    }

    void copied(std::size_t bytes, const std::string& place) {
        bytes_ += bytes;
        if (bytes_ > k_schema_expanded_bytes)
            refuse(place, "larger than 1 MiB once its $refs are followed");
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
                    refuse(place, "a pattern is a string");
                pattern(value.get<std::string>(), place);
                [[fallthrough]];
            case Kind::value:
                unique_items_ = unique_items_ || key == "uniqueItems";
                copied(value, place);
                out[key] = key == "multipleOf" ? divisor(value, place) : value;
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
                    refuse(place, "an object of schemas is meant");
                out[key] = Json::object();
                for (const auto& [name, each] : value.items()) {
                    copied(k_value_bytes + name.size(), place);
                    if (key == "patternProperties")
                        pattern(name, step(place, name));
                    const bool names = key == "dependencies" && each.is_array();
                    if (names)
                        copied(each, place);
                    out[key][name] = names ? each : schema(each, step(place, name), is_part);
                }
        }
    }

    Json schemas(const Json& from, const std::string& place, bool is_part) {
        if (!from.is_array())
            refuse(place, "an array of schemas is meant");
        Json out = Json::array();
        for (std::size_t i = 0; i < from.size(); ++i)
            out.push_back(schema(from[i], step(place, std::to_string(i)), is_part));
        return out;
    }

    /// As a double: with a whole number valijson divides by 0 and cuts the fraction off what it checks.
    static Json divisor(const Json& value, const std::string& place) {
        const double number = value.is_number() ? value.get<double>() : 0;
        if (!(number > 0))
            refuse(place, "multipleOf is a number above 0");
        return number;
    }

    void pattern(const std::string& text, const std::string& place) {
        if (patterns_.contains(text))
            return;
        if (patterns_.size() >= k_schema_patterns)
            refuse(place, "more than 64 patterns");
        re2::RE2::Options options(re2::RE2::Quiet);
        options.set_max_mem(k_pattern_memory_bytes);
        auto compiled = std::make_shared<const re2::RE2>(text, options);
        const std::string shown = "the pattern '" + base::excerpt(text, 100) + "'";
        if (!compiled->ok())
            refuse(place, "RE2 cannot run " + shown + ": " + compiled->error());
        if (compiled->ProgramSize() > k_pattern_instructions)
            refuse(place, shown + " is too large");
        patterns_.emplace(text, std::move(compiled));
    }

    Json referred(const Json& ref, const std::string& place) {
        if (!ref.is_string() || !ref.get_ref<const std::string&>().starts_with('#'))
            refuse(place, "only a $ref within the schema (#/...) is followed");
        const std::string pointer = ref.get_ref<const std::string&>().substr(1);
        const Json* target = nullptr;
        try {
            target = &root_.at(Json::json_pointer(pointer));
        } catch (const Json::exception&) {
            refuse(place, "the $ref names nothing");
        }
        const auto open = std::find_if(open_.begin(), open_.end(),
                                       [target](const Open& each) { return each.schema == target; });
        if (open == open_.end())
            return schema(*target, place, false);
        if (std::none_of(open + 1, open_.end(), [](const Open& each) { return each.is_part; }))
            refuse(place, "a $ref that leads to itself");
        const auto known = std::find(recursive_.begin(), recursive_.end(), target);
        const auto index = static_cast<std::size_t>(known - recursive_.begin());
        if (known == recursive_.end()) {
            if (recursive_.size() >= k_schema_recursive)
                refuse(place, "more than 4 schemas that a $ref within them names");
            recursive_.push_back(target);
        }
        return {{"$ref", "#/definitions/" + std::to_string(index)}};
    }

    static constexpr std::size_t k_value_bytes = 8;  // counted for each value and name
    const Json& root_;
    std::vector<Open> open_;
    std::vector<const Json*> recursive_;
    Json definitions_ = Json::object();
    Patterns patterns_;
    std::size_t nodes_ = 0;
    std::size_t bytes_ = 0;
    bool unique_items_ = false;
};

struct Shape {
    std::size_t longest_array = 0;
    std::size_t key_bytes = 0;  // the greatest sum of names on the way to a value
};

/// `value` is at most k_arguments_depth deep.
void measure(const Json& value, std::size_t key_bytes, Shape& shape) {
    shape.key_bytes = std::max(shape.key_bytes, key_bytes);
    if (value.is_array())
        shape.longest_array = std::max(shape.longest_array, value.size());
    if (value.is_object())
        for (const auto& [key, each] : value.items())
            measure(each, key_bytes + key.size(), shape);
    else if (value.is_array())
        for (const Json& each : value)
            measure(each, key_bytes, shape);
}

}  // namespace

struct ArgumentSchema::Compiled {
    valijson::Schema schema;
    Patterns patterns;
    std::size_t bytes = 0;
    bool of_array = false;
    bool of_one = false;  // not of each of any number of arguments
    bool unique_items = false;

    /// Throws when `work` is used up.
    bool fits(const Json& value, Work& work, valijson::ValidationResults* results) const {
        const auto clear = [](Work**) { t_work = nullptr; };
        t_work = &work;
        const std::unique_ptr<Work*, decltype(clear)> cleared(&t_work, clear);
        // Strict types: the string "5" is no number.
        valijson::Validator validator(valijson::Validator::kStrongTypes);
        return validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(value), results);
    }

    /// The place and the sentence of the first fault of a value that does not fit.
    std::string fault_of(std::string place, const Json& value, Work work) const {
        constexpr std::size_t k_errors = 64;
        work.steps = k_check_steps;
        work.errors = k_errors;
        valijson::ValidationResults results;
        valijson::ValidationResults::Error fault;
        try {
            fits(value, work, &results);
        } catch (const std::exception&) {
            return place + ": does not fit the schema";  // with more faults than are worth looking at
        }
        if (!results.popError(fault))
            return place + ": does not fit the schema";
        for (std::size_t i = 1; i < fault.context.size(); ++i) {  // [0] is the root; the others are "[key]"
            const std::string& part = fault.context[i];
            place = step(place, part.size() >= 2 ? part.substr(1, part.size() - 2) : part);
        }
        return base::excerpt(place, 200) + ": " + fault.description;
    }
};

ArgumentSchema::ArgumentSchema(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
ArgumentSchema::ArgumentSchema(ArgumentSchema&&) noexcept = default;
ArgumentSchema& ArgumentSchema::operator=(ArgumentSchema&&) noexcept = default;
ArgumentSchema::~ArgumentSchema() = default;

std::size_t ArgumentSchema::expanded_bytes() const noexcept {
    return compiled_->bytes;
}
std::size_t ArgumentSchema::patterns() const noexcept {
    return compiled_->patterns.size();
}

base::Result<ArgumentSchema> ArgumentSchema::compile(std::string_view schema_json) {
    if (schema_json.size() > k_schema_limit_bytes)
        return refusal("inputSchema: longer than 64 KiB");
    if (json_depth(schema_json) > k_schema_depth)
        return refusal("inputSchema: nested deeper than 32");
    const Json root = Json::parse(schema_json, nullptr, false);
    if (!root.is_object())
        return refusal("inputSchema: not a JSON object");
    try {
        Inliner inliner(root);
        const Json inlined = inliner.whole();
        auto compiled = std::make_unique<Compiled>();
        const auto type = root.find("type");
        compiled->of_array = type != root.end() && *type == "array";
        compiled->of_one = type != root.end() || root.contains("properties") || root.contains("required");
        compiled->unique_items = inliner.unique_items();
        compiled->bytes = inliner.bytes();
        compiled->patterns = inliner.patterns();
        valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
        const valijson::adapters::NlohmannJsonAdapter adapter(inlined);
        parser.populateSchema(adapter, compiled->schema);
        return ArgumentSchema(std::move(compiled));
    } catch (const Refused& refused) {
        return refused.error;
    } catch (const std::exception& fault) {
        return refusal("inputSchema: " + std::string(fault.what()));
    }
}

base::Result<void> ArgumentSchema::check(std::string_view tool, std::string_view args_json) const {
    const std::string name = base::excerpt(tool, 64);
    if (json_depth(args_json) > k_arguments_depth)
        return refusal(name + ": arguments nested deeper than 128");
    const Json args = Json::parse(args_json, nullptr, false);
    if (!args.is_array())
        return refusal(name + ": the arguments are not a JSON array");
    Shape shape;
    measure(args, 0, shape);
    if (shape.key_bytes > k_argument_names_bytes)
        return refusal(name + ": the names on the way to a value have more than 8 KiB");
    if (compiled_->unique_items && shape.longest_array > k_unique_items)
        return refusal(name + ": uniqueItems is not checked in arrays of more than 2000 items");
    if (!compiled_->of_array && compiled_->of_one && args.size() > 1)
        return refusal(name + ": takes one object, not " + std::to_string(args.size()) +
                       " positional arguments");
    Work work{&compiled_->patterns, k_check_steps + k_check_steps_per_byte * args_json.size(), 0, 0,
              shape.longest_array * shape.longest_array / 32};
    const Json none = Json::object();
    const bool is_whole = compiled_->of_array || args.empty();
    try {
        for (std::size_t i = 0; i < (is_whole ? 1 : args.size()); ++i) {
            const Json& value = compiled_->of_array ? args : args.empty() ? none : args[i];
            if (compiled_->fits(value, work, nullptr))
                continue;
            const std::string place = compiled_->of_array ? "args" : "args[" + std::to_string(i) + "]";
            return refusal(name + ": " + compiled_->fault_of(place, value, work));
        }
        return {};
    } catch (const std::exception& fault) {
        return refusal(name + ": " + fault.what());
    }
}

}  // namespace atl::execution
