// A started generation until its last process is gone: bwrap (our child) and process 1 of the sandbox
// (bwrap's child), each by pidfd. bwrap's status pipe says who process 1 is and whether the guest ever ran
// (bwrap(1), --json-status-fd). A sandbox without an owner is killed, and the launcher keeps it (Orphans)
// until its processes are reaped and its socket is removed.
// Not here: starting it (bubblewrap_launcher.cpp).
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/bridge_socket.hpp"
#include "core/isolation/inner_socket.hpp"
#include "core/isolation/log_pipe.hpp"
#include "core/isolation/socket_maker.hpp"
#include "core/isolation/spawn.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {

/// Launches in which bwrap ended before the guest ran, by their reason.
struct LaunchFailures {
    std::uint64_t filters_refused = 0;  // the kernel's memory for compiled filters is used up
    std::uint64_t other = 0;
    bool no_listeners = false;  // the host forbids sockets of the server inside a sandbox
};

/// The parts of a running sandbox.
struct Started {
    Spawned bwrap;
    BridgeSocket socket;
    base::UniqueFd log;     // reading end, non-blocking
    base::UniqueFd status;  // reading end, non-blocking
    sandbox::NetworkMode network = sandbox::NetworkMode::none;
    std::shared_ptr<LaunchFailures> failures;
    std::filesystem::path socket_program;  // atoll-zygote, where sockets inside need it; empty: they do not
};

class RunningSandbox : public std::enable_shared_from_this<RunningSandbox> {
  public:
    /// Calls `on_exit` once, when the last process is gone.
    RunningSandbox(const base::Executor& executor, base::Timers& timers, Started started,
                   std::function<void(sandbox::Exit)> on_exit);
    ~RunningSandbox();

    /// Starts watching. Call once, right after construction.
    void watch();
    /// From now on `on_exit` is called instead of the callback of the constructor.
    void replace_exit_handler(std::function<void(sandbox::Exit)> on_exit) { on_exit_ = std::move(on_exit); }
    bool has_ended() const noexcept { return ended_; }
    void terminate();
    void kill();

    const std::string& bridge_path() const noexcept { return socket_.path(); }
    /// Process 1 of the sandbox as the host numbers it; bwrap while that is not known yet.
    pid_t pid() const noexcept { return init_pid_ > 0 ? init_pid_ : bwrap_pid_; }
    std::string log_tail() const { return log_.tail(); }
    /// These functions do what sandbox::Process says.
    std::optional<std::uint32_t> sockets();
    std::optional<std::uint32_t> netlink_sockets();
    std::uint32_t closed_lately() const;
    base::Result<sandbox::InnerSocket> connect(std::uint16_t port);
    bool can_connect() const;
    void await_connect(std::function<void()> ready);
    using Listening = std::function<void(base::Result<sandbox::InnerListener>)>;
    /// With a null `done` nobody is told any more.
    void listen(std::uint16_t port, Listening done);
    void on_log(std::function<void(std::string_view)> on_text) { log_.on_text(std::move(on_text)); }

  private:
    void await_status();
    void read_status();
    void parse_status();
    void adopt_init(pid_t pid);
    void on_bwrap_gone();
    void on_init_gone();
    void end_if_gone();
    sandbox::Exit describe_exit() const;
    base::UniqueFd open_net(const char* name) const;
    bool filters_refused() const;
    MakeInnerSocket maker();
    void make_listener();
    void make_listener_later();
    bool host_forbids(const base::Error& error) const;
    sandbox::Exit failed_setup() const;

    base::Executor executor_;
    base::Timers& timers_;
    std::function<void(sandbox::Exit)> on_exit_;
    pid_t bwrap_pid_;
    pid_t init_pid_ = -1;
    base::FdWatch bwrap_;
    std::optional<base::FdWatch> status_;
    std::optional<base::FdWatch> init_;
    LogPipe log_;
    BridgeSocket socket_;
    std::shared_ptr<LaunchFailures> failures_;
    std::string status_text_;
    sandbox::NetworkMode network_;
    std::shared_ptr<std::uint32_t> our_sockets_ = std::make_shared<std::uint32_t>(0);  // of connect()
    // When those that ended lately did.
    std::shared_ptr<std::deque<base::SteadyTime>> closed_ = std::make_shared<std::deque<base::SteadyTime>>();
    Listening on_listening_;  // until it has been told
    std::uint16_t listen_port_ = 0;
    std::filesystem::path socket_program_;
    bool lacks_helper_ = false;                  // it could not be started
    std::unique_ptr<SocketMaker> socket_maker_;  // once somebody looked at a port, where it is needed
    base::UniqueFd sockstat_;  // of the sandbox's net namespace, which the open file keeps alive
    std::optional<base::ChildExit> bwrap_exit_;
    std::optional<int> guest_status_;  // from bwrap; set: the guest ran
    base::TimerId kill_timer_ = 0;
    bool kill_wanted_ = false;
    bool terminate_wanted_ = false;
    bool init_gone_ = false;
    bool ended_ = false;
};

/// Sandboxes that still have processes after their Process object was destroyed.
class Orphans : public std::enable_shared_from_this<Orphans> {
  public:
    /// Kills `running` and keeps it to its end.
    void adopt(const std::shared_ptr<RunningSandbox>& running);
    /// Stops waiting for all of them: the server ends, and the next server finds the processes that did not
    /// die.
    void let_go() { kept_.clear(); }

  private:
    std::set<std::shared_ptr<RunningSandbox>> kept_;
};

}  // namespace atl::isolation
