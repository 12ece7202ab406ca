// write_file: a file as a whole.
#include <errno.h>

#include <optional>
#include <utility>

#include "bridge/guest/tools/file_edit.hpp"

namespace atl::guest {

ToolTask async_write_file(ToolRun& run) {
    const std::string given = run.arguments.text("file_path");
    const std::string content = run.arguments.text("content");
    FileEdit edit(run);
    if (std::optional<ToolResult> failure = edit.open(given))
        co_return std::move(*failure);
    if (edit.exists() && !run.arguments.flag("allow_overwrite", false)) {
        ToolResult result = path_failure(EEXIST, given, "write to");
        result.suggestions.emplace_back(
            "Change a part of it with replace, or set allow_overwrite to replace all of it.");
        co_return result;
    }
    // A file that cannot be read has no diff; it is overwritten all the same.
    const std::optional<ToolResult> unread = co_await edit.async_load();
    if (std::optional<ToolResult> failure = edit.objection())
        co_return std::move(*failure);
    ToolResult result = co_await edit.async_commit(content);
    if (result.success)
        result.user_feedback = std::string(edit.exists() ? "Wrote " : "Created ") + edit.shown() + ".";
    co_return result;
}

}  // namespace atl::guest
