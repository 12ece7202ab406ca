#include "core/execution/argument_schema.hpp"

#include <re2/re2.h>

#include <algorithm>
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
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/execution/schema_inliner.hpp"

// valijson 1.0 names std::regex and has no parameter for another engine. Inside its namespace `std` is looked
// up here first: its regular expressions are RE2's, most other names those of the standard library. valijson
// must be included in no other file. The same way `deque`, which holds its errors, and `bind`, once in each
// evaluation of a schema, bound a check.
namespace atl::execution {
namespace {

/// The work that a check may still do. A thread has one at a time, and none while it compiles a schema.
struct Work {
    const Patterns* patterns = nullptr;
    std::size_t steps = 0;
    std::size_t compared = k_check_compared_nodes;
    std::size_t errors = 0;
    std::size_t depth = 0;

    void spend(std::size_t cost) {
        if (cost > steps)
            throw TooMuchWork();
        steps -= cost;
    }
    /// A comparison is about to visit so many nodes.
    void compare(std::size_t nodes) {
        if (nodes > compared)
            throw TooMuchWork();
        compared -= nodes;
        spend(nodes);
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
std::size_t cost_of(const valijson::constraints::Constraint& constraint);
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
// valijson needs these for `format`, which is taken out of each schema.
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
        work.spend(atl::execution::cost_of(constraint));
        return callback(constraint, visitor);
    };
}
}  // namespace valijson::std

// Without this valijson aborts the process at a malformed schema.
#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/constraint_builder.hpp>
#include <valijson/constraints/concrete_constraints.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "core/execution/decimal.hpp"
#include "core/execution/json_depth.hpp"
#include "core/plain/utf8.hpp"

namespace atl::execution {
namespace {

using Json = nlohmann::json;

std::size_t cost_of(const valijson::constraints::Constraint& constraint) {
    namespace vc = valijson::constraints;
    std::size_t members = 0;
    const auto count = [&members](const auto&...) {
        ++members;
        return true;
    };
    if (const auto& type = typeid(constraint); type == typeid(vc::RequiredConstraint))
        static_cast<const vc::RequiredConstraint&>(constraint).applyToRequiredProperties(count);
    else if (type == typeid(vc::PropertiesConstraint))
        static_cast<const vc::PropertiesConstraint&>(constraint).applyToProperties(count);
    else if (type == typeid(vc::DependenciesConstraint))
        static_cast<const vc::DependenciesConstraint&>(constraint).applyToPropertyDependencies(count);
    return 1 + members / 4;
}

Decimal decimal_of(const valijson::adapters::Adapter& number) {
    if (!number.isInteger())
        return Decimal::of(number.getDouble());
    return Decimal::of(number.getInteger());
}

/// In place of valijson's own, which compare doubles and show six digits behind the point.
class NumberRule final : public valijson::constraints::PolyConstraint {
  public:
    NumberRule(std::string_view keyword, const Decimal& limit) : keyword_(keyword), limit_(limit) {}

    bool validate(const valijson::adapters::Adapter& target, const std::vector<std::string>& context,
                  valijson::ValidationResults* results) const override {
        if (!target.isNumber())
            return true;
        const Decimal value = decimal_of(target);
        const int order = value.compare(limit_);
        const bool fits = keyword_ == "multipleOf"         ? value.is_multiple_of(limit_)
                          : keyword_ == "maximum"          ? order <= 0
                          : keyword_ == "minimum"          ? order >= 0
                          : keyword_ == "exclusiveMaximum" ? order < 0
                                                           : order > 0;
        if (!fits && results != nullptr)
            results->pushError(context, value.text() + sentence() + limit_.text());
        return fits;
    }

  private:
    valijson::constraints::Constraint* cloneInto(void* at) const override {
        return ::new (at) NumberRule(*this);
    }
    std::size_t sizeOf() const override { return sizeof(NumberRule); }
    const char* sentence() const {
        return keyword_ == "multipleOf"         ? " is not a multiple of "
               : keyword_ == "maximum"          ? " is greater than "
               : keyword_ == "minimum"          ? " is less than "
               : keyword_ == "exclusiveMaximum" ? " is not less than "
                                                : " is not greater than ";
    }

