// Where things are inside every sandbox. The profile mounts them there, the environment names them.
#pragma once

namespace atl::sandbox {

inline constexpr const char* k_inner_workspace = "/workspace";
inline constexpr const char* k_inner_agent_dir = "/agent";
inline constexpr const char* k_inner_guest = "/atoll/guest";
inline constexpr const char* k_inner_bridge_dir = "/run/atoll";
inline constexpr const char* k_inner_bridge_socket = "/run/atoll/bridge.sock";

}  // namespace atl::sandbox
