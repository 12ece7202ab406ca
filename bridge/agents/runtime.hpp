// The interfaces between the guest and an agent, in both directions. Everything runs on the guest's loop;
// nothing blocks. A turn's sink is the host's stream: an agent uses it from begin() until it calls finish()
// or break_off(), or abandon() is called, whichever is first, and never after.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "bridge/guest/children.hpp"
#include "bridge/guest/loop.hpp"
#include "bridge/guest/orphan_pipes.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {

/// Where the events of one turn go.
class TurnSink {
  public:
    /// Complete lines with their newlines. Never refused: unread lines are queued.
    virtual void write(std::string_view lines) = 0;
    /// False while much is queued: then produce no more until resume().
    virtual bool wants_more() const = 0;
    /// The turn is over and `done` was written. The stream is then free for the host's next command.
    virtual void finish() = 0;
    /// The turn is over without `done`: closes the stream after the lines that were written.
    virtual void break_off() = 0;

  protected:
    ~TurnSink() = default;
};

struct TurnRequest {
    std::string turn;
    std::string prompt;
    std::string_view line;  // the host's command as it came, without the newline; valid during begin()
};

/// The services that every agent may use.
struct Services {
    Loop& loop;
    Children& children;
    OrphanPipes& orphan_pipes;
    std::string workspace;
    std::string state_folder;  // writable, on a tmpfs: for small files that live as long as a turn
    std::chrono::milliseconds search_timeout = base::k_tool_search_timeout;  // of a tool that searches
};

/// no_room: the sandbox is at its limit of processes, and the turn has not begun.
enum class Begun : std::uint8_t { yes, no_room };

class AgentRuntime {
  public:
    using OnReady = std::function<void(std::string error)>;  // empty: ready
    using OnExit = std::function<void(std::string detail)>;  // follows "the agent"

    /// Before it is ready (a program that starts is killed), after its end, or when the guest ends.
    virtual ~AgentRuntime() = default;
    /// Once, first. `on_ready` is called once, possibly at once; `on_exit` at most once, after a good ready.
    virtual void start(OnReady on_ready, OnExit on_exit) = 0;
    /// A turn begins; it may be over when this returns. After no_room nothing was written to the sink, and
    /// the same turn may be begun again.
    virtual Begun begin(const TurnRequest& request, TurnSink& sink) = 0;
    /// The host has read the lines that were queued for `sink`.
    virtual void resume(TurnSink& sink) = 0;
    /// The host closed the stream: interrupts the command of the turn and drops its output.
    virtual void abandon(TurnSink& sink) = 0;
    /// False if no turn of that name runs. It still ends with `done`.
    virtual bool interrupt(std::string_view turn) = 0;
    /// The host's answer to a permission that the agent asked for: its line as it came, without the newline.
    /// False if no turn of that name runs, or the agent asks for none.
    virtual bool permit(std::string_view turn, std::string_view line) {
        static_cast<void>(turn);
        static_cast<void>(line);
        return false;
    }
    /// Ends the agent's processes, by force within k_stop_grace + k_kill_grace, then calls `on_stopped`,
    /// possibly at once.
    virtual void stop(std::function<void()> on_stopped) = 0;
};

/// From stop() an agent has this long before SIGTERM,
inline constexpr Millis k_stop_grace{500};
/// and this long from there until SIGKILL.
inline constexpr Millis k_kill_grace{1000};
/// An interrupted command has this long from SIGINT to SIGTERM, and k_kill_grace from there until SIGKILL.
inline constexpr Millis k_interrupt_grace{2000};

}  // namespace atl::guest
