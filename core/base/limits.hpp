// All bounds of the server, with the relations between them. Units are in the names. A value that an operator
// may change is a default here and has a flag in app/config.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/plain/guest_limits.hpp"

namespace atl::base {

// HTTP: bounds on the input of a client.
inline constexpr std::size_t k_max_header_bytes = 16 * 1024;
inline constexpr std::size_t k_max_leading_blank_lines = 4;  // before a request line
// Pieces of one text of a request to a preview that have the form of a token, each of which takes an HMAC.
inline constexpr std::size_t k_max_token_tries = 16;
// For each connection: the bytes of an incomplete message that do not count against k_body_budget_bytes, and
// the bytes that are read ahead beyond a message head.
inline constexpr std::size_t k_free_body_bytes = 16 * 1024;
inline constexpr std::size_t k_read_ahead_bytes = 16 * 1024;
inline constexpr std::size_t k_body_budget_bytes = 128UL * 1024 * 1024;
static_assert(k_free_body_bytes < k_max_body_bytes);
static_assert(k_max_body_bytes <= k_body_budget_bytes);
inline constexpr std::size_t k_max_json_depth = 64;
// A body or a frame of a client as the loop parses it: values, and members of one object. A request counts
// against the rates of its address and key as one, and one more for so many values.
inline constexpr std::size_t k_max_json_nodes = 8192;
inline constexpr std::size_t k_max_json_members = 1024;
inline constexpr std::size_t k_json_nodes_a_request = 256;
// A word of a client or operator that is compared with the known ones (core/base/nearest.hpp), and a JSON
// pointer that an answer repeats.
inline constexpr std::size_t k_max_told_word_bytes = 64;
inline constexpr std::size_t k_max_told_pointer_bytes = 256;
static_assert(2 * k_max_told_word_bytes < k_max_told_pointer_bytes);
inline constexpr std::size_t k_max_connections = 16 * 1024;
// How much of a budget that all share one user may have, of what the others leave (core/base/shares.hpp).
inline constexpr unsigned k_default_user_share_percent = 50;
inline constexpr std::chrono::seconds k_header_deadline{10};
inline constexpr std::chrono::seconds k_body_deadline{30};
inline constexpr std::chrono::seconds k_idle_deadline{75};
inline constexpr std::chrono::seconds k_write_deadline{30};
// Bodies that stream: the peer has the body deadline for each slice that it sends and the write deadline for
// each slice that it takes; a piece of a response's source is in memory at a time, and as much input of a
// connection whose body is being read.
inline constexpr std::size_t k_body_slice_bytes = 64UL * 1024;
inline constexpr std::size_t k_write_slice_bytes = 64UL * 1024;
inline constexpr std::size_t k_source_piece_bytes = 64UL * 1024;
static_assert(k_source_piece_bytes <= k_write_slice_bytes);
// Output that a client does not take (core/base/shares.hpp). Without room in the budget a connection may have
// so much of it in the kernel, and beside that a piece of a source with its frame; with room, more.
inline constexpr std::size_t k_free_unsent_bytes = 16UL * 1024;
inline constexpr std::size_t k_free_output_bytes = 80UL * 1024;
inline constexpr std::size_t k_max_unsent_bytes = 256UL * 1024;
inline constexpr std::size_t k_connection_budget_bytes = 256UL * 1024 * 1024;
inline constexpr std::size_t k_connection_user_floor_bytes = 4UL * 1024 * 1024;
// Output of a guest that waits for its client in the server, before the connection has it: without room in
// the same budget, and with it (http/api/output_room.hpp).
inline constexpr std::size_t k_free_waiting_bytes = 64UL * 1024;
inline constexpr std::size_t k_max_waiting_bytes = 256UL * 1024;
static_assert(k_max_waiting_bytes < k_connection_user_floor_bytes);
static_assert(k_source_piece_bytes < k_free_output_bytes);
static_assert(k_max_unsent_bytes < k_connection_user_floor_bytes);
inline constexpr std::size_t k_bulk_input_bytes = 64UL * 1024;
static_assert(k_max_header_bytes + k_read_ahead_bytes <= k_bulk_input_bytes);
inline constexpr std::chrono::seconds k_heartbeat_interval{15};
static_assert(k_heartbeat_interval < k_write_deadline);
inline constexpr std::size_t k_default_page_items = 100;
inline constexpr std::size_t k_max_page_items = 10'000;
// A page ends here even if it may have more items: one answer must not hold up the loop.
inline constexpr std::size_t k_list_page_bytes = 128 * 1024;
// An item's bytes as JSON without its metadata; no page counts an item as less.
inline constexpr std::size_t k_list_item_bytes = 1024;
// A page also ends after a look at so many items that its filter leaves out.
inline constexpr std::size_t k_list_scan_items = 2000;
// Lists of a user that wait for their turn, and loads and counts, each part of another request: after a start
// all browsers of a site with one key come back at once.
inline constexpr std::size_t k_waiting_lists_of_user = 64;
inline constexpr std::size_t k_waiting_loads_of_user = k_max_connections;
// Loads go before lists, but a list that waits goes after so many.
inline constexpr std::size_t k_loads_before_list = 8;
inline constexpr std::size_t k_max_metadata_bytes = 16 * 1024;
// Lists find conversations by their first members of metadata, in the order of their names, if name and value
// are not longer.
inline constexpr std::size_t k_max_indexed_members = 64;
inline constexpr std::size_t k_max_indexed_bytes = 256;
inline constexpr std::size_t k_max_metadata_filters = 8;  // of one list
inline constexpr std::size_t k_max_title_bytes = 512;
inline constexpr std::size_t k_max_user_id_bytes = 256;
inline constexpr std::size_t k_max_idempotency_key_bytes = 256;
inline constexpr std::chrono::seconds k_default_token_ttl{300};
inline constexpr std::chrono::seconds k_max_token_ttl{86'400};
// A client whose token is bad or has expired is disconnected after this time, whatever it does.
inline constexpr std::chrono::milliseconds k_token_end_grace{2000};
// The `id` of a client's frame: a string of so many bytes, or an integer that every JSON reader keeps exact.
inline constexpr std::size_t k_max_frame_id_bytes = 128;
inline constexpr std::int64_t k_max_frame_id = (std::int64_t{1} << 53) - 1;
// A frame that is refused unread, for a limit, is searched for its `id` up to this length.
inline constexpr std::size_t k_searched_frame_bytes = 16 * 1024;
inline constexpr std::size_t k_max_api_keys = 1000;
inline constexpr std::size_t k_max_key_label_bytes = 64;
// Holds k_max_api_keys of the longest: JSON escapes a byte with six at most, the rest of a key is below 512.
inline constexpr std::size_t k_max_key_file_bytes = 4 * 1024 * 1024;
static_assert(k_max_api_keys * (6 * (k_max_user_id_bytes + k_max_key_label_bytes) + 512) <
              k_max_key_file_bytes);
// Limits on one client; operators may set each (http/access/limit_settings.hpp).
inline constexpr std::size_t k_max_connections_per_address = 256;
inline constexpr std::size_t k_max_streams_per_conversation = 2048;
inline constexpr std::size_t k_max_streams_per_key = 1024;
inline constexpr std::size_t k_requests_per_second = 1000;
inline constexpr std::size_t k_request_burst_seconds = 2;  // of requests that may come at once
inline constexpr std::size_t k_failed_logins_per_minute = 60;
// For each kind of rate; a bucket takes about 100 bytes.
inline constexpr std::size_t k_max_rate_buckets = 16 * 1024;
inline constexpr std::size_t k_max_frames_over_limit = 100;  // in a row, then a WebSocket is closed
inline constexpr std::size_t k_max_forwarded_hops = 32;
static_assert(k_max_connections_per_address < k_max_connections);
static_assert(k_max_streams_per_key <= k_max_streams_per_conversation);
inline constexpr std::size_t k_max_env_entries = 128;
// Metadata and environment stay in memory for as long as the conversation exists.
static_assert(k_max_metadata_bytes + k_max_env_bytes <= 64 * 1024);

// Conversations, and sandboxes without one: each takes memory and disk, whether it runs or not.
inline constexpr std::size_t k_default_max_conversations = 1'000'000;
inline constexpr std::size_t k_default_max_conversations_per_user = 10'000;
static_assert(k_default_max_conversations_per_user <= k_default_max_conversations);
// An ended conversation can be read for this time, and the server keeps at most this many of them.
inline constexpr std::chrono::seconds k_default_keep_ended{7 * 86'400};
inline constexpr std::size_t k_max_kept_ended = 1'000'000;
// The server forgets at most this many in one turn of the loop.
inline constexpr std::size_t k_forgotten_at_once = 16;
// The longest time that a request may name in seconds.
inline constexpr std::chrono::seconds k_max_named_time{1'000'000'000};

inline constexpr std::size_t k_bridge_read_bytes = 64 * 1024;
// The bytes that a reader lets wait in the write queue of a stream to the guest (bridge/stream.hpp).
inline constexpr std::size_t k_stream_queue_bytes = 256UL * 1024;
static_assert(k_max_frame_bytes <= k_stream_queue_bytes);
// An agent may be a program of hundreds of megabytes on a disk that has read none of them yet, and a guest
// may start beside hundreds of sandboxes that each want a whole processor.
inline constexpr std::chrono::seconds k_start_deadline{30};
inline constexpr std::chrono::seconds k_control_reply_deadline{5};

// A borrowed generation of a sandbox goes back this long after its last request.
inline constexpr std::chrono::milliseconds k_lease_grace{2000};

// The death of a sandbox: each step of design.md section 3 has its deadline.
inline constexpr std::chrono::milliseconds k_shutdown_grace{1500};
inline constexpr std::chrono::milliseconds k_terminate_grace{500};
inline constexpr std::chrono::seconds k_kill_deadline{10};
// A process in a system call that nothing interrupts does not stand still: then it is not frozen at all.
inline constexpr std::chrono::seconds k_freeze_deadline{2};
// How long a sandbox stays frozen before it is ended.
inline constexpr std::chrono::seconds k_default_warm_limit{600};
inline constexpr std::chrono::seconds k_interrupt_deadline{10};
inline constexpr std::chrono::milliseconds k_interrupt_retry{50};
static_assert(k_interrupt_retry < k_interrupt_deadline);
inline constexpr std::chrono::seconds k_default_turn_limit{3600};

// How long a backup waits for the server to share its database.
inline constexpr std::chrono::milliseconds k_backup_patience{20'000};

// The event log of a conversation, defaults.
inline constexpr std::size_t k_max_turn_log_bytes = 16UL * 1024 * 1024;
inline constexpr std::size_t k_max_conversation_log_bytes = 64UL * 1024 * 1024;
// The budget of all logs where the disk cannot be asked; the floor of a user, where a sixteenth of the budget
// is not less; the room that a turn needs beside its message.
inline constexpr std::uint64_t k_default_log_budget_bytes = 1024UL * 1024 * 1024;
inline constexpr std::uint64_t k_log_user_floor_bytes = 1024UL * 1024;
inline constexpr std::uint64_t k_log_of_new_turn_bytes = 64UL * 1024;
// The same of all workspaces: where the disk cannot be asked, and the floor of a user.
inline constexpr std::uint64_t k_default_files_budget_bytes = 64UL * 1024 * 1024 * 1024;
inline constexpr std::uint64_t k_files_user_floor_bytes = 1024UL * 1024 * 1024;
// A disk below its reserve: so much is kept free inside the database, or an eighth of the budget if that is
// less. Logs that one round cuts.
inline constexpr std::uint64_t k_database_room_bytes = 16UL * 1024 * 1024;
inline constexpr std::size_t k_logs_cut_at_once = 8;
// No turn begins on a disk with less free than this, or than half of its reserve if that is less: a cut of
// logs needs it.
inline constexpr std::uint64_t k_room_for_cuts_bytes = 8UL * 1024 * 1024;
// Logs of one read that counts them, and workspaces at rest that wait to be measured.
inline constexpr std::size_t k_logs_counted_at_once = 256;
// A load tells the turns of a log one by one up to so many. Of more, those before the newest are told as one
// with their neighbours, up to such a share of the log: at most two for each share, and one.
inline constexpr std::size_t k_turns_told_apart = 512;
inline constexpr std::size_t k_newest_told_apart = 255;
inline constexpr std::size_t k_log_shares = 127;
static_assert(k_newest_told_apart + 2 * k_log_shares + 1 < k_turns_told_apart);
static_assert(k_max_turn_log_bytes <= k_max_conversation_log_bytes);
static_assert(k_max_event_line_bytes < k_max_turn_log_bytes);
// The word that says which logs a cursor is of; what a client's cursor may have in its place.
inline constexpr std::size_t k_log_epoch_length = 8;
inline constexpr std::size_t k_max_cursor_epoch_bytes = 32;
static_assert(k_log_epoch_length <= k_max_cursor_epoch_bytes);
// Kept in memory for subscribers that follow live; older events are read back from the store.
inline constexpr std::size_t k_live_window_bytes = 1024 * 1024;
// The turn_start of an open turn up to this size is kept in memory for views of the conversation.
inline constexpr std::size_t k_kept_start_bytes = 4096;
inline constexpr std::size_t k_live_window_events = 1024;
// Bytes that one handler reads back and writes to one subscriber: about a tenth of a millisecond.
inline constexpr std::size_t k_replay_batch_bytes = 32 * 1024;
// An event counts as at least this many bytes of the batch, however short it is.
inline constexpr std::size_t k_least_event_cost_bytes = 256;
// After truncation a turn's remaining output is read no faster than this, so that it cannot grind the loop.
inline constexpr std::size_t k_truncated_read_bytes_per_s = 4UL * 1024 * 1024;
// A line costs at least this much of that pace, however short it is.
inline constexpr std::size_t k_paced_line_bytes = 256;
inline constexpr std::size_t k_max_protocol_complaints = 10;

// Output of a sandbox on stdout and stderr that is kept, per generation.
inline constexpr std::size_t k_sandbox_log_bytes = 64 * 1024;
inline constexpr std::size_t k_log_tail_bytes = 2048;
inline constexpr std::size_t k_sandbox_log_line_bytes = 4096;
// The logs of all sandboxes without processes, together.
inline constexpr std::size_t k_retired_sandbox_log_bytes = 4UL * 1024 * 1024;
static_assert(k_sandbox_log_line_bytes < k_sandbox_log_bytes);
static_assert(k_sandbox_log_bytes < k_retired_sandbox_log_bytes);
inline constexpr std::size_t k_sandbox_log_read_bytes_per_s = 1024 * 1024;

inline constexpr std::size_t k_default_max_sandboxes = 4096;
// Places that a user may have while there are as many, whatever the share is (core/base/shares.hpp).
inline constexpr std::size_t k_places_user_floor = 8;
inline constexpr std::uint64_t k_memory_user_floor_mb = 2048;
// After how long a start that found no place at all may be tried again.
inline constexpr std::chrono::seconds k_place_retry{5};
// Descriptors of the server: of a living sandbox with its agent and the ports of its preview at most (19
// where each controller of cgroup v1 has a hierarchy of its own, as a test measures) and the two listeners of
// its way out, and for all else but clients. Each operation in a sandbox, and each connection of its preview,
// takes one more while it runs.
inline constexpr std::size_t k_descriptors_per_sandbox = 21;
inline constexpr std::size_t k_own_descriptors = 128;
// Groups with a process that waits in them, where cgroup v1 needs them: eight of the server's own descriptors
// each.
inline constexpr std::size_t k_groups_made_ahead = 4;
// Sockets are counted whenever sandboxes have together used so much of the processors since the last count,
// and not more often than this. One processor fills unread sockets at up to 3 GB/s (measured).
inline constexpr std::chrono::milliseconds k_socket_count_interval{25};
inline constexpr std::chrono::microseconds k_socket_count_cpu{20'000};
// The interval where the host does not account processor time.
inline constexpr std::chrono::milliseconds k_blind_socket_count_interval{100};
// A count takes about 2 us.
inline constexpr std::size_t k_socket_counts_per_handler = 256;
// The kernel charges the buffer of an AF_NETLINK socket to no cgroup: 208 KiB each with the default size.
inline constexpr std::uint32_t k_max_netlink_sockets = 256;
// The most that UDP and TCP sockets of a sandbox may buffer on cgroup v1, which does not count it as memory.
inline constexpr std::uint32_t k_socket_buffer_mb = 64;
// The host's memory is looked at this often; faster when less than twice the reserve is left.
inline constexpr std::chrono::milliseconds k_host_memory_interval{250};
inline constexpr std::chrono::milliseconds k_short_host_memory_interval{50};
// The pause after a sandbox was ended for the host's memory, so that its memory is free before the next
// search.
inline constexpr std::chrono::milliseconds k_host_kill_pause{1000};
static_assert(k_short_host_memory_interval < k_host_kill_pause);
// Ending a sandbox that holds less than this does not help a host that is short of memory.
inline constexpr std::uint64_t k_least_worth_ending_bytes = 64UL * 1024 * 1024;
// The weight of a socket in the search for the largest sandbox, in bytes of memory.
inline constexpr std::uint64_t k_socket_weight_bytes = 256UL * 1024;
inline constexpr std::size_t k_sizes_per_handler = 32;
// An idle sandbox may be ended for another one after this.
inline constexpr std::chrono::seconds k_default_evict_idle{30};
// A start evicts at most this many sandboxes: if something else on the host takes the memory, no eviction
// helps.
inline constexpr std::size_t k_max_evictions_per_start = 4;
// Beyond this share of a sandbox's memory limit its conversation is warned, not more often than this.
inline constexpr std::uint64_t k_memory_warning_percent = 80;
inline constexpr std::chrono::seconds k_memory_warning_interval{60};
inline constexpr std::chrono::seconds k_process_warning_interval{60};
// A shell to which a process was refused sleeps for a second before it tries again, and a fork bomb of shells
// holds less than its limit meanwhile.
inline constexpr std::chrono::seconds k_refusal_memory{2};

// Host uids of sandboxes: clear of subordinate uid ranges (subuid(5)) and of systemd's (UIDS-GIDS.md).
inline constexpr std::uint32_t k_first_host_uid = 1'879'048'192;
inline constexpr std::uint32_t k_host_uids_per_block = 4096;
inline constexpr std::uint32_t k_host_uid_blocks = 16 * 1024;
static_assert(k_first_host_uid + std::uint64_t{k_host_uids_per_block} * k_host_uid_blocks < 2'147'483'648);

// The uid and gid of everything inside a sandbox.
inline constexpr std::uint32_t k_inner_uid = 1000;

// Files of the host's /etc that are copied for sandboxes, and their bytes.
inline constexpr std::size_t k_max_etc_copies = 4096;
inline constexpr std::uint64_t k_max_etc_bytes = 8UL * 1024 * 1024;

// tmpfs mounts inside a sandbox beside /tmp, which has a limit of its own.
inline constexpr std::size_t k_run_bytes = 16UL * 1024 * 1024;
inline constexpr std::size_t k_shm_bytes = 64UL * 1024 * 1024;

}  // namespace atl::base
