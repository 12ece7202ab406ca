// The paths of things inside every sandbox. The profile mounts them there, the environment names them.
#pragma once

#include <array>
#include <string_view>

namespace atl::base {

inline constexpr const char* k_inner_workspace = "/workspace";
inline constexpr const char* k_inner_agent_dir = "/agent";
inline constexpr const char* k_inner_guest = "/atoll/guest";
/// Between the guest and agents that do not speak its lines; in sandboxes of such agents only.
inline constexpr const char* k_inner_agent = "/atoll/agent";
/// Its name in the guest's folder.
inline constexpr const char* k_agent_program = "atoll-agent";
inline constexpr const char* k_inner_bridge_dir = "/run/atoll";
inline constexpr const char* k_inner_bridge_socket = "/run/atoll/bridge.sock";

/// The variables that the server sets in every sandbox beside HOME. Nothing inside changes it for a later
/// message.
inline constexpr std::array<std::string_view, 5> k_injected_variables = {
    "ASH_BRIDGE_SOCKET", "ASH_AGENT_DIR", "ASH_SESSION_ID", "ASH_WORKSPACE_DIR", "ASH_SANDBOX_ID"};

}  // namespace atl::base