    std::string_view keyword_;  // of static storage
    Decimal limit_;
};

class NumberRuleBuilder final : public valijson::ConstraintBuilder {
  public:
    explicit NumberRuleBuilder(std::string_view keyword) : keyword_(keyword) {}
    valijson::constraints::Constraint* make(const valijson::adapters::Adapter& limit) const override {
        return new NumberRule(keyword_, decimal_of(limit));
    }

  private:
    std::string_view keyword_;
};

/// The greatest sum of names on the way to a value. `value` is at most k_arguments_depth deep.
std::size_t names_bytes(const Json& value) {
    std::size_t most = 0;
    if (value.is_object())
        for (const auto& [key, each] : value.items())
            most = std::max(most, key.size() + names_bytes(each));
    else if (value.is_array())
        for (const Json& each : value)
            most = std::max(most, names_bytes(each));
    return most;
}

using valijson::adapters::Adapter;

void append_string(std::string& out, const std::string& text, Work& work) {
    work.compare(text.size() / k_compared_bytes_a_node);
    out.append("\"").append(std::to_string(text.size())).append(":").append(text);
}

/// Appends text that is the same for equal values, and for no others. False: it has more than `most` bytes,
/// and is not whole.
bool append_text(std::string& out, const Adapter& value, std::size_t most, Work& work) {
    work.compare(1);
    if (value.isNull() || value.isBool()) {
        out += value.isNull() ? 'n' : value.asBool() ? 't' : 'f';
    } else if (value.isNumber()) {
        out.append("#").append(decimal_of(value).text());
    } else if (value.isString()) {
        append_string(out, value.asString(), work);
    } else if (value.isArray()) {
        out += '[';
        value.applyToArray([&](const Adapter& each) { return append_text(out, each, most, work); });
        out += ']';
    } else {
        out += '{';
        value.applyToObject([&](const std::string& key, const Adapter& each) {
            append_string(out, key, work);
            return append_text(out, each, most, work);
        });
        out += '}';
    }
    return out.size() <= most;
}

/// The values of an `enum` or a `const`, as texts.
struct Texts {
    std::unordered_set<std::string> all;
    std::size_t longest = 0;
};

/// In place of valijson's own: they compare each pair of values, and count nothing.
template <class Derived>
class CountedConstraint : public valijson::constraints::PolyConstraint {
    valijson::constraints::Constraint* cloneInto(void* at) const override {
        return ::new (at) Derived(static_cast<const Derived&>(*this));
    }
    std::size_t sizeOf() const override { return sizeof(Derived); }
};

class OneOfTexts final : public CountedConstraint<OneOfTexts> {
  public:
    explicit OneOfTexts(std::shared_ptr<const Texts> texts) : texts_(std::move(texts)) {}
    bool validate(const Adapter& target, const std::vector<std::string>& context,
                  valijson::ValidationResults* results) const override {
        std::string text;
        if (append_text(text, target, texts_->longest, *t_work) && texts_->all.contains(text))
            return true;
        if (results != nullptr)
            results->pushError(context, texts_->all.size() == 1
                                            ? "is not the value that the schema has."
                                            : "is none of the values that the schema lists.");
        return false;
    }

  private:
    std::shared_ptr<const Texts> texts_;
};

/// In place of valijson's own, to which 1e20 is no integer, and which names neither type.
class TypeRule final : public CountedConstraint<TypeRule> {
  public:
    explicit TypeRule(std::vector<std::string> types) : types_(std::move(types)) {}
    bool validate(const Adapter& target, const std::vector<std::string>& context,
                  valijson::ValidationResults* results) const override {
        for (const std::string& type : types_)
            if (is_of(target, type))
                return true;
        if (results != nullptr)
            results->pushError(context, sentence(target));
        return false;
    }

