#include "bridge/guest/guest.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "bridge/agents/echo_agent.hpp"
#include "bridge/agents/process_agent.hpp"
#include "bridge/agents/shell_agent.hpp"
#include "bridge/guest/log.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr int k_exit_set_up_failed = 70;  // EX_SOFTWARE of sysexits.h
constexpr Millis k_accept_pause{50};

sigset_t served_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    return set;
}

}  // namespace

Guest::Guest(GuestOptions options)
    : options_(std::move(options)),
      leftovers_(loop_),
      services_{loop_, children_, leftovers_, options_.workspace},
      listener_(options_.listen_fd),
      listener_watch_(*this, &Guest::on_listener),
      signal_watch_(*this, &Guest::on_signal),
      log_watch_(*this, &Guest::on_log) {}

Guest::~Guest() = default;

int Guest::run() {
    if (!set_up()) {
        log("cannot set up its loop, or has no listening socket");
        return k_exit_set_up_failed;
    }
    return loop_.run();
}

bool Guest::set_up() {
    const sigset_t set = served_signals();
    if (!loop_.valid() || sigprocmask(SIG_BLOCK, &set, nullptr) != 0)
        return false;
    signal(SIGPIPE, SIG_IGN);
    signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockopt(listener_.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0)
        return false;
    // Only its error counts: the reading end of the log is gone, and with it the host (epoll_ctl(2),
    // EPOLLERR). A log that is no pipe cannot be watched and need not be.
    static_cast<void>(loop_.add(STDERR_FILENO, 0, log_watch_));
    return fcntl(listener_.get(), F_SETFD, FD_CLOEXEC) == 0 &&
           fcntl(listener_.get(), F_SETFL, O_NONBLOCK) == 0 &&
           loop_.add(listener_.get(), EPOLLIN, listener_watch_) &&
           loop_.add(signals_.get(), EPOLLIN, signal_watch_);
}

// A host that dies before it opens the control stream is told by nothing else.
void Guest::on_log() {
    loop_.remove(STDERR_FILENO);
    begin_stop();
}

// One connection an event: the usual case then costs no accept(2) that finds nothing.
void Guest::on_listener() {
    base::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_.remove(listener_.get());
            loop_.arm(k_accept_pause, [this] { loop_.add(listener_.get(), EPOLLIN, listener_watch_); });
        }
        return;
    }
    if (!is_host(socket.get()) || connections_.size() == k_max_guest_connections)
        return;
    connections_.push_back(
        std::make_unique<Connection>(std::move(socket), loop_, static_cast<ConnectionOwner&>(*this)));
    connections_.back()->open();
}

bool Guest::is_host(int socket) const {
    ucred peer{};
    socklen_t size = sizeof peer;
    return options_.peers == Peers::any ||
           (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0);
}

// kill(2) by a process outside the pid namespace shows pid 0. So do signals that the kernel sends for a
// process inside (fcntl(2) F_SETSIG, timers), but with another code, and signals whose details were lost to a
// full queue (sigqueue(3)), but with uid 0, which nobody has inside unless the guest itself has.
bool Guest::is_from_host(const signalfd_siginfo& info) {
    return info.ssi_code == SI_USER && info.ssi_pid == 0 && (info.ssi_uid != 0 || geteuid() == 0);
}

void Guest::on_signal() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            children_.reap_all();
        else if (info.ssi_signo == SIGTERM && (options_.peers == Peers::any || is_from_host(info)))
            begin_stop();
    }
}

void Guest::on_command(Connection& connection, std::string_view line) {
    struct Entry {
        std::string_view name;
        void (Guest::*run)(Connection&, Command&);
    };
    static constexpr Entry k_commands[] = {
        {bridge::cmd::query, &Guest::query},       {bridge::cmd::interrupt, &Guest::interrupt},
        {bridge::cmd::start, &Guest::start},       {bridge::cmd::agent, &Guest::agent},
        {bridge::cmd::shutdown, &Guest::shutdown},
    };
    std::optional<Command> command = parse_command(line);
    if (!command)
        return reply(connection, "not a command");
    for (const Entry& entry : k_commands)
        if (entry.name == command->name)
            return (this->*entry.run)(connection, *command);
    reply(connection, "unknown command");
}

void Guest::on_drained(Connection& connection) {
    if (connection.role == Connection::Role::query && agent_)
        agent_->resume(connection);
}

