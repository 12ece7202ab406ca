// The program that is process 1 in a sandbox: it serves the bridge, runs the agent, reaps everything. One
// thread, one loop. It trusts nobody inside: it takes commands and signals only from outside its pid
// namespace. When its control stream breaks, the host is gone and it ends, and with it the sandbox.
#pragma once

#include <sys/signalfd.h>

#include <memory>
#include <string>
#include <vector>

#include "bridge/agents/runtime.hpp"
#include "bridge/guest/command.hpp"
#include "bridge/guest/connection.hpp"

namespace atl::guest {

/// Who may give commands and send SIGTERM.
enum class Peers : std::uint8_t {
    outside,  // processes outside the pid namespace: SO_PEERCRED (unix(7)) and ssi_pid show them as 0
    any,      // tests, which share the guest's namespace
};

struct GuestOptions {
    int listen_fd = 3;  // listening Unix stream socket, given by the launcher
    Peers peers = Peers::outside;
    std::string workspace;
};

/// Host streams open at the same time; more are closed at once.
inline constexpr std::size_t k_max_guest_connections = 256;

class Guest final : private ConnectionOwner {
  public:
    /// Takes over the listening socket, SIGCHLD, SIGTERM and SIGPIPE of the process.
    explicit Guest(GuestOptions options);
    ~Guest();

    /// Serves until shutdown, SIGTERM or the loss of the control stream; returns the exit status.
    int run();

  private:
    /// Calls a member of the guest when a descriptor is ready.
    struct Watch final : FdHandler {
        Watch(Guest& in_guest, void (Guest::*in_call)()) : guest(in_guest), call(in_call) {}
        void on_ready(std::uint32_t) override { (guest.*call)(); }
        Guest& guest;
        void (Guest::*call)();
    };

    bool set_up();
    void on_listener();
    void on_signal();
    void on_log();
    bool is_host(int socket) const;
    static bool is_from_host(const signalfd_siginfo& info);

    void on_command(Connection& connection, std::string_view line) override;
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;

    void start(Connection& connection, Command& command);
    void agent(Connection& connection, Command& command);
    void query(Connection& connection, Command& command);
    void interrupt(Connection& connection, Command& command);
    void shutdown(Connection& connection, Command& command);

    std::unique_ptr<AgentRuntime> make_agent(const AgentChoice& choice);
    void launch_agent(Connection& starter);
    void started(const std::string& error);
    void agent_ended(const std::string& detail);
    void begin_stop();
    static void reply(Connection& connection, std::string_view error);

    GuestOptions options_;
    Loop loop_;
    Children children_;
    Leftovers leftovers_;
    Services services_;
    base::UniqueFd listener_;
    base::UniqueFd signals_;
    Watch listener_watch_;
    Watch signal_watch_;
    Watch log_watch_;
    std::vector<std::unique_ptr<Connection>> connections_;
    Connection* control_ = nullptr;
    bool started_ = false;
    bool stopping_ = false;
    /// An agent that ended or could not start stays until the next one: it still answers queries.
    enum class AgentState : std::uint8_t { none, starting, ready };
    AgentState agent_state_ = AgentState::none;
    Connection* starter_ = nullptr;        // gets the reply of the agent that is starting
    std::unique_ptr<AgentRuntime> agent_;  // uses what is above: goes first
};

}  // namespace atl::guest