  private:
    static bool is_of(const Adapter& value, const std::string& type) {
        return type == "null"      ? value.isNull()
               : type == "boolean" ? value.isBool()
               : type == "object"  ? value.isObject()
               : type == "array"   ? value.isArray()
               : type == "string"  ? value.isString()
                                  : value.isNumber() && (type == "number" || decimal_of(value).exponent >= 0);
    }
    std::string sentence(const Adapter& value) const {
        if (types_.empty())
            return "no value is allowed here";
        std::string out = value.isNull()     ? "is null"
                          : value.isBool()   ? "is a boolean"
                          : value.isObject() ? "is an object"
                          : value.isArray()  ? "is an array"
                          : value.isString() ? "is a string"
                                             : "is the number " + decimal_of(value).text();
        for (const std::string& type : types_)
            out.append(&type == types_.data() ? ", but the schema has the type " : " or ").append(type);
        return out;
    }

    std::vector<std::string> types_;
};

class UniqueTexts final : public CountedConstraint<UniqueTexts> {
  public:
    bool validate(const Adapter& target, const std::vector<std::string>& context,
                  valijson::ValidationResults* results) const override {
        if (!target.isArray())
            return true;
        std::unordered_map<std::string, std::size_t> seen;
        std::string twice;
        std::size_t index = 0;
        target.applyToArray([&](const Adapter& each) {
            std::string text;
            append_text(text, each, SIZE_MAX, *t_work);
            const auto [first, is_new] = seen.emplace(std::move(text), index);
            if (!is_new)
                twice = "Elements at indexes #" + std::to_string(first->second) + " and #" +
                        std::to_string(index) + " violate uniqueness constraint.";
            ++index;
            return is_new;
        });
        if (!twice.empty() && results != nullptr)
            results->pushError(context, twice);
        return twice.empty();
    }
};

class EnumBuilder final : public valijson::ConstraintBuilder {
    valijson::constraints::Constraint* make(const Adapter& values) const override {
        Work work{.steps = SIZE_MAX, .compared = SIZE_MAX};
        auto texts = std::make_shared<Texts>();
        values.applyToArray([&](const Adapter& each) {
            std::string text;
            append_text(text, each, SIZE_MAX, work);
            texts->longest = std::max(texts->longest, text.size());
            texts->all.insert(std::move(text));
            return true;
        });
        return new OneOfTexts(std::move(texts));
    }
};

class TypeBuilder final : public valijson::ConstraintBuilder {
    valijson::constraints::Constraint* make(const Adapter& types) const override {
        std::vector<std::string> names;
        types.applyToArray([&names](const Adapter& each) {
            names.push_back(each.asString());
            return true;
        });
        return new TypeRule(std::move(names));
    }
};

class UniqueBuilder final : public valijson::ConstraintBuilder {
    valijson::constraints::Constraint* make(const Adapter&) const override { return new UniqueTexts; }
};

/// valijson's sentence, but for a property too many, of which it speaks at length.
std::string told_fault(const std::string& sentence) {
    const std::string begin =
        "Object contains a property that could not be validated using 'properties' or "
        "'additionalProperties' constraints: ";
    if (!sentence.starts_with(begin))
        return sentence;
    return "there is no property " + sentence.substr(begin.size());
}

}  // namespace

struct ArgumentSchema::Compiled {
    valijson::Schema schema;
    Patterns patterns;
    std::vector<SchemaWarning> warnings;
    std::size_t bytes = 0;
    std::size_t nodes = 0;
    bool of_array = false;
    bool of_one = false;  // not of each of any number of arguments

    /// Throws when `work` is used up.
    bool fits(const Json& value, Work& work, valijson::ValidationResults* results) const {
        const auto clear = [](Work**) { t_work = nullptr; };
        t_work = &work;
        const std::unique_ptr<Work*, decltype(clear)> cleared(&t_work, clear);
        // Strict types: the string "5" is no number.
        valijson::Validator validator(valijson::Validator::kStrongTypes);
        return validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(value), results);
    }

