#include "guest_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "bridge/protocol.hpp"

namespace atl::test {
namespace {

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

/// The next child is process 1 of a new pid namespace.
bool enter_pid_namespace() {
    return unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ||
           unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) == 0;
}

/// In that child: a /proc that shows the namespace.
bool mount_proc() {
    return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

/// The environment that a guest under test finds.
void set_environment(const GuestSetting& setting = {}) {
    clearenv();
    setenv("PATH", setting.programs.c_str(), 1);
    setenv("ASH_SANDBOX_ID", "sandbox1", 1);
    setenv("PWD", "/nowhere", 1);
    setenv("OLDPWD", "/nowhere", 1);
    setenv("_", "/nowhere", 1);
}

}  // namespace

Client::Client(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("no guest to connect to");
    const timeval deadline{k_client_deadline.count(), 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
}

void Client::send(std::string_view text) const {
    while (!text.empty()) {
        const ssize_t size = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
        // A guest that has refused the rest says so in what is read next.
        if (size < 0 && (errno == EPIPE || errno == ECONNRESET))
            return;
        if (size <= 0)
            throw std::runtime_error("the guest does not read");
        text.remove_prefix(static_cast<std::size_t>(size));
    }
}

std::optional<std::string> Client::line() {
    for (std::size_t searched = 0;;) {
        const std::size_t newline = buffer_.find('\n', searched);
        if (newline != std::string::npos) {
            std::string result = buffer_.substr(0, newline);
            buffer_.erase(0, newline + 1);
            return result;
        }
        searched = buffer_.size();
        char chunk[16384];
        const ssize_t size = recv(socket_.get(), chunk, sizeof chunk, 0);
        if (size < 0 && errno == EAGAIN)
            throw std::runtime_error("the guest says nothing");
        if (size <= 0)
            return std::nullopt;
        buffer_.append(chunk, static_cast<std::size_t>(size));
    }
}

std::optional<std::string> Client::bytes() {
    if (!buffer_.empty())
        return std::exchange(buffer_, {});
    std::string chunk(65536, '\0');
    const ssize_t size = recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (size < 0 && errno == EAGAIN)
        throw std::runtime_error("the guest says nothing");
    if (size <= 0)
        return std::nullopt;
    chunk.resize(static_cast<std::size_t>(size));
    return chunk;
}

std::vector<std::string> Client::rest() {
    std::vector<std::string> lines;
    while (auto next = line()) {
        // After `done` the guest waits for a next command: told that there is none, it closes the stream.
        const auto event = nlohmann::json::parse(*next, nullptr, false);
        if (event.is_object() && event.value("ev", "") == "done")
            shutdown(socket_.get(), SHUT_WR);
        lines.push_back(std::move(*next));
    }
    return lines;
}

Transcript Transcript::of(const std::vector<std::string>& lines) {
    Transcript result;
    for (const std::string& line : lines) {
        result.events.push_back(nlohmann::json::parse(line));
        if (result.events.back().at("ev") == "text_delta")
            result.text += result.events.back().at("data").at("delta").get<std::string>();
    }
    return result;
}

std::string Transcript::names() const {
    std::string result;
    std::string last;
    for (const auto& event : events) {
        const std::string name = event.at("ev");
        if (name != last)
            result += (result.empty() ? "" : " ") + name;
        last = name;
    }
    return result;
}

const nlohmann::json& Transcript::data(std::string_view event) const {
    for (const auto& candidate : events)
        if (candidate.at("ev") == event)
            return candidate.at("data");
    throw std::runtime_error("no such event in the turn: " + std::string(event));
}

bool GuestProcess::can_isolate() {
    static const bool result = [] {
        const pid_t child = fork();
        int status = 0;
        if (child == 0) {
            const pid_t inner = enter_pid_namespace() ? fork() : -1;
            if (inner == 0)
                _exit(mount_proc() ? 0 : 1);
            _exit(inner > 0 && waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 1);
        }
        waitpid(child, &status, 0);
        return status == 0;
    }();
    return result;
}

void GuestProcess::listen() {
    char name[] = "/tmp/atoll-guest-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    directory_ = name;
    path_ = directory_ + "/bridge.sock";
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path_);
    REQUIRE(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 64) == 0);
}

