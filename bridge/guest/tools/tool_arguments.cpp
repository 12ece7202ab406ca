#include "bridge/guest/tools/tool_arguments.hpp"

#include <algorithm>
#include <utility>

#include "bridge/json_scan.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

using base::ToolNeed;
using base::ToolParameter;
using base::ToolSpec;
using base::ToolValue;

// Names in a sentence are cut to so many bytes: a caller still sees which argument is meant.
constexpr std::size_t k_shown_name_bytes = 64;
constexpr std::size_t k_problem_bytes = 2000;

std::string_view json_type_name(ToolValue value) {
    switch (value) {
        case ToolValue::text:
            return "string";
        case ToolValue::flag:
            return "boolean";
        case ToolValue::count:
            return "integer";
        case ToolValue::text_list:
            return "array of strings";
    }
    return {};
}

const ToolParameter* find(const ToolSpec& tool, std::string_view name) {
    for (const ToolParameter& parameter : tool.parameters) {
        if (parameter.name == name)
            return &parameter;
        for (const std::string_view alias : parameter.aliases)
            if (!alias.empty() && alias == name)
                return &parameter;
    }
    return nullptr;
}

bool is_text_list(const nlohmann::json& value) {
    return value.is_array() && value.size() <= base::k_max_tool_ignores &&
           std::all_of(value.begin(), value.end(), [](const auto& item) { return item.is_string(); });
}

bool is_count(const ToolParameter& parameter, const nlohmann::json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<std::uint64_t>();
        return number >= static_cast<std::uint64_t>(parameter.least) &&
               number <= static_cast<std::uint64_t>(parameter.most);
    }
    return false;
}

bool fits(const ToolParameter& parameter, const nlohmann::json& value) {
    switch (parameter.value) {
        case ToolValue::text:
            return value.is_string();
        case ToolValue::flag:
            return value.is_boolean();
        case ToolValue::count:
            return is_count(parameter, value);
        case ToolValue::text_list:
            return is_text_list(value);
    }
    return false;
}

std::string requirement(const ToolParameter& parameter) {
    std::string text(parameter.value == ToolValue::count       ? "an "
                     : parameter.value == ToolValue::text_list ? "an "
                                                               : "a ");
    text += json_type_name(parameter.value);
    if (parameter.value == ToolValue::count)
        text += " from " + std::to_string(parameter.least) + " to " + std::to_string(parameter.most);
    if (parameter.value == ToolValue::text_list)
        text += ", at most " + std::to_string(base::k_max_tool_ignores);
    return text;
}

}  // namespace

std::string describe_parameters(const ToolSpec& tool) {
    std::string text(tool.name);
    text += " takes: ";
    bool is_first = true;
    for (const ToolParameter& parameter : tool.parameters) {
        if (parameter.need == ToolNeed::accepted)
            continue;
        if (!std::exchange(is_first, false))
            text += ", ";
        text.append(parameter.name).append(" (").append(json_type_name(parameter.value));
        text += parameter.need == ToolNeed::required ? ", required)" : ")";
    }
    return text;
}

ToolArguments::ToolArguments(const ToolSpec& tool, std::string_view json) {
    bridge::ObjectVisitor form;
    nlohmann::json given = nlohmann::json::object();
    if (bridge::scan_object(json, base::k_max_tool_depth, form) != bridge::Scan::complete)
        complain("The arguments are not a JSON object, or nested too deep.");
    else
        given = nlohmann::json::parse(json);
    for (auto& [name, value] : given.items())
        take(tool, name, std::move(value));
    for (const ToolParameter& parameter : tool.parameters)
        if (is_good() && parameter.need == ToolNeed::required && !has(parameter.name))
            complain("`" + std::string(parameter.name) + "` is missing.");
    if (is_good())
        return;
    problem_ = base::excerpt(problem_, k_problem_bytes);
    problem_ += " " + describe_parameters(tool) + ".";
}

void ToolArguments::take(const ToolSpec& tool, const std::string& name, nlohmann::json&& value) {
    const std::string shown = "`" + base::excerpt(name, k_shown_name_bytes) + "`";
    const ToolParameter* const parameter = find(tool, name);
    if (parameter == nullptr)
        return complain(shown + " is no argument of this tool.");
    const std::string key(parameter->name);
    if (has(key))
        return complain(shown + " gives `" + key + "` twice.");
    if (!fits(*parameter, value))
        return complain(shown + " must be " + requirement(*parameter) + ".");
    values_[key] = std::move(value);
}

void ToolArguments::complain(std::string_view sentence) {
    if (problem_.size() >= k_problem_bytes)
        return;
    if (!problem_.empty())
        problem_ += ' ';
    problem_ += sentence;
}

std::string ToolArguments::text(std::string_view name, std::string_view fallback) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string(fallback) : found->get<std::string>();
}

bool ToolArguments::flag(std::string_view name, bool fallback) const {
    const auto found = values_.find(name);
    return found == values_.end() ? fallback : found->get<bool>();
}

std::optional<std::uint64_t> ToolArguments::count(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end())
        return std::nullopt;
    return found->get<std::uint64_t>();
}

std::vector<std::string> ToolArguments::text_list(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

}  // namespace atl::guest