    /// The place and the sentence of the first fault of a value that does not fit. Nothing: it is not found
    /// within `steps`.
    std::optional<std::string> fault_of(std::string place, const Json& value, Work work,
                                        std::size_t steps) const {
        constexpr std::size_t k_errors = 64;
        work.steps = steps;
        work.errors = k_errors;
        valijson::ValidationResults results;
        valijson::ValidationResults::Error fault;
        try {
            fits(value, work, &results);
        } catch (const std::exception&) {
            return std::nullopt;  // with more faults than are worth looking at
        }
        if (!results.popError(fault))
            return place + ": does not fit the schema";
        for (std::size_t i = 1; i < fault.context.size(); ++i) {  // [0] is the root; the others are "[key]"
            const std::string& part = fault.context[i];
            place = pointer_step(place, part.size() >= 2 ? part.substr(1, part.size() - 2) : part);
        }
        return base::excerpt(place, 200) + ": " + told_fault(fault.description);
    }

    /// Throws when `work` is used up. `fault_steps`: of the search for the fault; nothing: what `work` has
    /// left, and a fault that is not found within it throws, too.
    base::Result<void> check(const std::string& name, std::string_view args_json, Work& work,
                             std::optional<std::size_t> fault_steps) const;
};

ArgumentSchema::ArgumentSchema(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
ArgumentSchema::ArgumentSchema(ArgumentSchema&&) noexcept = default;
ArgumentSchema& ArgumentSchema::operator=(ArgumentSchema&&) noexcept = default;
ArgumentSchema::~ArgumentSchema() = default;

std::size_t ArgumentSchema::expanded_bytes() const noexcept {
    return compiled_->bytes;
}
const std::vector<SchemaWarning>& ArgumentSchema::warnings() const noexcept {
    return compiled_->warnings;
}
std::size_t ArgumentSchema::patterns() const noexcept {
    return compiled_->patterns.size();
}
std::size_t ArgumentSchema::memory_bytes() const noexcept {
    constexpr std::size_t k_a_byte = 8;  // a value of one byte has a node of a tree
    constexpr std::size_t k_a_node = 512;
    return k_a_byte * compiled_->bytes + k_a_node * compiled_->nodes +
           k_pattern_memory_bytes * compiled_->patterns.size();
}

base::Result<ArgumentSchema> ArgumentSchema::compile(std::string_view schema_json) {
    std::size_t work = k_compile_work;
    auto made = compile_with(schema_json, work, k_pattern_memory_bytes);
    if (!made)
        return made.error();
    if (!*made)
        return schema_refusal("inputSchema: too much work once its $refs are followed");
    return std::move(**made);
}

base::Result<std::optional<ArgumentSchema>> ArgumentSchema::compile_within(std::string_view schema_json,
                                                                           std::size_t& work) {
    if (schema_json.size() > work)
        return std::optional<ArgumentSchema>();
    work -= schema_json.size();
    return compile_with(schema_json, work, k_small_pattern_memory_bytes);
}

base::Result<std::optional<ArgumentSchema>> ArgumentSchema::compile_with(std::string_view schema_json,
                                                                         std::size_t& work,
                                                                         std::size_t pattern_memory_bytes) {
    if (schema_json.size() > k_schema_limit_bytes)
        return schema_refusal("inputSchema: longer than 64 KiB");
    if (json_depth(schema_json) > k_schema_depth)
        return schema_refusal("inputSchema: nested deeper than 32");
    const Json root = Json::parse(schema_json, nullptr, false);
    if (!root.is_object())
        return schema_refusal("inputSchema: not a JSON object");
    try {
        InlinedSchema inlined = inline_schema(root, work, pattern_memory_bytes);
        auto compiled = std::make_unique<Compiled>();
        const auto type = root.find("type");
        compiled->of_array = type != root.end() && *type == "array";
        compiled->of_one = type != root.end() || root.contains("properties") || root.contains("required");
        compiled->bytes = inlined.bytes;
        compiled->nodes = inlined.nodes;
        compiled->patterns = std::move(inlined.patterns);
        compiled->warnings = std::move(inlined.warnings);
        valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
        for (const char* const key : {k_inlined_enum, k_inlined_const})
            parser.addConstraintBuilder(key, new EnumBuilder);
        parser.addConstraintBuilder(k_inlined_unique, new UniqueBuilder);
        parser.addConstraintBuilder(k_inlined_type, new TypeBuilder);
        for (const std::string_view keyword : k_number_keywords)
            parser.addConstraintBuilder(number_rule(keyword), new NumberRuleBuilder(keyword));
        const valijson::adapters::NlohmannJsonAdapter adapter(inlined.schema);
        parser.populateSchema(adapter, compiled->schema);
        return std::optional(ArgumentSchema(std::move(compiled)));
    } catch (const SchemaRefused& refused) {
        return refused.error;
    } catch (const TooMuchWork&) {
        return std::optional<ArgumentSchema>();
    } catch (const std::exception& fault) {
        return schema_refusal("inputSchema: " + std::string(fault.what()));
    }
}

base::Result<void> ArgumentSchema::check(std::string_view tool, std::string_view args_json) const {
    const std::string name = base::excerpt(tool, 64);
    Work work{.patterns = &compiled_->patterns,
              .steps = k_check_steps + k_check_steps_per_byte * args_json.size()};
    try {
        return compiled_->check(name, args_json, work, k_check_steps);
    } catch (const std::exception& fault) {
        return schema_refusal(name + ": " + fault.what());
    }
}

base::Result<ArgumentSchema::Checked> ArgumentSchema::check_within(std::string_view tool,
                                                                   std::string_view args_json,
                                                                   std::size_t& steps) const {
    const std::string name = base::excerpt(tool, 64);
    Work work{.patterns = &compiled_->patterns, .steps = steps};
    try {
        work.spend(1 + args_json.size() / k_bytes_parsed_a_step);
        const auto checked = compiled_->check(name, args_json, work, std::nullopt);
        steps = work.steps;
        if (!checked)
            return checked.error();
        return Checked::fits;
    } catch (const TooMuchWork&) {
        steps = 0;
        return Checked::takes_more;
    } catch (const std::exception& fault) {
        steps = work.steps;
        return schema_refusal(name + ": " + fault.what());
    }
}

base::Result<void> ArgumentSchema::Compiled::check(const std::string& name, std::string_view args_json,
                                                   Work& work, std::optional<std::size_t> fault_steps) const {
    if (json_depth(args_json) > k_arguments_depth)
        return schema_refusal(name + ": arguments nested deeper than 128");
    Json args = Json::parse(args_json, nullptr, false);
    if (!args.is_array())
        return schema_refusal(name + ": the arguments are not a JSON array");
    plain_numbers(args);
    if (names_bytes(args) > k_argument_names_bytes)
        return schema_refusal(name + ": the names on the way to a value have more than 8 KiB");
    if (!of_array && of_one && args.size() > 1)
        return schema_refusal(name + ": takes one object, not " + std::to_string(args.size()) +
                              " positional arguments");
    const Json none = Json::object();
    const bool is_whole = of_array || args.empty();
    for (std::size_t i = 0; i < (is_whole ? 1 : args.size()); ++i) {
        const Json& value = of_array ? args : args.empty() ? none : args[i];
        if (fits(value, work, nullptr))
            continue;
        const std::string place = of_array ? "args" : "args[" + std::to_string(i) + "]";
        const auto fault = fault_of(place, value, work, fault_steps.value_or(work.steps));
        if (!fault && !fault_steps)
            throw TooMuchWork();
        return schema_refusal(name + ": " + fault.value_or(place + ": does not fit the schema"));
    }
    return {};
}

}  // namespace atl::execution
