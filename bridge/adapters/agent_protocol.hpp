// The protocol of an agent as a pure state machine: lines in, lines out. No I/O, no clock; every table is
// bounded, whatever the agent writes. acp.hpp and stream_json.hpp are the two.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bridge/adapters/host_command.hpp"
#include "bridge/adapters/turn_events.hpp"

namespace atl::adapter {

/// The wishes of a protocol; the driver takes them after each call.
struct Wishes {
    std::string to_agent;  // complete lines
    std::string to_host;   // complete lines
    std::string log;       // complete lines, for people
    std::string session;   // not empty: the agent's session, to be found again by its next start
    std::string failure;   // not empty: it cannot go on, and why
    bool settles = false;  // settled() is wanted in a while
    bool renews = false;   // the agent is to be started again, without its session: AgentProtocol::left()
};

/// A turn that the agent did not begin for want of its session, for the protocol of its next start.
struct LeftTurn {
    std::optional<HostCommand> query;
    std::string past;
    bool was_ready = false;  // the host knows
};

/// The beginning of a protocol.
struct ProtocolSettings {
    std::string mode;       // the recipe's; empty: the agent's own choice
    std::string session;    // of an earlier start; empty: none
    std::string directory;  // the agent works there: an absolute path
    LeftTurn left = {};     // by an earlier start without whose session this one is
};

class AgentProtocol {
  public:
    AgentProtocol(ProtocolSettings settings, Wishes& wishes)
        : settings_(std::move(settings)),
          wishes_(wishes),
          events_(wishes.to_host),
          is_announced_(settings_.left.was_ready),
          waiting_(std::move(settings_.left.query)),
          past_(std::move(settings_.left.past)) {}
    virtual ~AgentProtocol() = default;
    AgentProtocol(const AgentProtocol&) = delete;
    AgentProtocol& operator=(const AgentProtocol&) = delete;

    /// The agent runs. It is ready once `ready` is written.
    virtual void start() = 0;
    /// The while is over that `Wishes::settles` asked for.
    virtual void settled() {}
    /// A line of its stdout, without the newline.
    void agent_line(std::string_view line);
    /// A line beyond the bound is dropped; `head` is its beginning.
    void agent_long_line(std::string_view head);
    /// It has ended; `outline` is guest::JsonOutline::text() of it.
    void agent_long_line_end(std::string_view outline);
    /// It has ended, or is given up: an open turn gets an error, and no end.
    void agent_ended(std::string_view why);
    /// A command of the guest, but shutdown.
    void command(const HostCommand& command);

    bool is_ready() const noexcept { return ready_; }
    /// The open turn has failed, or the agent has ended in it. True: it is the first one since the agent took
    /// up its session, and told nothing yet, so that the session is to blame. The turn is then left to the
    /// next start; nothing of this one is told any more.
    bool leaves_turn(std::string_view why);
    /// That turn. Also of an agent that has ended without: then without a query.
    LeftTurn left();

  protected:
    virtual void on_object(const Json& object, std::string_view line) = 0;
    /// A line that was too long has the members `outline` (parse_outline()); `why` says so. A request in it
    /// is answered, and what waits for it goes on.
    virtual void on_outline(Json outline, const std::string& why) = 0;
    virtual void prompt(const std::string& text) = 0;
    /// The open turn is interrupted; those of its permissions that wait are cancelled already.
    virtual void interrupt() = 0;
    /// `option_id`: null where it is cancelled, else one of the request's.
    virtual void answer(const Json& request, const std::string* option_id) = 0;

    void send(const Json& object);
    void log(std::string_view text);
    /// The turns so far: the agent is told of them, or should remember them; proven: it has answered since.
    enum class Memory : unsigned char { none, kept, proven };
    void become_ready(Memory memory);
    /// Passes a request on to the host, which answers with a command. One that cannot be asked is cancelled
    /// at once, as is one without options, of which the host is told. `request` comes back with the answer.
    void ask(std::string_view tool_id, std::vector<PermissionOption> options, Json request);
    /// The agent withdraws requests for which `is_withdrawn` is true of the `request` that ask() got. True:
    /// there was one. It is not answered here.
    template <class Test>
    bool withdraw(Test is_withdrawn) {
        bool is_any = false;
        for (auto at = permissions_.begin(); at != permissions_.end();) {
            if (!is_withdrawn(at->second.request)) {
                ++at;
                continue;
            }
            events_.permission_cancel(at->first);
            at = permissions_.erase(at);
            is_any = true;
        }
        return is_any;
    }
    /// Also before a turn ends.
    void cancel_permissions();

    ProtocolSettings settings_;
    Wishes& wishes_;
    TurnEvents events_;

  private:
    bool can_begin() const noexcept { return ready_ && !is_left_ && !events_.is_open(); }
    void begin_turn(const HostCommand& query);
    void begin_waiting();
    void note_noise(std::size_t bytes);

    struct Permission {
        std::string tool;
        std::vector<PermissionOption> options;
        Json request;
    };

    void refuse(const Permission& permission);

    bool ready_ = false;
    bool is_announced_;  // the host knows that it is ready
    bool is_left_ = false;
    Memory memory_ = Memory::none;
    std::optional<HostCommand> query_;               // of the turn that leaves_turn() may leave
    std::optional<HostCommand> waiting_;             // a query before which something else has to end
    std::string past_;                               // the turns so far, until the agent has answered to one
    std::size_t complaints_ = 0;                     // about lines, since the last turn began
    std::size_t noise_bytes_ = 0;                    // of lines that are none, until it is ready
    std::map<std::string, Permission> permissions_;  // those that wait, by the id of their event
};

}  // namespace atl::adapter
