// How the tools for models work in a sandbox, as its clients set it, and the table of that. Forms, views,
// schemas, rows and changes loop over the table. A new setting is a member of ToolSettings and of
// ToolChanges, and an entry of the table. Those of a conversation's sandbox are in the conversation's record.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace atl::sandbox {

/// How the tools work in a sandbox.
struct ToolSettings {
    bool read_before_edit = false;  // a file that was not read, or changed since, is not edited
    bool run_command = true;        // the tool run_command is there
    bool operator==(const ToolSettings&) const = default;
};

/// The settings that a request names; one that is not named stays.
struct ToolChanges {
    std::optional<bool> read_before_edit;
    std::optional<bool> run_command;

    ToolSettings applied_to(ToolSettings settings) const;
};

/// A row of the table of settings.
struct ToolSettingEntry {
    std::string_view api;  // in requests, resources and rows
    bool ToolSettings::*value;
    std::optional<bool> ToolChanges::*change;
    std::string_view means;  // its description in the OpenAPI document
};

inline constexpr std::array k_tool_settings{
    ToolSettingEntry{"readBeforeEdit", &ToolSettings::read_before_edit, &ToolChanges::read_before_edit,
                     "Whether an edit of a file that was not read in this generation of the sandbox, or that "
                     "changed since it was read, is refused as FILE_CHANGED."},
    ToolSettingEntry{"runCommand", &ToolSettings::run_command, &ToolChanges::run_command,
                     "Whether the tool `run_command` is there."},
};

inline ToolSettings ToolChanges::applied_to(ToolSettings settings) const {
    for (const ToolSettingEntry& entry : k_tool_settings)
        settings.*entry.value = (this->*entry.change).value_or(settings.*entry.value);
    return settings;
}

}  // namespace atl::sandbox
