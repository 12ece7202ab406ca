// Attempts to drive or end process 1 of a sandbox.
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr int k_wait_ms = 2000;

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

/// What comes back for one command line: ANSWERED, CLOSED without a byte, SILENT, or the errno of the
/// connection.
std::string converse(const sockaddr_un& address, const std::string& line) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return outcome(-1);
    const std::string text = line + "\n";
    // The other side may be gone already; what it says until then counts.
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

/// forged-signals PID NUMBER: with a siginfo that says "from outside" in every code that a sender may choose.
void forged_signals(const Arguments& words) {
    const auto pid = static_cast<pid_t>(std::stol(words.at(0)));
    const int number = std::stoi(words.at(1));
    tell("user", queue(pid, number, SI_USER));
    tell("kernel", queue(pid, number, SI_KERNEL));
    tell("tkill", queue(pid, number, SI_TKILL));
    constexpr int k_unused_code = -60;
    constexpr int k_codes[] = {SI_QUEUE, SI_TIMER, SI_MESGQ, SI_ASYNCIO, SI_SIGIO, k_unused_code};
    for (const int code : k_codes)
        tell("code" + std::to_string(code), queue(pid, number, code));
}

}  // namespace

std::span<const Command> guest_commands() {
    static constexpr Command k_commands[] = {
        {"drive", drive}, {"signals", signals}, {"forged-signals", forged_signals}};
    return k_commands;
}

}  // namespace atl::probe