void Guest::on_closed(Connection& connection) {
    if (connection.role == Connection::Role::query && agent_)
        agent_->abandon(connection);
    // Closing is cancelling: an agent that nobody waits for is ended. One that is being stopped ends anyway.
    if (&connection == starter_ && !stopping_) {
        starter_ = nullptr;
        agent_state_ = AgentState::none;
        agent_.reset();
    }
    if (&connection == control_) {
        control_ = nullptr;
        log("the host is gone");
        loop_.stop(0);
    }
    loop_.defer([this, gone = &connection] {
        std::erase_if(connections_, [gone](const auto& entry) { return entry.get() == gone; });
    });
}

void Guest::start(Connection& connection, Command& command) {
    if (started_)
        return reply(connection, "already started");
    const std::optional<AgentChoice> choice = parse_agent(command.agent);
    if (!choice)
        return reply(connection, "start without an agent");
    agent_ = make_agent(*choice);
    if (!agent_ && choice->kind != bridge::agent_kind::none)
        return reply(connection, "unknown kind of agent");
    started_ = true;
    connection.role = Connection::Role::control;
    control_ = &connection;
    if (!agent_)
        return connection.write(bridge::k_reply_ok);
    launch_agent(connection);
}

void Guest::agent(Connection& connection, Command& command) {
    if (control_ == nullptr || stopping_)
        return reply(connection, stopping_ ? "the sandbox is ending" : "not started");
    if (agent_state_ != AgentState::none)
        return reply(connection, agent_state_ == AgentState::ready ? "an agent runs already"
                                                                   : "an agent is being started already");
    const std::optional<AgentChoice> choice = parse_agent(command.agent);
    if (!choice)
        return reply(connection, "no agent is named");
    std::unique_ptr<AgentRuntime> made = make_agent(*choice);
    if (!made)
        return reply(connection, "unknown kind of agent");
    agent_ = std::move(made);
    launch_agent(connection);
}

void Guest::launch_agent(Connection& starter) {
    agent_state_ = AgentState::starting;
    starter_ = &starter;
    agent_->start([this](const std::string& error) { started(error); },
                  [this](const std::string& detail) { agent_ended(detail); });
}

std::unique_ptr<AgentRuntime> Guest::make_agent(const AgentChoice& choice) {
    if (choice.kind == bridge::agent_kind::shell)
        return std::make_unique<ShellAgent>(services_);
    if (choice.kind == bridge::agent_kind::echo)
        return std::make_unique<EchoAgent>();
    if (choice.kind == bridge::agent_kind::command)
        return std::make_unique<ProcessAgent>(services_, choice.argv);
    return nullptr;
}

void Guest::started(const std::string& error) {
    agent_state_ = error.empty() ? AgentState::ready : AgentState::none;
    Connection* const starter = std::exchange(starter_, nullptr);
    if (starter == nullptr)
        return;
    if (starter != control_)
        return reply(*starter, error);
    starter->write(error.empty() ? std::string(bridge::k_reply_ok) : bridge::encode_refusal(error));
}

void Guest::agent_ended(const std::string& detail) {
    agent_state_ = AgentState::none;
    if (control_ != nullptr)
        control_->write(bridge::encode_agent_exit(detail));
}

void Guest::query(Connection& connection, Command& command) {
    connection.role = Connection::Role::query;
    if (!agent_) {
        connection.write(bridge::encode_error_event("no_agent", "no agent runs in this sandbox"));
        connection.write(bridge::k_done_line);
        return connection.finish();
    }
    agent_->begin(TurnRequest{std::move(command.turn), std::move(command.prompt), command.line}, connection);
}

void Guest::interrupt(Connection& connection, Command& command) {
    reply(connection, agent_ && agent_->interrupt(command.turn) ? "" : "no such turn");
}

void Guest::shutdown(Connection& connection, Command&) {
    reply(connection, {});
    begin_stop();
}

// The kernel ends whatever is left inside when process 1 exits (pid_namespaces(7)).
void Guest::begin_stop() {
    if (std::exchange(stopping_, true))
        return;
    if (!agent_)
        return loop_.stop(0);
    agent_->stop([this] { loop_.stop(0); });
}

/// One reply, then the stream is over. An empty `error` means it went well.
void Guest::reply(Connection& connection, std::string_view error) {
    connection.write(error.empty() ? std::string(bridge::k_reply_ok) : bridge::encode_refusal(error));
    connection.break_off();
}

}  // namespace atl::guest
