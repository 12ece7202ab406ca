// A key pressed in a terminal, until its echo: bash's line editor writes it. Floor: the same bash at a
// pseudoterminal of this program.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_keys = 4'000;
constexpr double k_budget_ms = 10'000;
constexpr int k_wait_ms = 10'000;
constexpr double k_max_p95_ms = 5;
// A letter, and the key that removes it: bash answers each with something.
constexpr std::string_view k_letter = "x";
constexpr std::string_view k_backspace = "\x7f";
constexpr std::string_view k_prompt = "ready> ";

/// bash with a line editor at a pseudoterminal, without a sandbox.
class LocalTerminal {
  public:
    LocalTerminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
        const char* name = nullptr;
        if (!master_ || ::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
            (name = ::ptsname(master_.get())) == nullptr)
            throw std::runtime_error("no pseudoterminal");
        const std::string path = name;
        bash_.emplace([path] {
            ::setsid();
            const int tty = ::open(path.c_str(), O_RDWR);
            for (int fd = 0; fd <= 2; ++fd)
                ::dup2(tty, fd);
            ::setenv("PS1", k_prompt.data(), 1);
            ::execl("/bin/bash", "bash", "--norc", "--noprofile", "-i", nullptr);
        });
        for (std::string seen; !seen.ends_with(k_prompt);)
            seen += read();
    }
    void press(std::string_view key) {
        if (::write(master_.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()))
            throw std::runtime_error("the terminal takes no key");
        read();
    }

  private:
    std::string read() const {
        pollfd readable{.fd = master_.get(), .events = POLLIN, .revents = 0};
        char bytes[4096];
        if (::poll(&readable, 1, k_wait_ms) != 1)
            throw std::runtime_error("no echo");
        const ssize_t count = ::read(master_.get(), bytes, sizeof bytes);
        if (count <= 0)
            throw std::runtime_error("bash has ended");
        return {bytes, static_cast<std::size_t>(count)};
    }

    base::UniqueFd master_;
    std::optional<Child> bash_;
};

/// The same inside a sandbox, followed over a WebSocket.
class SandboxTerminal {
  public:
    explicit SandboxTerminal(const Server& server) : socket_(open(server)) {
        std::string seen;
        socket_.await([&](std::string_view payload) {
            if (payload.starts_with(k_stdout))
                seen += payload.substr(1);
            return seen.ends_with(k_prompt);
        });
    }
    void press(std::string_view key) {
        socket_.send_binary(std::string(1, k_stdin) + std::string(key));
        socket_.await([](std::string_view payload) { return payload.starts_with(k_stdout); });
    }

  private:
    static constexpr char k_stdin = '\0';
    static constexpr char k_stdout = '\1';

    static WebSocket open(const Server& server) {
        Connection connection(server.port());
        const Response sandbox = connection.exchange(server.request("POST", "/v1/sandboxes", "{}"));
        const std::string path =
            "/v1/sandboxes/" + Server::created_id(sandbox.status, sandbox.body) + "/processes";
        const nlohmann::json wanted{{"argv", {"bash", "--norc", "--noprofile", "-i"}},
                                    {"env", {{"PS1", k_prompt}}},
                                    {"pty", {{"cols", 80}, {"rows", 24}}}};
        const Response started = connection.exchange(server.request("POST", path, wanted.dump()));
        if (started.status != 201)
            throw std::runtime_error("no terminal: " + started.body);
        const auto id = nlohmann::json::parse(started.body).at("processId").get<std::string>();
        return {server.port(), path + '/' + id + "/ws", server.key()};
    }

    WebSocket socket_;
};

template <class Terminal>
void press_once(Terminal& terminal, std::string_view key, Samples& samples) {
    const auto began = Clock::now();
    terminal.press(key);
    samples.add(ms_since(began));
}

}  // namespace

Result measure_terminal() {
    Result result{.key = "pty_echo_ms", .unit = "ms", .target = "p95 <= 5"};
    const Server server;
    LocalTerminal local;
    SandboxTerminal sandboxed(server);
    Samples floors;
    Samples products;
    const auto began = Clock::now();
    for (std::size_t i = 0; i < sized(k_keys / 2) && ms_since(began) < k_budget_ms; ++i) {
        for (const std::string_view key : {k_letter, k_backspace}) {
            press_once(local, key, floors);
            press_once(sandboxed, key, products);
        }
    }
    result.p50 = products.p50();
    result.p95 = products.p95();
    result.floor = floors.p50();
    result.ratio = *result.p50 / *result.floor;
    result.more["p99"] = products.percentile(0.99);
    result.more["floor_p95"] = floors.p95();
    result.more["iterations"] = static_cast<double>(products.size());
    result.reached = *result.p95 <= k_max_p95_ms;
    return result;
}

}  // namespace atl::bench
