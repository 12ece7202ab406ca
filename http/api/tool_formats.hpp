// The tools as models are told of them: the one table (core/plain/tool_table.hpp) in the forms that the
// makers of models want. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/plain/tool_table.hpp"
#include "core/sandbox/tool_settings.hpp"

namespace atl::http {

enum class ToolFormat : std::uint8_t { json_schema, openai, anthropic, gemini };

inline constexpr std::string_view k_tool_formats[] = {"json-schema", "openai", "anthropic", "gemini"};

/// Nothing for a word that is none of k_tool_formats.
std::optional<ToolFormat> tool_format(std::string_view word) noexcept;

/// `{"format":…,"tools":[…]}`: the list is what a request to such a model has as its `tools`. It leaves out
/// what `settings` switches off.
nlohmann::ordered_json tool_list(ToolFormat format, const sandbox::ToolSettings& settings = {});

/// The JSON Schema (2020-12) of a tool's arguments: what is published, not every name that is understood.
nlohmann::ordered_json tool_schema(const base::ToolSpec& tool);

}  // namespace atl::http
