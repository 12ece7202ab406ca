// Starts a program inside the sandbox with a clean slate: a session of its own, default signals, no
// descriptor but those meant, the sandbox's environment. No shell, no search beyond PATH.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace atl::guest {

struct SpawnRequest {
    std::vector<std::string> argv;  // argv[0] is looked up in PATH unless it holds a slash
    std::string directory;
    int input_fd = -1;   // becomes 0; -1: /dev/null
    int output_fd = -1;  // becomes 1
    int error_fd = -1;   // becomes 2; -1: the guest's own, which is the sandbox's log
    int script_fd = -1;  // becomes 3; -1: none
};

/// The new process, leader of a new session and process group, or the negated errno of what failed, exec
/// included (posix_spawn(3)). The environment is the guest's without PWD, OLDPWD and `_`, which name what
/// holds for the guest only. Every descriptor above those of the request is closed.
pid_t spawn(const SpawnRequest& request);

/// Where agents work: ASH_WORKSPACE_DIR, else /workspace.
std::string workspace_directory();

/// "cannot run /bin/x: No such file or directory".
std::string spawn_error(const SpawnRequest& request, int error_number);

}  // namespace atl::guest