/// Forks twice into a new pid namespace: the first child only waits and passes the guest's end on.
template <class Run>
void GuestProcess::fork_guest(Space space, Run run) {
    int report[2];
    REQUIRE(pipe2(report, O_CLOEXEC) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (space == Space::shared || !enter_pid_namespace()) {
            prctl(PR_SET_CHILD_SUBREAPER, 1);
            const pid_t self = 0;
            [[maybe_unused]] const ssize_t told = write(report[1], &self, sizeof self);
            _exit(run());
        }
        const pid_t inner = fork();
        if (inner == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            mount_proc();
            _exit(run());
        }
        [[maybe_unused]] const ssize_t told = write(report[1], &inner, sizeof inner);
        close_range(3, ~0U, 0);
        int status = 0;
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    }
    close(report[1]);
    pid_t inner = 0;
    REQUIRE(read(report[0], &inner, sizeof inner) == sizeof inner);
    close(report[0]);
    pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (inner != 0)
        std::swap(inner, pid_);
}

GuestProcess::GuestProcess(Space space, guest::Peers peers, std::string workspace, std::uint64_t disk_bytes,
                           GuestSetting setting) {
    listen();
    const Space wanted = space == Space::own && can_isolate() ? Space::own : Space::shared;
    if (space == Space::own && wanted == Space::shared)
        peers = guest::Peers::any;
    fork_guest(wanted, [&] {
        set_environment(setting);
        const std::string size = "size=" + std::to_string(disk_bytes);
        if (disk_bytes > 0 && mount("tmpfs", workspace.c_str(), "tmpfs", 0, size.c_str()) != 0)
            return 126;
        if (!setting.local_programs.empty() &&
            mount(setting.local_programs.c_str(), "/usr/local/bin", nullptr, MS_BIND, nullptr) != 0)
            return 126;
        guest::GuestOptions options{listener_.release(), peers, std::move(workspace), directory_};
        options.search_timeout = setting.search_timeout;
        guest::Guest under_test(std::move(options));
        return under_test.run();
    });
    listener_.reset();
}

GuestProcess GuestProcess::program(const std::string& file) {
    GuestProcess result{Unstarted{}};
    result.listen();
    result.fork_guest(Space::own, [&] {
        set_environment();
        setenv("ASH_WORKSPACE_DIR", "/tmp", 1);
        const int copy = fcntl(result.listener_.get(), F_DUPFD, 10);
        dup2(copy, 3);
        close_range(4, ~0U, CLOSE_RANGE_CLOEXEC);
        execl(file.c_str(), file.c_str(), nullptr);
        return 127;
    });
    result.listener_.reset();
    return result;
}

GuestProcess::~GuestProcess() {
    if (pidfd_) {
        signal(SIGKILL);
        siginfo_t info{};
        waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED);
    }
    if (!directory_.empty())
        std::filesystem::remove_all(directory_);
}

Client GuestProcess::send(std::string_view command_line) const {
    Client client = connect();
    client.send(std::string(command_line) + "\n");
    return client;
}

Client GuestProcess::start(std::string_view agent) const {
    Client control = send("{\"cmd\":\"start\",\"agent\":" + std::string(agent) + "}");
    const auto reply = control.line();
    REQUIRE(reply == R"({"ok":true})");
    return control;
}

Client GuestProcess::start_command(const std::string& bash_script) const {
    const nlohmann::json agent = {{"kind", "command"}, {"argv", {"/bin/bash", "-c", bash_script}}};
    return start(agent.dump());
}

Client GuestProcess::query(std::string_view prompt, std::string_view turn) const {
    Client client = connect();
    client.send(bridge::encode_query(turn, prompt, "{}"));
    return client;
}

Transcript GuestProcess::run(std::string_view prompt, std::string_view turn) const {
    return Transcript::of(query(prompt, turn).rest());
}

nlohmann::json GuestProcess::ask(std::string_view command_line) const {
    const auto lines = send(command_line).rest();
    REQUIRE(lines.size() == 1);
    return nlohmann::json::parse(lines[0]);
}

void GuestProcess::signal(int number) const {
    kill(pid_, number);
}

int GuestProcess::wait() {
    pollfd end{pidfd_.get(), POLLIN, 0};
    if (poll(&end, 1, k_client_deadline_ms) != 1)
        throw std::runtime_error("the guest does not end");
    siginfo_t info{};
    REQUIRE(waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) == 0);
    pidfd_.reset();
    return info.si_code == CLD_EXITED && info.si_status != 255 ? info.si_status : -1;
}

}  // namespace atl::test
