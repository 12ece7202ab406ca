// The program that is process 1 in a sandbox: it serves the bridge, runs the agent and other programs, reaps
// everything. One thread, one loop. What each command does is in a file of its own (guest_command.hpp). It
// trusts nobody inside: it takes commands and signals only from outside its pid namespace. When its control
// stream breaks, the host is gone and it ends, and with it the sandbox.
#pragma once

#include <sys/signalfd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bridge/guest/agent_command.hpp"
#include "bridge/guest/agent_slot.hpp"
#include "bridge/guest/connection.hpp"
#include "bridge/guest/dial_command.hpp"
#include "bridge/guest/exec_command.hpp"
#include "bridge/guest/files/file_command.hpp"
#include "bridge/guest/port_watch.hpp"
#include "bridge/guest/process_table.hpp"
#include "bridge/guest/query_command.hpp"
#include "bridge/guest/shutdown_command.hpp"
#include "bridge/guest/start_command.hpp"
#include "bridge/guest/tools/tool_command.hpp"

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
    std::string state_folder = "/run";  // Services::state_folder
    std::uint64_t max_processes = 0;    // that its own rlimit allows, itself included; 0: it has none
    std::chrono::milliseconds search_timeout = base::k_tool_search_timeout;  // Services::search_timeout
};

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
    void on_gone(Connection& connection) override;
    GuestCommand* find_command(std::string_view name);
    void begin_stop();

    GuestOptions options_;
    Loop loop_;
    Children children_;
    OrphanPipes orphan_pipes_;
    Services services_;
    base::UniqueFd listener_;
    base::UniqueFd signals_;
    Watch listener_watch_;
    Watch signal_watch_;
    Watch log_watch_;
    bool stopping_ = false;
    // Outlive the commands, which let go of them.
    std::vector<std::unique_ptr<Connection>> connections_;
    AgentSlot slot_;
    Strays strays_;
    PortWatch ports_;
    QueryCommand query_;
    InterruptCommand interrupt_;
    PermissionCommand permission_;
    StartCommand start_;
    AgentCommand agent_;
    ShutdownCommand shutdown_;
    ExecCommand exec_;
    DialCommand dial_;
    ProcessTable processes_;
    ProcessCommand process_;
    ProcessesCommand list_processes_;
    AttachCommand attach_;
    ControlCommand control_;
    FileCommand file_;
    ToolCommand tool_;
};

}  // namespace atl::guest
