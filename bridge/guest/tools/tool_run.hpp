// A run of a tool: what it may use, and the tools. Each is a coroutine of the guest's loop that gives
// way after every piece of work, and ends with a result, also when it fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bridge/agents/runtime.hpp"
#include "bridge/guest/call.hpp"
#include "bridge/guest/task.hpp"
#include "bridge/guest/tools/read_files.hpp"
#include "bridge/guest/tools/tool_arguments.hpp"
#include "bridge/guest/tools/tool_result.hpp"
#include "bridge/guest/tools/workspace_path.hpp"

namespace atl::guest {

/// Says if a file that exists may be edited only after it was read.
enum class EditRule : std::uint8_t { free, read_first };

struct ToolRun {
    Call& call;
    const Services& services;
    ReadFiles& read_files;
    const ToolArguments& arguments;
    EditRule edit_rule;
    const WorkspacePaths& paths;
};

using ToolTask = Task<ToolResult>;

ToolTask async_list_directory(ToolRun& run);
ToolTask async_read_file(ToolRun& run);
ToolTask async_write_file(ToolRun& run);
ToolTask async_replace(ToolRun& run);
ToolTask async_search_file_content(ToolRun& run);
ToolTask async_glob(ToolRun& run);

/// The listing of a directory, which read_file gives, too. `ignore`: globs.
ToolTask async_list(ToolRun& run, const Found& directory, const std::vector<std::string>& ignore);

/// RFC 3339, UTC, with milliseconds.
std::string rfc3339(const timespec& time);

/// "1 line", "2 lines".
std::string counted(std::uint64_t count, std::string_view noun);

/// The same as the text of a Call::Progress: "2 lines so far".
std::string counted_so_far(std::uint64_t count, std::string_view noun);

/// The first `most` characters of `text`, which need not be UTF-8; all of it if there are no more.
std::string_view first_characters(std::string_view text, std::size_t most);

}  // namespace atl::guest
