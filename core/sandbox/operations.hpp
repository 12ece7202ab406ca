// What the server does inside a living sandbox beside its agent's turns: a port next to Channel (ports.hpp),
// whose rules hold here, too. An operation lives as long as the object that stands for it: destroying it
// cancels it, and no callback of it is called any more. Observers outlive their operations; they may destroy
// them in any call. What the sandbox sends is passed on only as fast as the observer takes it.
//
// Not here: files, tools, and processes that outlive whoever started them (bridge/README.md says where they
// fit).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

/// A program to run. One of `command` and `argv` is given. All text is UTF-8 without NUL characters.
struct RunSpec {
    enum class Stdin : std::uint8_t { none, pipe };

    std::optional<std::string> command;    // for bash -c
    std::vector<std::string> argv;         // argv[0] is looked up in PATH unless it holds a slash
    std::string directory;                 // as seen inside; relative to the workspace, which empty means
    Environment env;                       // beside and in place of the sandbox's
    std::chrono::milliseconds timeout{0};  // then SIGTERM and SIGKILL for its process group; 0: none
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

class RunObserver {
  public:
    virtual ~RunObserver() = default;
    /// The program runs. `pid` as seen inside.
    virtual void on_started(pid_t pid) = 0;
    /// Valid during the call.
    virtual void on_output(OutputKind kind, std::string_view bytes) = 0;
    /// After a write() that took less than all: there is room again.
    virtual void on_input_room() {}
    /// Last call: the program has ended, and all output came before. What it left in the background may live.
    virtual void on_exit(const RunExit& exit) = 0;
    /// Last call: it did not start, or what became of it is not known. invalid_field: what the spec asks for
    /// is not there; capacity: no room for another process; sandbox_failed; bridge_failed: the guest broke
    /// the protocol or is gone; deadline_exceeded.
    virtual void on_failed(const base::Error& error) = 0;
    /// True while no more output is wanted; Run::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// A program that runs. Destroying it ends its process group, SIGTERM first, SIGKILL a second later.
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
    virtual void on_room() {}
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
    /// Returns how many bytes were taken; if not all, on_room() follows. None before on_open().
    virtual std::size_t write(std::string_view bytes) = 0;
    /// No write follows: the peer sees the end behind what was written. Precondition: on_open() was called.
    virtual void close_write() = 0;
    /// After DialObserver::is_full().
    virtual void resume() = 0;
};

/// Of one generation. What it made may outlive it, and ends with the generation.
class Operations {
  public:
    virtual ~Operations() = default;
    virtual std::unique_ptr<Run> run(const RunSpec& spec, RunObserver& observer) = 0;
    virtual std::unique_ptr<Dial> dial(std::uint16_t port, DialObserver& observer) = 0;
};

}  // namespace atl::sandbox
