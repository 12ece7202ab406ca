// The measurements of README.md, each in a file of its own. Each starts a server of its own, takes at most
// 50 s (the load: 90 s), and measures its floor in the same run, alternating with the product so that noise
// meets both.
#pragma once

#include <vector>

#include "tests/bench/result.hpp"

namespace atl::bench {

/// paired_run: the product alone, for a shorter time, as one of many runs (paired_runs.hpp). Measurements
/// without a scope are the same in each.
enum class Scope { product_and_floor, floor_only, paired_run };

constexpr bool has_product(Scope scope) {
    return scope != Scope::floor_only;
}
constexpr bool has_floor(Scope scope) {
    return scope != Scope::paired_run;
}

/// Milliseconds from POST of an `echo` conversation to its 201.
Result measure_create(Scope scope);
/// The same from the pool, beside a round trip on the same connection.
Result measure_create_warm(Scope scope);
/// Milliseconds from POST /resume of an `echo` conversation to its answer, after a cold pause.
Result measure_resume_cold(Scope scope);
/// The same after a warm pause.
Result measure_resume_warm();
/// Milliseconds of a message to `echo`, until the end of its turn's event stream.
Result measure_message(Scope scope);
/// The same over an open WebSocket, to the turn's first event: ws_message_ms. To the turn's end, beside a
/// plain Beast server that does one Unix-socket round trip for it: ws_message_to_beast.
std::vector<Result> measure_socket_message(Scope scope);
/// Milliseconds from an event to the last of 1,000 WebSockets: fanout_ms. Beside a plain Beast server:
/// fanout_to_beast.
std::vector<Result> measure_fanout(Scope scope);
/// Events of 256 bytes per second from one agent to one WebSocket.
Result measure_stream(Scope scope);
/// Megabytes per second of a log of 60 MB that a WebSocket reads again.
Result measure_replay();
/// How late a timer of the server is, at most but for 1 in 1,000, under all of the above.
Result measure_lateness();
/// Kilobytes of the server for one of 10,000 idle WebSockets.
Result measure_idle_sockets();
/// A client's messages (p99) beside 11,000 other WebSockets, hostile ones among them, and the server's
/// memory: load_message_ms, load_growth_kb, load_cut. About 80 s; as a paired run 15 s, with 3,000 others.
std::vector<Result> measure_load(Scope scope);
/// Turns per second of 20 conversations at once.
Result measure_turns(Scope scope);
/// Memory of 50 idle `shell` conversations: idle_sandbox_pss_kb, idle_sandbox_memavail_kb, server_rss_kb.
std::vector<Result> measure_idle();
/// Milliseconds from the kernel's kill for memory to its event at a WebSocket.
Result measure_oom();
/// A client's messages (p99) while a neighbour's sandbox attacks the host, one bomb after the other; the
/// worst of them. Throws unless each bomb ends as designed. A paired run leaves out those that fill memory.
Result measure_bombs(Scope scope);
/// How far beyond its disk limit a sandbox gets that writes as fast as it can, at worst.
Result measure_disk();
/// How late the server's timer is while a million files are measured again and again.
Result measure_walk();
/// Sandboxes made and removed a second, eight at a time.
Result measure_storm();
/// How many of `sandboxes` conversations answer at the same time.
Result measure_concurrent(std::size_t sandboxes);

}  // namespace atl::bench
