#include "bridge/guest/guest.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "bridge/guest/log.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

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
      orphan_pipes_(loop_),
      services_{loop_,
                children_,
                orphan_pipes_,
                options_.workspace,
                options_.state_folder,
                options_.search_timeout},
      listener_(options_.listen_fd),
      listener_watch_(*this, &Guest::on_listener),
      signal_watch_(*this, &Guest::on_signal),
      log_watch_(*this, &Guest::on_log),
      strays_(loop_, children_, options_.max_processes),
      ports_(loop_, children_),
      query_(slot_, strays_),
      interrupt_(slot_),
      permission_(slot_),
      start_(services_, slot_, ports_),
      agent_(services_, slot_, start_),
      shutdown_([this] { begin_stop(); }),
      exec_(services_),
      dial_(loop_),
      processes_(services_),
      process_(services_, processes_),
      list_processes_(processes_),
      attach_(processes_),
      control_(processes_),
      file_(loop_, options_.workspace),
      tool_(services_) {}

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
    // A file beyond RLIMIT_FSIZE is an error of its write. What the guest starts has the default again.
    signal(SIGXFSZ, SIG_IGN);
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

// Each event accepts one connection: the usual case then costs no accept(2) that finds nothing.
void Guest::on_listener() {
    base::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_.remove(listener_.get());
            loop_.arm(k_accept_pause, [this] { loop_.add(listener_.get(), EPOLLIN, listener_watch_); });
        }
        return;
    }
    if (!is_host(socket.get()) || connections_.size() == base::k_max_guest_connections)
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

GuestCommand* Guest::find_command(std::string_view name) {
    const std::pair<std::string_view, GuestCommand*> table[] = {
        {bridge::cmd::query, &query_},       {bridge::cmd::interrupt, &interrupt_},
        {bridge::cmd::exec, &exec_},         {bridge::cmd::dial, &dial_},
        {bridge::cmd::start, &start_},       {bridge::cmd::agent, &agent_},
        {bridge::cmd::process, &process_},   {bridge::cmd::processes, &list_processes_},
        {bridge::cmd::attach, &attach_},     {bridge::cmd::control, &control_},
        {bridge::cmd::file, &file_},         {bridge::cmd::tool, &tool_},
        {bridge::cmd::shutdown, &shutdown_}, {bridge::cmd::permission, &permission_},
    };
    for (const auto& [known, command] : table)
        if (known == name)
            return command;
    return nullptr;
}

void Guest::on_command(Connection& connection, std::string_view line) {
    std::optional<Command> command = parse_command(line);
    if (!command)
        return refuse(connection, "not a command");
    GuestCommand* const found = find_command(command->name);
    if (found == nullptr)
        return refuse(connection, "unknown command");
    connection.follow(found);
    found->begin(connection, *command);
    ports_.stir();
}

void Guest::on_gone(Connection& connection) {
    loop_.defer([this, gone = &connection] {
        std::erase_if(connections_, [gone](const auto& entry) { return entry.get() == gone; });
    });
}

// The kernel ends whatever is left inside when process 1 exits (pid_namespaces(7)).
void Guest::begin_stop() {
    if (std::exchange(stopping_, true))
        return;
    slot_.stop([this] { loop_.stop(0); });
}

}  // namespace atl::guest
