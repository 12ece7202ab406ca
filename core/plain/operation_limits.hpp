// Bounds of what is done inside a sandbox on behalf of a client: programs, files, tools. Units are in the
// names.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/plain/guest_limits.hpp"

namespace atl::base {

// Programs of `exec`.
inline constexpr std::chrono::milliseconds k_default_exec_timeout{30'000};
inline constexpr std::chrono::milliseconds k_max_exec_timeout{3'600'000};
inline constexpr std::size_t k_max_exec_arguments = 4096;
inline constexpr std::size_t k_default_exec_output_bytes = 1024UL * 1024;  // of stdout, and of stderr
inline constexpr std::size_t k_max_exec_output_bytes = 16UL * 1024 * 1024;
static_assert(k_default_exec_output_bytes <= k_max_exec_output_bytes);
// The budget of input that waits for programs and of output that is kept for answers (core/base/shares.hpp).
// The beginning of stdout and of stderr has its room before the program starts; output behind it that finds
// no room is dropped, as behind the bound of the program.
inline constexpr std::size_t k_exec_output_budget_bytes = 256UL * 1024 * 1024;
inline constexpr std::size_t k_exec_user_floor_bytes = 1024UL * 1024;
inline constexpr std::size_t k_exec_reserved_bytes = 64UL * 1024;  // of stdout, and of stderr
static_assert(2 * k_exec_reserved_bytes < k_exec_user_floor_bytes);
static_assert(4 * k_max_exec_output_bytes < k_exec_output_budget_bytes);
// Answers up to this size are made at once, longer ones piece by piece while they are sent.
inline constexpr std::size_t k_exec_whole_answer_bytes = 32UL * 1024;
// How much longer than its time a program may take before the guest counts as lost.
inline constexpr std::chrono::seconds k_exec_end_grace{30};
// A guest's broken connection is most often the end of its sandbox, whose cause is known a moment later.
inline constexpr std::chrono::seconds k_end_cause_wait{3};

// Processes that outlive the request that started them.
inline constexpr std::size_t k_kept_output_bytes = 1024UL * 1024;     // of each, the last
inline constexpr std::size_t k_max_process_spec_bytes = 32UL * 1024;  // of a command or an argv
inline constexpr std::size_t k_max_process_tag_bytes = 128;
inline constexpr std::size_t k_max_kept_processes = 8;  // of a sandbox, started again in each generation
inline constexpr std::uint16_t k_max_terminal_side = 4096;
inline constexpr std::chrono::milliseconds k_max_process_timeout{30LL * 86'400'000};
// Input that the server holds for a process that does not read it.
inline constexpr std::size_t k_process_input_bytes = 1024UL * 1024;
// How long a request with input waits for the process to take the next piece.
inline constexpr std::chrono::seconds k_process_input_deadline{30};
// Input counts as activity of a conversation, noted this often at most.
inline constexpr std::chrono::seconds k_process_activity_interval{1};

// Processes that one sandbox keeps, running and ended; of the ended ones the oldest go first.
inline constexpr std::size_t k_max_running_processes = 128;
inline constexpr std::size_t k_max_ended_processes = 64;
inline constexpr std::chrono::minutes k_ended_process_time{10};
inline constexpr std::size_t k_max_process_id_bytes = 64;
// The descriptions of all of them together: a list of them is not longer by much.
inline constexpr std::size_t k_max_described_bytes = 1024UL * 1024;
static_assert(k_max_process_spec_bytes < k_max_described_bytes);
// Connections that follow or feed one of them, and all of one sandbox.
inline constexpr std::size_t k_max_process_followers = 32;
inline constexpr std::size_t k_max_sandbox_followers = 128;
static_assert(k_max_process_followers < k_max_sandbox_followers);
// Input for one process that it has not read and whose connections have gone; more is dropped.
inline constexpr std::size_t k_left_input_bytes = 256UL * 1024;

// Bounds of a guest: the host's open connections, of which more are closed at once; programs of `exec` that
// run; bytes of one connection that wait for the host beside those in the socket, beyond which an agent or a
// program has to wait.
inline constexpr std::size_t k_max_guest_connections = 512;
inline constexpr std::size_t k_max_exec_runs = 192;
inline constexpr std::size_t k_guest_queue_bytes = 256UL * 1024;
// Connections among these that serve visitors of a preview, where the server makes no sockets inside
// (`dial`). A visitor may be a stranger: calls, commands and turns have room beside them.
inline constexpr std::size_t k_max_guest_dials = 128;
static_assert(k_max_exec_runs + k_max_sandbox_followers + k_max_guest_dials + 32 < k_max_guest_connections);

// Paths inside the workspace, as of limits.h: PATH_MAX with its NUL, NAME_MAX.
inline constexpr std::size_t k_max_path_bytes = 4095;
inline constexpr std::size_t k_max_name_bytes = 255;

// Levels of a list of files; each costs the guest a descriptor.
inline constexpr std::size_t k_max_list_depth = 64;

// The watch of a workspace. Directories that a guest watches for one, and watches of one guest: each has an
// inotify instance, of which a uid has 128 where nobody changed that.
inline constexpr std::size_t k_max_watched_directories = 16'384;
inline constexpr std::size_t k_max_guest_watches = 4;
// Changes that come together are told together; what was lost to a full queue is looked for a moment later.
inline constexpr std::chrono::milliseconds k_watch_gather{20};
inline constexpr std::chrono::milliseconds k_watch_rebuild_wait{200};
// Changes of one sandbox that the server takes at a time; then the guest waits for the rest of the interval.
inline constexpr std::size_t k_watch_burst_changes = 1024;
inline constexpr std::chrono::milliseconds k_watch_burst_interval{50};
// Changes that wait for one reader; beyond that the reader is told to scan again.
inline constexpr std::size_t k_watch_waiting_changes = 4096;
inline constexpr std::size_t k_watch_waiting_bytes = 512UL * 1024;
// A line of a watch: two paths as JSON, each byte as an escape of three or six bytes.
inline constexpr std::size_t k_max_watch_line_bytes = 64UL * 1024;
static_assert(2 * 6 * (k_max_path_bytes + 1) + 256 < k_max_watch_line_bytes);
// The wait after a watch broke in a generation that goes on.
inline constexpr std::chrono::milliseconds k_watch_retry{1000};

// Entries of an archive that is unpacked.
inline constexpr std::uint64_t k_max_archive_entries = 1'000'000;

// A guest that works on a request says so at least this often; the server waits that long for such a
// keep-alive line.
inline constexpr std::chrono::seconds k_call_keepalive_interval{2};
inline constexpr std::chrono::seconds k_call_keepalive_deadline{30};
static_assert(3 * k_call_keepalive_interval < k_call_keepalive_deadline);
// The time from the request, or the end of its input, to the reply; and the keep-alive lines on the way that
// are read at full speed.
inline constexpr std::chrono::minutes k_call_reply_deadline{15};
static_assert(k_call_keepalive_deadline < k_call_reply_deadline);
inline constexpr std::size_t k_call_fast_keepalives = 64;
// Calls that change files and whose clients have left: of all, and of a user while there are as many. Each
// holds its sandbox until its reply.
inline constexpr std::size_t k_max_unattended_calls = 256;
inline constexpr std::size_t k_unattended_calls_user_floor = 16;

// Sizes of what the filesystem tools read of a file, and of what they write.
inline constexpr std::size_t k_max_tool_file_bytes = 20UL * 1024 * 1024;
inline constexpr std::size_t k_max_tool_binary_bytes = 1024UL * 1024;
inline constexpr std::size_t k_max_tool_lines = 2000;
inline constexpr std::size_t k_max_tool_line_characters = 2000;
inline constexpr std::size_t k_max_tool_text_bytes = 4UL * 1024 * 1024;  // of one answer, before escaping
inline constexpr std::size_t k_max_tool_diff_bytes = 64UL * 1024;
static_assert(4 * k_max_tool_line_characters < k_max_tool_text_bytes);
static_assert(k_max_tool_diff_bytes <= k_max_tool_text_bytes);
// The server holds a result that streams until it is whole, up to this size.
inline constexpr std::size_t k_tool_held_result_bytes = 1024UL * 1024;
// The interval of the notes about a call's progress in the conversation's log.
inline constexpr std::chrono::seconds k_tool_progress_interval{2};
// Entries, files and matches that the tools list and find.
inline constexpr std::size_t k_max_tool_entries = 2000;
inline constexpr std::size_t k_max_tool_files = 1000;
inline constexpr std::size_t k_default_tool_matches = 100;
inline constexpr std::size_t k_max_tool_matches = 1000;
inline constexpr std::size_t k_max_tool_pattern_bytes = 4096;
inline constexpr std::size_t k_max_glob_bytes = 512;  // its length is what each byte of each path costs
inline constexpr std::size_t k_max_tool_ignores = 100;
inline constexpr std::chrono::seconds k_tool_search_timeout{30};
// The size of a request's `context`, and how deep its `args` and `context` may nest.
inline constexpr std::size_t k_max_tool_context_bytes = 16UL * 1024;
inline constexpr std::size_t k_max_tool_depth = 16;
// Files that a generation remembers having shown.
inline constexpr std::size_t k_max_tool_reads_kept = 4096;

// Choices of a permission that an agent asks for, and such requests that wait at once.
inline constexpr std::size_t k_max_permission_options = 16;
inline constexpr std::size_t k_max_open_permissions = 64;
// The time for the last client that follows a conversation to come back before its questions are denied.
inline constexpr std::chrono::seconds k_unattended_grace{10};
inline constexpr std::size_t k_max_permission_id_bytes = 512;             // of a request and of an option
inline constexpr std::size_t k_max_permission_request_bytes = 64 * 1024;  // of the event's data

}  // namespace atl::base
