// Work of the server inside a living sandbox beside its agent's turns: a port next to Channel (ports.hpp),
// whose rules hold here, too. An operation lives as long as the object that stands for it: destroying it
// cancels it, and no callback of it is called any more. Observers outlive their operations; they may destroy
// them in any call. What the sandbox sends is passed on only as fast as the observer takes it.
//
// Not here: files and tools (calls.hpp), what a watch tells (file_changes.hpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/calls.hpp"
#include "core/sandbox/file_changes.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// A program to run. One of `command` and `argv` is given. All text is UTF-8 without NUL characters.
struct RunSpec {
    enum class Stdin : std::uint8_t { none, pipe };

    std::optional<std::string> command;    // for bash -c
    std::vector<std::string> argv;         // argv[0] is looked up in PATH unless it holds a slash
    std::string directory;                 // as seen inside; relative to the workspace, which empty means
    Environment env;                       // beside and in place of the sandbox's
    std::chrono::milliseconds timeout{0};  // then SIGTERM and SIGKILL for all that it started; 0: none
    Stdin stdin_kind = Stdin::none;        // none: /dev/null
};

/// How a program ended.
struct RunExit {
    int code = 0;    // as given to exit(3)
    int signal = 0;  // that ended it, then the code is 0; 0: none
    bool timed_out = false;

    bool operator==(const RunExit&) const = default;
};

enum class OutputKind : std::uint8_t { standard, error };
/// The kind of a program's input and output.
enum class StreamKind : std::uint8_t { pipes, terminal };

struct TerminalSize {
    std::uint16_t columns = 80;
    std::uint16_t rows = 24;

    bool operator==(const TerminalSize&) const = default;
};

class RunObserver {
  public:
    virtual ~RunObserver() = default;
    /// The program runs. `pid` as seen inside.
    virtual void on_started(pid_t pid) = 0;
    /// Valid during the call.
    virtual void on_output(OutputKind kind, std::string_view bytes) = 0;
    /// After a write() that took less than all there is room again; or all that was written has been passed
    /// on to the program.
    virtual void on_input_room() {}
    /// Attached process, after on_started(): its output continues at byte `from`.
    virtual void on_position(std::uint64_t /*from*/, StreamKind /*kind*/) {}
    /// Attached process: `bytes` of output were dropped at this position.
    virtual void on_dropped(std::uint64_t /*bytes*/) {}
    /// Last call: the program has ended, and all output came before. What it left in the background may live.
    virtual void on_exit(const RunExit& exit) = 0;
    /// Last call: it did not start, or what became of it is not known. invalid_field: what the spec asks for
    /// is not there; too_many_processes: its limit allows no other one; capacity: no room for another
    /// program; sandbox_failed; bridge_failed: the guest broke the protocol or is gone; deadline_exceeded.
    virtual void on_failed(const base::Error& error) = 0;
    /// True while no more output is wanted; Run::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// A program that runs. Destroying it ends it and all that it started, SIGTERM first, SIGKILL a second later.
class Run {
  public:
    virtual ~Run() = default;
    /// Returns how many bytes were taken for stdin; if not all, on_input_room() follows when there is room.
    /// None before on_started(). After close_input(), and when the program has closed its stdin, all are
    /// taken and dropped.
    virtual std::size_t write(std::string_view bytes) = 0;
    /// End of file behind what was written. Precondition: on_started() was called.
    virtual void close_input() = 0;
    /// To the process group; nothing happens before on_started() and after its end. 1 <= `number` <= 64.
    virtual void signal(int number) = 0;
    /// Bytes that write() took and that have not been passed on to the program yet.
    virtual std::size_t waiting_input_bytes() const { return 0; }
    /// Resizes the terminal of an attached process; nothing happens to a process without one.
    virtual void resize(const TerminalSize& /*size*/) {}
    /// After RunObserver::is_full().
    virtual void resume() = 0;
};

class DialObserver {
  public:
    virtual ~DialObserver() = default;
    virtual void on_open() = 0;
    /// Valid during the call.
    virtual void on_bytes(std::string_view bytes) = 0;
    /// After a write() that took less than all: there is room again.
    virtual void on_writable() {}
    /// The peer inside sends no more; it may still read.
    virtual void on_eof() = 0;
    /// Last call: both directions are at their end, or the connection could not be made or broke. Errors:
    /// invalid_field for a port that may not be dialled; sandbox_failed: nothing listens; bridge_failed;
    /// deadline_exceeded.
    virtual void on_end(const base::Result<void>& result) = 0;
    /// True while no more bytes are wanted; Dial::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// A connection to a port of the sandbox's loopback. Destroying it closes it; what was not sent yet is lost.
class Dial {
  public:
    virtual ~Dial() = default;
    /// Returns how many bytes were taken; if not all, on_writable() follows. None before on_open().
    virtual std::size_t write(std::string_view bytes) = 0;
    /// No write follows: the peer sees the end behind what was written. Precondition: on_open() was called.
    virtual void close_write() = 0;
    /// After DialObserver::is_full().
    virtual void resume() = 0;
};

/// A process that lives on without whoever started it, until it ends or its generation does.
struct ProcessSpec {
    std::string id;   // of the caller's, never used again; at most 64 bytes
    std::string tag;  // empty: none
    RunSpec program;
    std::optional<TerminalSize> terminal;  // then `program.stdin_kind` says nothing
};

/// A process that runs, or has ended and is still kept, in the words of the sandbox.
struct ProcessInfo {
    std::string id;
    std::string tag;
    pid_t pid = 0;
    std::optional<std::string> command;
    std::vector<std::string> argv;
    std::string directory;
    Environment env;
    std::optional<TerminalSize> terminal;
    std::chrono::milliseconds started{0};  // since the epoch
    std::uint64_t first_byte = 0;          // of its output, that is kept
    std::uint64_t end_byte = 0;
    std::optional<RunExit> exit;  // of one that has ended
};

/// A request to a process beside its input. Several members are carried out in their order.
struct ProcessControl {
    enum class Input : std::uint8_t { keep, end };

