#include "tests/bench/server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <vector>

extern char** environ;

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr double k_ready_ms = 60'000;
constexpr int k_stop_ms = 20'000;
constexpr double k_fill_ms = 20'000;
constexpr std::size_t k_tail_bytes = 2000;

std::string random_key() {
    std::array<unsigned char, 16> bytes;
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        throw std::runtime_error("getrandom failed");
    std::string text;
    for (const unsigned char byte : bytes)
        text += "0123456789abcdef"[byte & 15];
    return text;
}

/// A port that was free a moment ago.
std::uint16_t free_port() {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::system_error(errno, std::generic_category(), "no free port");
    return ntohs(address.sin_port);
}

/// Where atolld is; empty: in bin_dir().
fs::path& server_dir() {
    static fs::path dir;
    return dir;
}

}  // namespace

void use_server_of(fs::path programs) {
    server_dir() = std::move(programs);
}

fs::path bin_dir() {
    return fs::read_symlink("/proc/self/exe").parent_path();
}

Server::Server(const std::vector<std::string>& more, fs::path data_dir)
    : data_dir_(data_dir.empty() ? dir_.path() / "data" : std::move(data_dir)),
      key_(random_key()),
      port_(free_port()) {
    spawn(more);
    try {
        wait_ready();
    } catch (...) {
        ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
        wait_end(k_stop_ms);
        throw;
    }
}

Server::~Server() {
    try {
        stop();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench: %s\n", error.what());
    }
}

void Server::spawn(const std::vector<std::string>& more) {
    const std::string program = (server_dir().empty() ? bin_dir() : server_dir()) / "atolld";
    const std::string listen = "127.0.0.1:" + std::to_string(port_);
    const std::string log = dir_.path() / "log";
    std::vector<std::string> args{program, "--listen", listen, "--data-dir", data_dir_.string()};
    args.insert(args.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& arg : args)
        argv.push_back(arg.data());
    argv.push_back(nullptr);
    std::string key = "ATOLL_API_KEY=" + key_;
    std::vector<char*> env{key.data()};
    for (char** entry = environ; *entry; ++entry) {
        if (std::string_view(*entry).substr(0, 6) != "ATOLL_")
            env.push_back(*entry);
    }
    env.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), env.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        throw std::system_error(error, std::generic_category(), program);
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

/// Tries again after a pause that grows from 1 to 10 ms and that the end of the process cuts short.
void Server::wait_ready() {
    const auto began = Clock::now();
    for (int pause_ms = 1; ms_since(began) < k_ready_ms; pause_ms = std::min(pause_ms * 2, 10)) {
        try {
            Connection connection(port_);
            if (connection.exchange(request("GET", "/readyz")).status == 200)
                return;
        } catch (const std::exception&) {
            // Not listening yet.
        }
        if (wait_end(pause_ms))
            throw std::runtime_error("atolld ended at its start:\n" + log_tail());
    }
    throw std::runtime_error("atolld was not ready within 60 s:\n" + log_tail());
}

bool Server::wait_end(int timeout_ms) {
    pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    if (pid_ < 0 || ::poll(&ended, 1, timeout_ms) <= 0)
        return pid_ < 0;
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return true;
}

double Server::cpu_ms() const {
    clockid_t clock = 0;
    timespec used{};
    if (const int error = ::clock_getcpuclockid(pid_, &clock); error != 0)
        throw std::system_error(error, std::generic_category(), "clock_getcpuclockid");
    ::clock_gettime(clock, &used);
    return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

void Server::stop() {
    if (pid_ < 0)
        return;
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGTERM, nullptr, 0);
    if (wait_end(k_stop_ms))
        return;
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    wait_end(k_stop_ms);
    throw std::runtime_error("atolld did not end within 20 s of SIGTERM:\n" + log_tail());
}

std::string Server::log_tail() const {
    std::ifstream file(dir_.path() / "log");
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    return all.size() <= k_tail_bytes ? all : all.substr(all.size() - k_tail_bytes);
}

std::string Server::request(std::string_view method, std::string_view target, std::string_view body,
                            Accept accept) const {
    return request_text(method, target, key_, body, accept);
}

std::string Server::create_conversation(Connection& connection, std::string_view agent) const {
    const nlohmann::json body{{"agent", agent}};
    const Response response = connection.exchange(request("POST", "/v1/conversations", body.dump()));
    return created_id(response.status, response.body);
}

std::string Server::created_id(int status, const std::string& body) {
    if (status != 201)
        throw std::runtime_error("creating a conversation: " + std::to_string(status) + " " + body);
    return nlohmann::json::parse(body).at("id");
}

void Server::remove_conversation(Connection& connection, const std::string& id) const {
    const Response response = connection.exchange(request("DELETE", "/v1/conversations/" + id));
    if (response.status != 204)
        throw std::runtime_error("removing a conversation: " + std::to_string(response.status) + " " +
                                 response.body);
}

void Server::await_pool(Connection& connection, std::size_t ready) const {
    const std::string ask = request("GET", "/v1/system");
    const auto began = Clock::now();
    for (;;) {
        const Response response = connection.exchange(ask);
        if (nlohmann::json::parse(response.body).at("pool").at(0).at("ready") == ready)
            return;
        if (ms_since(began) > k_fill_ms)
            throw std::runtime_error("the pool does not fill: " + response.body);
    }
}

std::string Server::message_request(const std::string& id) const {
    return request("POST", "/v1/conversations/" + id + "/messages", R"({"content":"hello"})",
                   Accept::event_stream);
}

void Server::check_turn(int status, const std::string& body) {
    if (status != 200 || body.find(R"("type":"done")") == std::string::npos ||
        body.find(R"("type":"error")") != std::string::npos)
        throw std::runtime_error("a message was answered " + std::to_string(status) + " " + body);
}

}  // namespace atl::bench
