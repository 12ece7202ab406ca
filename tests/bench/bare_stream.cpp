#include "tests/bench/bare_stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <system_error>

#include "tests/bench/bare_log.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

using base::UniqueFd;

constexpr std::size_t k_read_bytes = 64UL * 1024;
constexpr std::string_view k_done_line = R"({"ev":"done")";

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = ::write(fd, text.data(), text.size());
        if (size <= 0)
            fail("write");
        text.remove_prefix(static_cast<std::size_t>(size));
    }
}

/// The agent's process and the two ends of ours.
struct Agent {
    Agent() {
        std::array<int, 2> to_agent;
        std::array<int, 2> from_agent;
        if (::pipe2(to_agent.data(), O_CLOEXEC) != 0 || ::pipe2(from_agent.data(), O_CLOEXEC) != 0)
            fail("pipe2");
        input.reset(to_agent[1]);
        output.reset(from_agent[0]);
        const UniqueFd agent_stdin(to_agent[0]);
        const UniqueFd agent_stdout(from_agent[1]);
        const std::string program = bin_dir() / "atoll-bench-agent";
        child.emplace([&] {
            ::dup2(agent_stdin.get(), STDIN_FILENO);
            ::dup2(agent_stdout.get(), STDOUT_FILENO);
            ::execl(program.c_str(), program.c_str(), nullptr);
            fail(program.c_str());
        });
    }
    UniqueFd input;
    UniqueFd output;
    std::optional<Child> child;
};

class Relay {
  public:
    Relay(const std::filesystem::path& database, int client) : log_(database), client_(client) {}

    void run_turn(const std::string& count) {
        write_all(agent_.input.get(), R"({"cmd":"query","prompt":")" + count + "\"}\n");
        ++turn_;
        while (!relay_some()) {
        }
    }

  private:
    /// True at the end of the turn.
    bool relay_some() {
        const ssize_t size = ::read(agent_.output.get(), buffer_.data(), buffer_.size());
        if (size <= 0)
            fail("the agent");
        pending_.append(buffer_.data(), static_cast<std::size_t>(size));
        std::string_view rest = pending_;
        bool done = false;
        log_.begin();
        for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;
             rest.remove_prefix(end + 1)) {
            const auto line = rest.substr(0, end);
            log_.event(1, ++seq_, turn_, "text_delta", line);
            add_frame(line);
            done = done || line.starts_with(k_done_line);
        }
        log_.commit();
        write_all(client_, frames_);
        frames_.clear();
        pending_.erase(0, pending_.size() - rest.size());
        return done;
    }
    void add_frame(std::string_view line) {
        frames_ += '\x81';
        if (line.size() < 126) {
            frames_ += static_cast<char>(line.size());
        } else {
            frames_ += '\x7e';
            frames_ += static_cast<char>(line.size() >> 8);
            frames_ += static_cast<char>(line.size() & 0xff);
        }
        frames_ += line;
    }

    BareLog log_;
    int client_;
    Agent agent_;
    std::int64_t turn_ = 0;
    std::int64_t seq_ = 0;
    std::string pending_;
    std::string frames_;
    std::array<char, k_read_bytes> buffer_;
};

}  // namespace

BareStream::BareStream() {
    const LoopbackListener listener;
    loop_.emplace([&] { serve(listener.fd.get()); });
    socket_.emplace(listener.port, "", "");
}

void BareStream::serve(int listener) const {
    const UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    Relay relay(dir_.path() / "floor.db", client.get());
    std::array<char, 64> count;
    for (ssize_t size = 0; (size = ::recv(client.get(), count.data(), count.size(), 0)) > 0;)
        relay.run_turn({count.data(), static_cast<std::size_t>(size)});
}

double BareStream::run(std::size_t events) {
    std::size_t seen = 0;
    const auto began = Clock::now();
    socket_->send(std::to_string(events));
    socket_->await([&](std::string_view payload) {
        ++seen;
        return payload.starts_with(k_done_line);
    });
    const double ms = ms_since(began);
    if (seen < events)
        throw std::runtime_error("the floor lost events");
    return ms;
}

}  // namespace atl::bench