    std::optional<TerminalSize> size;
    int signal = 0;  // 0: none; to its group, and to the foreground group of its terminal; SIGKILL to its
                     // whole session
    Input input = Input::keep;
};

/// A question that is on its way. Destroying it cancels the answer, not what was asked.
class Question {
  public:
    virtual ~Question() = default;
};
template <class T>
using Answer = std::function<void(base::Result<T>)>;

/// Makes operations inside one generation. What it made may outlive it and the generation, and may be
/// destroyed at any time: it reaches no other sandbox, and its connection breaks when the guest is gone
/// (bridge_failed; a Dial is told on_eof(), and its end at the next write). Processes that survive their end
/// (unkillable_list.hpp) keep the connection, so an owner that waits goes by the end of the generation or of
/// its lease, too. An answer comes once, from the loop; errors of all: bridge_failed, deadline_exceeded.
class Operations {
  public:
    virtual ~Operations() = default;
    /// Answers with the pid as seen inside. Errors: invalid_field, too_many_processes, capacity,
    /// sandbox_failed.
    virtual std::unique_ptr<Question> start_process(const ProcessSpec& spec, Answer<pid_t> answer) = 0;
    /// All that are there, or the one of `id`, which may be none; those that ended are there for a time.
    virtual std::unique_ptr<Question> list_processes(const std::string& id,
                                                     Answer<std::vector<ProcessInfo>> answer) = 0;
    /// Errors: not_found, process_ended, invalid_field.
    virtual std::unique_ptr<Question> control_process(const std::string& id, const ProcessControl& control,
                                                      Answer<void> answer) = 0;
    /// Follows a process, from byte `after` of its output on, to its end. Destroying the Run leaves the
    /// process as it is. Failures, beside those of run(): not_found.
    virtual std::unique_ptr<Run> attach(const std::string& id, std::uint64_t after,
                                        RunObserver& observer) = 0;
    /// The same for the sake of its stdin: nothing is told of its output. Failures, beside those of attach():
    /// process_ended; invalid_field: it has no stdin, or that is at its end.
    virtual std::unique_ptr<Run> feed(const std::string& id, RunObserver& observer) = 0;
    virtual std::unique_ptr<Run> run(const RunSpec& spec, RunObserver& observer) = 0;
    virtual std::unique_ptr<Dial> dial(std::uint16_t port, DialObserver& observer) = 0;
    virtual std::unique_ptr<Call> call(const CallSpec& spec, CallObserver& observer) = 0;
    /// Tells what changes in the workspace, whoever changes it.
    virtual std::unique_ptr<Watch> watch(WatchObserver& observer) = 0;
};

}  // namespace atl::sandbox
