// The bodies and frames of processes: JSON to what the core is asked, and processes as JSON. Checks the form;
// whether the program and its directory are there, the guest says.
#pragma once

#include <optional>
#include <string>

#include "core/base/json_writer.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/operations.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

inline constexpr IntRange k_terminal_range{1, base::k_max_terminal_side};
inline constexpr IntRange k_process_timeout_range{1, base::k_max_process_timeout.count()};
/// The length limit of a short word: a frame's `type`, a signal's name, `stdin`, `restart`.
inline constexpr std::size_t k_max_process_word_bytes = 32;

/// When a process is started again. `generation`: in each new generation of its sandbox.
enum class Restart : std::uint8_t { never, generation };

struct ProcessForm {
    sandbox::ProcessSpec spec;  // without an id
    Restart restart = Restart::never;
};
/// Errors: invalid_field, unknown_field, invalid_env.
base::Result<ProcessForm> read_process_form(const Json& body);
/// `{signal}`. Errors: invalid_field, unknown_field.
base::Result<int> read_signal_form(const Json& body);
/// True if a process that is sent this signal by a client is not started again.
bool ends_for_good(int signal);
/// `{cols, rows}`. Errors: invalid_field, unknown_field.
base::Result<sandbox::TerminalSize> read_resize_form(const Json& body);

/// A text frame of a client that follows a process.
struct ProcessFrame {
    enum class Kind : std::uint8_t { signal, resize, eof };
    Kind kind = Kind::eof;
    int signal = 0;
    sandbox::TerminalSize size;
};
/// Errors: invalid_field, unknown_field.
base::Result<ProcessFrame> read_process_frame(const Json& body);

void write_process(base::JsonWriter& json, const sandbox::ProcessInfo& process, Restart restart);
/// Writes a process that is kept to be started again, and is not there now.
void write_stopped(base::JsonWriter& json, const sandbox::ProcessSpec& spec);
/// The members of an end: exitCode, signal, timedOut.
void write_exit(base::JsonWriter& json, const sandbox::RunExit& exit);

// The JSON frames for the followers of a process, beside its output. Bytes are counted over both streams.
/// Its output goes on at byte `from`.
std::string started_frame(pid_t pid, std::uint64_t from, sandbox::StreamKind kind);
std::string dropped_frame(std::uint64_t bytes);
/// `end`: how many bytes it has written.
std::string exit_frame(const sandbox::RunExit& exit, std::uint64_t end);

}  // namespace atl::http
