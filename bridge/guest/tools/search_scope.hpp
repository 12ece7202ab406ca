// Where a search begins: the directory or file of its argument `path`.
#pragma once

#include <optional>
#include <string>

#include "bridge/guest/tools/tool_run.hpp"

namespace atl::guest {

struct SearchScope {
    base::UniqueFd directory;  // O_PATH
    std::string relative;      // of the directory; "" is the workspace
    std::string file;          // a name in the directory; empty: all of it

    /// A path below the directory, as ripgrep printed it ("./a/b"), below the workspace ("dir/a/b").
    std::string whole(std::string_view printed) const;
    /// The same below the directory ("a/b").
    static std::string_view inner(std::string_view printed);
    /// True if something other than a directory is at that path, as ripgrep prints it.
    bool has_file(const std::string& printed) const;
    /// The path that ripgrep is told to search.
    std::string target() const { return "./" + file; }
};

/// The kinds of scope that a tool takes: glob takes a directory only.
enum class ScopeKind : std::uint8_t { directory, directory_or_file };

/// Finds the scope at `given`; the failure otherwise.
std::optional<ToolResult> find_scope(const ToolRun& run, const std::string& given, ScopeKind kind,
                                     SearchScope& scope);

}  // namespace atl::guest
