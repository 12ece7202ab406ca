// The arguments of a tool, checked against the tool's own table (core/plain/tool_table.hpp): names and
// other names, types, ranges. Nothing is converted. Pure; hostile input is the normal case.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plain/tool_table.hpp"

namespace atl::guest {

class ToolArguments {
  public:
    /// Reads `json`, the text of an object. What is wrong with it is in problem(), a sentence that names the
    /// arguments and what the tool takes instead.
    ToolArguments(const base::ToolSpec& tool, std::string_view json);

    const std::string& problem() const noexcept { return problem_; }
    bool is_good() const noexcept { return problem_.empty(); }

    bool has(std::string_view name) const { return values_.contains(name); }
    /// The value of a parameter of that type; the fallback where it is absent. Precondition: is_good().
    std::string text(std::string_view name, std::string_view fallback = {}) const;
    bool flag(std::string_view name, bool fallback) const;
    std::optional<std::uint64_t> count(std::string_view name) const;
    std::vector<std::string> text_list(std::string_view name) const;

  private:
    void take(const base::ToolSpec& tool, const std::string& name, nlohmann::json&& value);
    void complain(std::string_view sentence);

    nlohmann::json values_ = nlohmann::json::object();  // by the parameter's own name
    std::string problem_;
};

/// "list_directory takes: path (text), ignore (list of texts, optional)".
std::string describe_parameters(const base::ToolSpec& tool);

}  // namespace atl::guest
