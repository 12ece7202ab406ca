#include "tests/isolation/outside.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "core/base/ids.hpp"
#include "core/base/pidfd.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/paths.hpp"

namespace atl::test {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* k_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Started {
    pid_t pid = -1;
    base::UniqueFd output;
};

[[noreturn]] void become(const std::vector<char*>& words, int output, uid_t uid) {
    std::array<char*, 2> environment{const_cast<char*>(k_path), nullptr};
    ::dup2(output, 1);
    ::close(0);
    ::open("/dev/null", O_RDONLY);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    if (uid != ::geteuid() &&
        (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0))
        ::_exit(126);
    // After the change of user, which clears it (prctl(2)).
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvpe(words[0], words.data(), environment.data());
    ::_exit(127);
}

Started start(const Words& command, uid_t uid) {
    std::vector<char*> words;
    for (const auto& word : command)
        words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    if (pid == 0)
        become(words, ends[1], uid);
    ::close(ends[1]);
    REQUIRE(pid > 0);
    return {pid, base::UniqueFd(ends[0])};
}

/// More of the output; false at its end.
bool read_more(const base::UniqueFd& output, std::string& text, Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{output.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) != 1)
        FAIL("a program of the host did not end in time; it wrote: " << text);
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(output.get(), buffer.data(), buffer.size());
    text.append(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    return count > 0;
}

Words with_probe(const Words& arguments) {
    Words command{probe_program().string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
}

std::string text_of(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* bytes =
        address.sa_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
            : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr ? text.data() : "";
}

/// tcp:0:ADDRESS of every address of the host that needs no interface to be named with it.
Words tcp_endpoints() {
    Words made;
    ifaddrs* first = nullptr;
    REQUIRE(::getifaddrs(&first) == 0);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr ||
            (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6))
            continue;
        const std::string text = text_of(*entry->ifa_addr);
        if (!text.starts_with("fe80:"))
            made.push_back("tcp:0:" + text);
    }
    ::freeifaddrs(first);
    return made;
}

Words service_command(const fs::path& socket_path) {
    Words command =
        with_probe({"serve", "unix:" + socket_path.string(), "abstract:atoll-test-" + base::new_id()});
    for (const auto& endpoint : tcp_endpoints())
        command.push_back(endpoint);
    return command;
}

}  // namespace

const fs::path& probe_program() {
    static const TempDir folder;
    static const fs::path copy = [] {
        const std::string probe = build_path("probe/probe");
        const fs::path to = folder.path() / "probe";
        std::error_code error;
        fs::copy_file(probe, to, error);
        if (error)
            FAIL("there is no probe at " << probe << ": " << error.message());
        fs::permissions(to, fs::perms(0755));
        return to;
    }();
    return copy;
}

uid_t ordinary_uid() {
    return is_root() ? k_rootless_uid : ::geteuid();
}

RunResult run_outside(const Words& command, uid_t uid) {
    const Started started = start(command, uid);
    RunResult result;
    const auto deadline = Clock::now() + k_client_deadline;
    while (read_more(started.output, result.output, deadline)) {
    }
    int status = 0;
    REQUIRE(::waitpid(started.pid, &status, 0) == started.pid);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

Results outside(const Words& arguments, uid_t uid) {
    const RunResult run = run_outside(with_probe(arguments), uid);
    INFO("the probe outside, " << arguments.front() << ", printed: " << run.output);
    REQUIRE(run.status == 0);
    return Results(run.output);
}

HostProcess::HostProcess(const Words& command, uid_t uid) {
    Started started = start(command, uid);
    pid_ = started.pid;
    output_ = std::move(started.output);
    auto pidfd = base::open_pidfd(pid_);
    REQUIRE(pidfd.has_value());
    pidfd_ = std::move(*pidfd);
}

HostProcess::~HostProcess() {
    base::send_signal(pidfd_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

bool HostProcess::is_alive() const {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0;
}

std::string HostProcess::read_until(const std::string& start) {
    std::string text;
    const auto deadline = Clock::now() + k_client_deadline;
    while (true) {
        const auto at = text.starts_with(start) ? 0 : text.find("\n" + start);
        if (at != std::string::npos && text.find('\n', at + 1) != std::string::npos)
            return text;
        if (!read_more(output_, text, deadline))
            FAIL("a program of the host ended before it was ready; it wrote: " << text);
    }
}

HostServices::HostServices()
    : socket_path_(folder_.path() / "host-secret.sock"),
      process_(service_command(socket_path_), ::geteuid()) {
    for (const auto& name : Results(process_.read_until("serving ")).with("OK"))
        endpoints_.push_back(name);
    REQUIRE_FALSE(port().empty());
}

std::string HostServices::port() const {
    const std::string end = ":127.0.0.1";
    for (const auto& endpoint : endpoints_) {
        if (endpoint.starts_with("tcp:") && endpoint.ends_with(end))
            return endpoint.substr(4, endpoint.size() - 4 - end.size());
    }
    return "";
}

}  // namespace atl::test
