// Paths as the tools take and show them: relative to the workspace or absolute under /workspace. The kernel
// resolves them beneath the workspace (core/plain/beneath.hpp). They are shown as path text
// (core/plain/path_text.hpp), and a path that could be shown so means what it would be shown for; every other
// one, "100%25 sure" or "50%20off", means itself. Nothing but regular files and directories is ever opened.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "bridge/guest/tools/tool_result.hpp"
#include "core/plain/beneath.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::guest {

/// Something that exists.
struct Found {
    base::UniqueFd fd;     // O_PATH
    std::string relative;  // where it really is, below the workspace; "" is the workspace
    struct stat state {};

    bool is_directory() const noexcept { return S_ISDIR(state.st_mode); }
    bool is_regular() const noexcept { return S_ISREG(state.st_mode); }
};

class WorkspacePaths {
  public:
    /// `root` is where the workspace is.
    explicit WorkspacePaths(const std::string& root);

    const base::Beneath& beneath() const noexcept { return beneath_; }

    /// The bytes of the path `given`, without /workspace; nothing, and errno, if it is no path (EINVAL,
    /// ENAMETOOLONG) or leads elsewhere (EXDEV).
    std::optional<std::string> relative(std::string_view given) const;
    /// The same for a pattern of paths, in which nothing is decoded.
    std::optional<std::string> relative_pattern(std::string_view given) const;
    /// Finds what is there. Nothing, and errno: ENOENT, also for the state of agents, or one of openat2(2).
    std::optional<Found> find(const std::string& relative) const;
    /// Where a path that ends in a link to nothing leads to; else the path itself. For a file that is to be
    /// made.
    std::string destination(const std::string& relative) const;

    /// Where an open file really is, below the workspace; nothing if it is elsewhere.
    std::optional<std::string> real_path(int fd) const;

    /// The path as results show it: absolute, UTF-8.
    static std::string shown(std::string_view relative);

  private:
    base::Beneath beneath_;
    std::string real_root_;  // as the kernel names it
};

/// True for the state of agents (base::k_state_folder) and all in it. `relative`: without links on the way.
bool is_agent_state(std::string_view relative);

/// The bytes of a path that is written as results show it; any other text as it is.
std::string path_of_text(std::string_view text);

/// The failure for something that is no regular file; for a directory it is IS_DIRECTORY.
ToolResult not_a_file(const Found& found, std::string_view given, std::string_view doing);

/// The failure that `error_number` (errno(3)) means at `given`. `doing`: "read", "write to".
ToolResult path_failure(int error_number, std::string_view given, std::string_view doing);

}  // namespace atl::guest
