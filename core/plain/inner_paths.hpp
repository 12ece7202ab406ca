// The paths of things inside every sandbox. The profile mounts them there, the environment names them.
#pragma once

#include <array>
#include <string_view>

namespace atl::base {

inline constexpr const char* k_inner_workspace = "/workspace";
inline constexpr const char* k_inner_agent_dir = "/agent";
inline constexpr const char* k_inner_guest = "/atoll/guest";
/// The issuers of certificates that programs trust, where the sandbox has one of its own.
inline constexpr const char* k_inner_bundle = "/atoll/certificates.crt";
/// Between the guest and agents that do not speak its lines; in sandboxes of such agents only.
inline constexpr const char* k_inner_agent = "/atoll/agent";
/// Its name in the guest's folder.
inline constexpr const char* k_agent_program = "atoll-agent";
inline constexpr const char* k_inner_bridge_dir = "/run/atoll";
inline constexpr const char* k_inner_bridge_socket = "/run/atoll/bridge.sock";

/// The variables that the server sets in every sandbox beside HOME. Nothing inside changes it for a later
/// message.
inline constexpr std::array<std::string_view, 10> k_injected_variables = {
    "ATOLL_BRIDGE_SOCKET", "ATOLL_AGENT_DIR", "ATOLL_SESSION_ID", "ATOLL_WORKSPACE_DIR", "ATOLL_SANDBOX_ID",
    // The protocol of agents names these.
    "ASH_BRIDGE_SOCKET", "ASH_AGENT_DIR", "ASH_SESSION_ID", "ASH_WORKSPACE_DIR", "ASH_SANDBOX_ID"};

/// At the top of the workspace: the state of agents. The tools do not show it either.
inline constexpr std::string_view k_state_folder = ".atoll";

/// The names at the top of the workspace, which is HOME, where shells, interpreters and package managers keep
/// what is theirs. Lists, archives and watches of the workspace leave them out unless all is asked for.
inline constexpr std::array<std::string_view, 8> k_home_names = {
    k_state_folder, ".bash_history",      ".cache", ".config",
    ".local",       ".node_repl_history", ".npm",   ".python_history"};

constexpr bool is_home_name(std::string_view name) noexcept {
    for (const std::string_view known : k_home_names)
        if (known == name)
            return true;
    return false;
}

}  // namespace atl::base
