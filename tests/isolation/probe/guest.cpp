// Attempts to drive or end process 1 of a sandbox.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr int k_wait_ms = 60'000;

struct Line {
    const char* name;
    const char* text;
};
constexpr Line k_lines[] = {
    {"interrupt", R"({"cmd":"interrupt","turn":"no-such-turn"})"},
    {"query", R"({"cmd":"query","turn":"probe","prompt":"echo driven","options":{}})"},
    {"start", R"({"cmd":"start","agent":{"kind":"shell"}})"},
    {"nonsense", R"({"cmd":"nonsense"})"},
    {"shutdown", R"({"cmd":"shutdown"})"},
};

/// The answer to one command line: ANSWERED, CLOSED without a byte, SILENT, or the errno of the connection.
std::string converse(const sockaddr_un& address, const std::string& line) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return outcome(-1);
    const std::string text = line + "\n";
    // The other side may be gone already; its answer until then counts.
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    pollfd waiting{fd, POLLIN, 0};
    char byte = 0;
    std::string result = "SILENT";
    if (sent < 0 || ::poll(&waiting, 1, k_wait_ms) == 1)
        result = ::recv(fd, &byte, 1, 0) > 0 ? "ANSWERED" : "CLOSED";
    ::close(fd);
    return result;
}

/// drive SOCKET [COMMAND]: all commands, or one of them.
void drive(const Arguments& words) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& path = words.at(0);
    if (path.size() >= sizeof address.sun_path)
        give_up("the path is too long: " + path);
    ::memcpy(address.sun_path, path.data(), path.size());
    for (const Line& line : k_lines) {
        if (words.size() == 1 || words[1] == line.name)
            say(line.name, converse(address, line.text));
    }
}

/// signals PID: each of them, as kill(2) sends it.
void signals(const Arguments& words) {
    const auto pid = static_cast<pid_t>(std::stol(words.at(0)));
    for (int number = 1; number <= SIGRTMAX; ++number)
        tell(std::to_string(number), ::kill(pid, number));
}

long queue(pid_t pid, int number, int code) {
    siginfo_t info{};
    info.si_signo = number;
    info.si_code = code;
    info.si_pid = 0;  // as the kernel writes it for a sender outside the pid namespace
    info.si_uid = 0;
    return ::syscall(SYS_rt_sigqueueinfo, pid, number, &info);
}

/// The target of an attempt: a pid, or `child`, a process of this one that the attempt should end, as the
/// control.
class Target {
  public:
    explicit Target(const std::string& word)
        : is_child_(word == "child"), pid_(is_child_ ? ::fork() : std::stoi(word)) {
        if (pid_ == 0) {
            for (;;)
                ::pause();
        }
        if (pid_ < 0)
            give_up("no child");
    }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    ~Target() {
        if (!is_child_)
            return;
        ::kill(pid_, SIGKILL);
        int status = 0;
        if (::waitpid(pid_, &status, 0) == pid_)
            say("ended", signal_name(WTERMSIG(status)));
    }
    pid_t pid() const { return pid_; }
    /// Gives a child the time to end by a signal that it was sent: SIGKILL is delivered before all others.
    void await_end() const {
        const int pidfd = is_child_ ? static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)) : -1;
        pollfd waiting{pidfd, POLLIN, 0};
        if (pidfd >= 0)
            ::poll(&waiting, 1, k_wait_ms);
        ::close(pidfd);
    }

  private:
    bool is_child_;
    pid_t pid_;
};

/// forged-signal TARGET: SIGTERM with a siginfo that says "from outside" in every code that a sender may
/// choose.
void forged_signal(const Arguments& words) {
    const Target target(words.at(0));
    tell("user", queue(target.pid(), SIGTERM, SI_USER));
    tell("kernel", queue(target.pid(), SIGTERM, SI_KERNEL));
    tell("tkill", queue(target.pid(), SIGTERM, SI_TKILL));
    constexpr int k_unused_code = -60;
    constexpr int k_codes[] = {SI_QUEUE, SI_TIMER, SI_MESGQ, SI_ASYNCIO, SI_SIGIO, k_unused_code};
    for (const int code : k_codes)
        tell("code" + std::to_string(code), queue(target.pid(), SIGTERM, code));
    target.await_end();
}

/// kernel-signal TARGET: a pipe whose data the kernel reports to the target with SIGTERM, so the signal has
/// no sender.
void kernel_signal(const Arguments& words) {
    const Target target(words.at(0));
    int ends[2];
    if (::pipe(ends) != 0)
        give_up("no pipe");
    tell("owner", ::fcntl(ends[0], F_SETOWN, target.pid()));
    tell("signal", ::fcntl(ends[0], F_SETSIG, SIGTERM));
    tell("async", ::fcntl(ends[0], F_SETFL, O_ASYNC));
    tell("data", ::write(ends[1], "x", 1));
    target.await_end();
}

/// bare-signal TARGET: with the uid's quota of queued signals used up, a signal loses its siginfo: it then
/// looks like one of kill(2) by process 0 of uid 0.
void bare_signal(const Arguments& words) {
    const Target target(words.at(0));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    long queued = 0;
    while (queue(::getpid(), SIGRTMIN, SI_QUEUE) == 0)
        ++queued;
    say("full", outcome(-1));
    tell("bare", queue(target.pid(), SIGTERM, SI_QUEUE));
    target.await_end();
}

/// limit TARGET: the bounds with which a process would no longer work.
void limit(const Arguments& words) {
    const Target target(words.at(0));
    struct Bound {
        const char* name;
        __rlimit_resource resource;
        rlim_t value;
    };
    constexpr Bound k_bounds[] = {{"cpu", RLIMIT_CPU, 1},
                                  {"descriptors", RLIMIT_NOFILE, 0},
                                  {"memory", RLIMIT_AS, 4096},
                                  {"signals", RLIMIT_SIGPENDING, 0}};
    for (const Bound& bound : k_bounds) {
        const rlimit wanted{bound.value, bound.value};
        tell(bound.name, ::prlimit(target.pid(), bound.resource, &wanted, nullptr));
    }
}

}  // namespace

std::span<const Command> guest_commands() {
    static constexpr Command k_commands[] = {{"drive", drive},
                                             {"signals", signals},
                                             {"forged-signal", forged_signal},
                                             {"kernel-signal", kernel_signal},
                                             {"bare-signal", bare_signal},
                                             {"limit", limit}};
    return k_commands;
}

}  // namespace atl::probe
