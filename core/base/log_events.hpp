// The names of all log events: part of the contract, tests assert them.
#pragma once

#include <string_view>

namespace atl::base::evt {

inline constexpr std::string_view variable_unread = "variable_unread";
inline constexpr std::string_view server_listening = "server_listening";
inline constexpr std::string_view listen_warning = "listen_warning";
inline constexpr std::string_view server_stopping = "server_stopping";
inline constexpr std::string_view server_stopped = "server_stopped";
inline constexpr std::string_view log_dropped = "log_dropped";
inline constexpr std::string_view task_failed = "task_failed";
inline constexpr std::string_view request = "request";
inline constexpr std::string_view requests_suppressed = "requests_suppressed";
inline constexpr std::string_view priority_refused = "priority_refused";
inline constexpr std::string_view limit_reached = "limit_reached";
inline constexpr std::string_view socket_refused = "socket_refused";
inline constexpr std::string_view keys_refused = "keys_refused";
inline constexpr std::string_view nothing_to_reload = "nothing_to_reload";
inline constexpr std::string_view egress_log_refused = "egress_log_refused";
inline constexpr std::string_view egress_log_reopened = "egress_log_reopened";
inline constexpr std::string_view tls_loaded = "tls_loaded";
inline constexpr std::string_view tls_refused = "tls_refused";
inline constexpr std::string_view tls_warning = "tls_warning";
inline constexpr std::string_view tls_handshake_failed = "tls_handshake_failed";
inline constexpr std::string_view sandbox_started = "sandbox_started";
inline constexpr std::string_view sandbox_ready = "sandbox_ready";
inline constexpr std::string_view sandbox_failed = "sandbox_failed";
inline constexpr std::string_view sandbox_frozen = "sandbox_frozen";
inline constexpr std::string_view sandbox_thawed = "sandbox_thawed";
inline constexpr std::string_view sandbox_exited = "sandbox_exited";
inline constexpr std::string_view sandbox_undying = "sandbox_undying";
inline constexpr std::string_view sandbox_removed = "sandbox_removed";
inline constexpr std::string_view pool_failed = "pool_failed";
inline constexpr std::string_view workspaces_swept = "workspaces_swept";
inline constexpr std::string_view sandbox_cleanup = "sandbox_cleanup";
inline constexpr std::string_view uids_private = "uids_private";
inline constexpr std::string_view uids_renewed = "uids_renewed";
inline constexpr std::string_view instance_renewed = "instance_renewed";
inline constexpr std::string_view log_cut = "log_cut";
inline constexpr std::string_view log_epoch_begun = "log_epoch_begun";
inline constexpr std::string_view uids_shared = "uids_shared";
inline constexpr std::string_view etc_cut = "etc_cut";
inline constexpr std::string_view core_dumps_handled = "core_dumps_handled";
inline constexpr std::string_view limits_deferred = "limits_deferred";
inline constexpr std::string_view conversation_created = "conversation_created";
inline constexpr std::string_view conversation_paused = "conversation_paused";
inline constexpr std::string_view sandbox_evicted = "sandbox_evicted";
inline constexpr std::string_view sandboxes_bounded = "sandboxes_bounded";
inline constexpr std::string_view sockets_exceeded = "sockets_exceeded";
inline constexpr std::string_view host_memory_short = "host_memory_short";
inline constexpr std::string_view pause_cold = "pause_cold";
inline constexpr std::string_view conversation_removed = "conversation_removed";
inline constexpr std::string_view turn_started = "turn_started";
inline constexpr std::string_view turn_ended = "turn_ended";
inline constexpr std::string_view agent_protocol = "agent_protocol";
inline constexpr std::string_view secret_unusable = "secret_unusable";
inline constexpr std::string_view memory_exposed = "memory_exposed";
inline constexpr std::string_view store_failed = "store_failed";
inline constexpr std::string_view store_recovered = "store_recovered";
inline constexpr std::string_view checkpoint_late = "checkpoint_late";
inline constexpr std::string_view disk_enforcement = "disk_enforcement";
inline constexpr std::string_view disk_short = "disk_short";
inline constexpr std::string_view disk_unmetered = "disk_unmetered";
inline constexpr std::string_view helper_failed = "helper_failed";
inline constexpr std::string_view executor_failed = "executor_failed";
inline constexpr std::string_view executors_missing = "executors_missing";
inline constexpr std::string_view executors_stale = "executors_stale";
inline constexpr std::string_view execution_ended = "execution_ended";
inline constexpr std::string_view tool_called = "tool_called";
inline constexpr std::string_view process_not_restarted = "process_not_restarted";
inline constexpr std::string_view slow_handler = "slow_handler";

}  // namespace atl::base::evt
