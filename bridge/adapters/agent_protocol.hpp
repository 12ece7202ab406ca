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
};

/// The beginning of a protocol.
struct ProtocolSettings {
    std::string mode;       // the recipe's; empty: the agent's own choice
    std::string session;    // of an earlier start; empty: none
    std::string directory;  // the agent works there: an absolute path
};

class AgentProtocol {
  public:
    AgentProtocol(ProtocolSettings settings, Wishes& wishes)
        : settings_(std::move(settings)), wishes_(wishes), events_(wishes.to_host) {}
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
    void agent_ended(std::string_view why) { events_.error("agent_failed", why); }
    /// A command of the guest, but shutdown.
    void command(const HostCommand& command);

    bool is_ready() const noexcept { return ready_; }

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
    /// `resumed`: the agent remembers the turns so far.
    enum class Memory : unsigned char { none, kept };
    void become_ready(Memory memory);
    /// Passes a request on to the host, which answers with a command. One that cannot be asked is cancelled
    /// at once. `request` comes back with the answer.
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
    void begin_waiting();
    void note_noise(std::size_t bytes);

    struct Permission {
        std::string tool;
        std::vector<PermissionOption> options;
        Json request;
    };

    void refuse(const Permission& permission);

    bool ready_ = false;
    Memory memory_ = Memory::none;
    std::optional<HostCommand> waiting_;             // a query that came before the end of an abandoned turn
    std::string past_;                               // goes before the next prompt
    std::size_t complaints_ = 0;                     // about lines, since the last turn began
    std::size_t noise_bytes_ = 0;                    // of lines that are none, until it is ready
    std::map<std::string, Permission> permissions_;  // those that wait, by the id of their event
};

}  // namespace atl::adapter
