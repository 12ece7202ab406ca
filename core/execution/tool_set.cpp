#include "core/execution/tool_set.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/json_writer.hpp"
#include "core/plain/utf8.hpp"

namespace atl::execution {
namespace {

constexpr auto k_refused = std::to_array<std::string_view>(
    {"then", "catch", "finally", "toJSON", "toString", "valueOf", "constructor", "prototype",
     "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"});

base::Error invalid(std::string text) {
    return {base::Errc::invalid_field, std::move(text)};
}

std::string schema_text(const ToolSpec& spec) {
    return spec.schema_json.empty() ? "{}" : spec.schema_json;
}

base::Error bad_schema(const ToolSpec& spec, const base::Error& why) {
    return invalid("tools: '" + spec.name + "': " + why.detail());
}

/// Adds the warnings of a tool to the text of a JSON array, which is empty at first.
void add_warnings(std::string& json, const std::string& tool, const std::vector<SchemaWarning>& warnings) {
    constexpr std::size_t k_warnings_bytes = 32UL * 1024;
    for (const SchemaWarning& each : warnings) {
        if (json.size() > k_warnings_bytes)
            return;
        if (!json.empty())
            json.back() = ',';
        std::string one;
        base::JsonWriter writer(one);
        writer.begin_object().key("tool").string(tool);
        writer.key("keyword").string(each.keyword).key("why").string(each.why).end_object();
        json.append(json.empty() ? "[" : "").append(one).append("]");
    }
}

bool is_letter(char byte) noexcept {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

}  // namespace

base::Result<Policy> parse_policy(std::string_view word) {
    for (const Policy policy : {Policy::allow, Policy::ask, Policy::deny})
        if (word == policy_name(policy))
            return policy;
    return invalid("policy: allow, ask or deny is meant");
}

std::string_view policy_name(Policy policy) noexcept {
    return policy == Policy::allow ? "allow" : policy == Policy::ask ? "ask" : "deny";
}

bool is_tool_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= k_tool_name_bytes && is_letter(name.front()) &&
           !name.starts_with("__") &&
           std::all_of(name.begin(), name.end(),
                       [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); }) &&
           std::find(k_refused.begin(), k_refused.end(), name) == k_refused.end();
}

base::Result<ToolSet> ToolSet::make(std::span<const ToolSpec> specs) {
    if (specs.size() > k_tools)
        return invalid("tools: more than 128");
    ToolSet made;
    for (const ToolSpec& spec : specs) {
        const std::string shown = base::excerpt(spec.name, k_tool_name_bytes);
        if (!is_tool_name(spec.name))
            return invalid("tools: '" + shown + "' cannot be the name of a tool");
        if (made.tools_.contains(spec.name))
            return invalid("tools: '" + shown + "' is there twice");
        if (spec.description.size() > k_tool_description_bytes)
            return invalid("tools: the description of '" + shown + "' is longer than 4096 bytes");
        made.tools_.emplace(spec.name, Tool{spec.policy, schema_text(spec), std::nullopt});
    }
    std::size_t work = k_tools_small_work;
    for (const ToolSpec& spec : specs) {
        auto schema = ArgumentSchema::compile_within(schema_text(spec), work);
        if (!schema)
            return bad_schema(spec, schema.error());
        if (!*schema) {
            made.compiled_ = false;
            break;
        }
        add_warnings(made.warnings_, spec.name, (*schema)->warnings());
        made.tools_.find(spec.name)->second.schema = std::move(*schema);
    }
    if (!made.compiled_) {
        made.warnings_.clear();
        for (auto& [name, tool] : made.tools_)
            tool.schema.reset();
    }
    return made;
}

base::Result<std::string> ToolSet::verify(std::span<const ToolSpec> specs) {
    if (const auto made = make(specs); !made)
        return made.error();
    std::string warnings;
    std::size_t schema_bytes = 0;
    std::size_t patterns = 0;
    for (const ToolSpec& spec : specs) {
        const auto schema = ArgumentSchema::compile(schema_text(spec));
        if (!schema)
            return bad_schema(spec, schema.error());
        add_warnings(warnings, spec.name, schema->warnings());
        schema_bytes += schema->expanded_bytes();
        patterns += schema->patterns();
        if (schema_bytes > k_tools_schema_bytes || patterns > k_tools_patterns)
            return invalid("tools: with '" + spec.name +
                           "' the schemas have more than 4 MiB or 256 patterns together");
    }
    return warnings;
}

base::Result<ToolSet::Verdict> ToolSet::check_call(std::string_view name, std::string_view args_json,
                                                   std::size_t& steps) const {
    const auto found = tools_.find(name);
    if (found == tools_.end()) {
        constexpr std::size_t k_list_bytes = 512;
        std::string text = "no tool '" + base::excerpt(name, k_tool_name_bytes) + "'; there are:";
        for (const auto& [each, tool] : tools_) {
            if (text.size() > k_list_bytes)
                return invalid(text + " ...");
            text += ' ' + each;
        }
        return invalid(tools_.empty() ? text + " none" : text);
    }
    const Tool& tool = found->second;
    Verdict verdict{tool.policy, Verdict::Arguments::fit};
    if (tool.policy == Policy::deny)
        return verdict;
    if (!compiled_) {
        verdict.arguments = Verdict::Arguments::unchecked;
        return verdict;
    }
    const auto checked = tool.schema->check_within(name, args_json, steps);
    if (!checked)
        return checked.error();
    if (*checked == ArgumentSchema::Checked::takes_more)
        verdict.arguments = Verdict::Arguments::unchecked;
    return verdict;
}

const std::string& ToolSet::schema_of(std::string_view name) const {
    return tools_.find(name)->second.schema_json;
}

}  // namespace atl::execution
