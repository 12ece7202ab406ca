// The isolation profile: the one place that decides what a sandbox contains. A pure function from the host's
// layout and the launched sandbox to bwrap's arguments (bwrap(1)).
// Invariants: a path that is not named here is absent; all is read-only except /workspace and the tmpfs
// mounts; the order matters: a later mount lies on top of an earlier mount.
// Not here: seccomp's rules (seccomp.hpp), how the arguments reach bwrap (bubblewrap_launcher.cpp).
#pragma once

#include <string>
#include <vector>

#include "core/isolation/host_layout.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {

using base::k_inner_agent_dir;
using base::k_inner_bridge_dir;
using base::k_inner_bridge_socket;
using base::k_inner_guest;
using base::k_inner_workspace;
inline constexpr const char* k_inner_hostname = "sandbox";
inline constexpr const char* k_inner_user = "user";

/// Descriptors of bwrap at its start. 0 is /dev/null, 1 and 2 are the log; the guest inherits 0 to
/// k_listener_fd, bwrap closes the others.
enum ProfileFd : int {
    k_listener_fd = 3,
    k_arguments_fd = 4,
    k_seccomp_calls_fd = 5,
    k_seccomp_arguments_fd = 6,
    k_status_fd = 7,
    k_bundle_fd = 8,  // of a sandbox with an issuer of its own: all that its programs trust
};

/// They lie over the masked paths of a sandbox.
inline constexpr const char* k_empty_file = "file";
inline constexpr const char* k_empty_folder = "folder";

/// Where bwrap finds the sources on the host.
struct ProfileSources {
    std::string workspace;  // empty: none
    std::string agent_dir;  // empty: none
    std::string guest;
    std::string bridge_dir;
    std::string etc;
    std::string masks;  // with k_empty_file and k_empty_folder
    /// In front of the host's own paths: where views of them are; empty: the host's themselves.
    std::string host_root = {};
    std::string dev = {};            // a complete /dev with ptys; empty: bwrap makes /dev
    std::string agent_program = {};  // empty: none
    std::string ptys = {};           // a devpts for a /dev that bwrap makes; empty: its own
};

/// bwrap's options, without the program. Handed over through --args: a command line and an environment are
/// visible to every user of the host.
std::vector<std::string> profile_arguments(const HostLayout& layout, const sandbox::LaunchSpec& spec,
                                           const ProfileSources& sources);

/// bwrap's command line: reads the options above, then runs the guest as process 1.
std::vector<std::string> command_line();

/// The options as text, one a line, for `atolld --print-profile`.
std::string profile_text(const std::vector<std::string>& arguments);

}  // namespace atl::isolation
