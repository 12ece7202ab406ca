// Starts a program inside the sandbox with a clean slate: a session of its own, default signals, no
// descriptor but those meant, the sandbox's environment. No shell, no search beyond PATH.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

struct SpawnRequest {
    std::vector<std::string> argv;  // argv[0] is looked up in PATH unless it holds a slash
    std::string directory;
    int directory_fd = -1;                 // where it starts, in place of `directory`; may be O_PATH
    std::vector<std::string> environment;  // NAME=VALUE, in place of the guest's where it has the name
    /// NAME=VALUE, in place of the guest's whole environment; not null: lives until the spawn.
    const std::vector<std::string>* whole_environment = nullptr;
    int input_fd = -1;   // becomes 0; -1: /dev/null
    int output_fd = -1;  // becomes 1
    int error_fd = -1;   // becomes 2; -1: the guest's own, which is the sandbox's log
    int script_fd = -1;  // becomes 3; -1: none
    /// Becomes 0, 1 and 2 in place of the above, and the controlling terminal; empty: there is none.
    std::string terminal;
};

/// The new process, leader of a new session and process group, or the negated errno of what failed, exec
/// included (posix_spawn(3)). The environment is the guest's without PWD, OLDPWD and `_`, which name what
/// holds for the guest only, and with what the request adds. Every descriptor above those of the request is
/// closed.
pid_t spawn(const SpawnRequest& request);

/// Where agents work: ASH_WORKSPACE_DIR, else /workspace.
std::string workspace_directory();

/// Runs `script` in bash, or in sh where there is none; sets argv of `request`. A script beyond what one
/// argument may hold (execve(2), MAX_ARG_STRLEN) reaches the shell through a memfd. As spawn().
pid_t spawn_shell(SpawnRequest& request, std::string_view script);

/// A file in memory that holds `text`; an invalid descriptor where there is none to be had.
base::UniqueFd memory_file(std::string_view text);

/// MAX_ARG_STRLEN is 32 pages of 4 KiB, its NUL included.
inline constexpr std::size_t k_max_inline_script_bytes = 120UL * 1024;

/// "cannot run /bin/x: No such file or directory".
std::string spawn_error(const SpawnRequest& request, int error_number);

}  // namespace atl::guest
