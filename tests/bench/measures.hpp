// The measurements of docs/benchmarks.md, each in a file of its own. Each starts a server of its own, takes
// about 50 s at most (the load: 90 s; with seeded rows: 5 minutes), and measures its floor in the same run,
// alternating with the product so that noise meets both. main.cpp gives each a deadline; sized() makes each
// shorter.
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
/// Megabytes per second of a file of 1 GiB into a sandbox and out of it: upload_mb_s, download_mb_s. Floors:
/// nginx, and a plain relay over a Unix socket. About 60 s.
std::vector<Result> measure_transfer();
/// How late a timer of the server is, at most but for 1 in 1,000, under all of the above.
Result measure_lateness();
/// Kilobytes of the server for one of 10,000 idle WebSockets.
Result measure_idle_sockets();
/// A client's messages (p99) beside 11,000 other WebSockets, hostile ones among them, and the server's
/// memory: load_message_ms, load_growth_kb, load_cut. About 80 s; as a paired run 15 s, with 3,000 others.
std::vector<Result> measure_load(Scope scope);
/// Milliseconds of an exec of true. Floor: posix_spawn(3) of true, and a round trip that does nothing.
Result measure_exec(Scope scope);
/// Execs of true a second in 20 sandboxes at once, with their p99.
Result measure_exec_rate();
/// Milliseconds of a program of code mode that starts its runner. Floor: the bare interpreter, outside.
Result measure_execute_cold();
/// The same from a pool of ten, one by itself and ten in a row.
Result measure_execute_pooled();
/// Milliseconds from a key to its echo in a terminal, over a WebSocket. Floor: bash at a local
/// pseudoterminal.
Result measure_terminal();
/// Turns per second of 20 conversations at once.
Result measure_turns(Scope scope);
/// Memory of 50 idle `shell` conversations: idle_sandbox_pss_kb, idle_sandbox_memavail_kb.
std::vector<Result> measure_idle();
/// Seconds from the start of the process to /readyz, with 100,000 conversations and 1 GB of log that are not
/// in the page cache. Floor: the same with an empty data directory.
Result measure_start(Scope scope);
/// With 1,000,000 conversations in the database and 50 alive: the server's memory, server_rss_kb, and
/// milliseconds of the first page of a list with the slowest filter or pair of filters, list_ms.
std::vector<Result> measure_resting();
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
/// Milliseconds of a tool on a file of 20 KB: tool_read_ms, tool_replace_ms. Floor: a plain program that does
/// the same, without fsync, and a round trip on the same connection.
std::vector<Result> measure_tools(Scope scope);
/// Milliseconds of a search over 50,000 files. Floor: ripgrep itself, with the same options.
Result measure_grep();
/// Previews beside nginx as a proxy to the same process: small GETs a second over 50 connections,
/// preview_rps; milliseconds of one on a quiet connection, preview_latency_ms; megabytes a second of bodies
/// of 100 MB, preview_mb_s; milliseconds of a WebSocket's echo, preview_ws_ms. Root only.
Result measure_preview_rps(Scope scope);
Result measure_preview_latency(Scope scope);
Result measure_preview_bodies(Scope scope);
Result measure_preview_sockets(Scope scope);
/// Kilobytes of the server for one of 5,000 idle WebSockets through previews of two sandboxes.
Result measure_preview_connections();
/// Milliseconds from the request for a conversation to the first whole page of a program that its sandbox
/// then starts: page_ms in Perl, page_python_ms with `python3 -m http.server`. Floor: the same program
/// without a sandbox.
std::vector<Result> measure_page(Scope scope);
/// The way out of a sandbox (root only). Beside tinyproxy: milliseconds of CONNECT and a TLS handshake,
/// egress_connect_ms, and megabytes a second through a tunnel, egress_mb_s. Beside nginx: milliseconds to the
/// first event of a stream through a route, route_first_byte_ms.
Result measure_egress_connect(Scope scope);
Result measure_egress_bodies(Scope scope);
Result measure_route(Scope scope);
/// A neighbour's messages (p99) while a sandbox downloads as fast as it can. Floor: the same without the
/// download.
Result measure_egress_neighbour();
/// Milliseconds from a prompt to the first text of an agent that speaks ACP and runs already. Floor: the same
/// agent in bwrap, by hand.
Result measure_agent_overhead(Scope scope);
/// How many of `sandboxes` conversations answer at the same time.
Result measure_concurrent(std::size_t sandboxes);

}  // namespace atl::bench
