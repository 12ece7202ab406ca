#include "bridge/adapters/driver.hpp"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "bridge/adapters/acp.hpp"
#include "bridge/adapters/program.hpp"
#include "bridge/adapters/stream_json.hpp"
#include "bridge/agents/runtime.hpp"
#include "bridge/protocol.hpp"

namespace atl::adapter {
namespace {

constexpr std::size_t k_read_bytes = 32UL * 1024;
// The grace that the guest gives an agent that closed its output.
constexpr guest::Millis k_end_of_output_grace{1000};

/// Waits for room. False: nobody reads any more.
bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = write(fd, text.data(), text.size());
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

void write_log(std::string_view lines) {
    std::string text;
    while (!lines.empty()) {
        const std::size_t end = lines.find('\n');
        text.append("atoll-agent: ").append(lines.substr(0, end)).push_back('\n');
        lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    }
    // The log loses lines rather than hold up a turn.
    static_cast<void>(write_all(STDERR_FILENO, text));
}

bool wants_timing() {
    const char* const value = getenv("ASH_DEBUG_TIMING");
    return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Driver::Driver(Recipe recipe, std::string directory, AgentState state)
    : recipe_(std::move(recipe)),
      directory_(std::move(directory)),
      state_(std::move(state)),
      timing_(recipe_.name, wants_timing()),
      input_(loop_, [this](const char* why) { fail(why); }),
      host_watch_([this] { on_host(); }),
      agent_watch_([this] { on_agent(); }),
      signal_watch_([this] { on_signal(); }),
      host_lines_([this](std::string_view line) { on_host_line(line); },
                  [this](std::string_view) { fail("got a command beyond the bound"); }),
      agent_lines_(
          [this](std::string_view line) {
              timing_.agent_line(wishes_.log);
              protocol_->agent_line(line);
          },
          [this](std::string_view head) { protocol_->agent_long_line(head); }),
      host_splitter_(host_lines_, bridge::k_max_command_line_bytes) {}

Driver::~Driver() {
    if (pid_ > 0)
        kill(pid_, SIGKILL);
}

int Driver::run() {
    if (!set_up()) {
        write_log("cannot set up its loop");
        return 70;  // EX_SOFTWARE of sysexits.h
    }
    begin(state_.session());
    return over_ ? 1 : loop_.run();
}

bool Driver::set_up() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    // The agent gets that of the group, too, and this program ends after it.
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    if (!loop_.valid() || sigprocmask(SIG_BLOCK, &set, nullptr) != 0)
        return false;
    signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals_ && loop_.add(signals_.get(), EPOLLIN, signal_watch_) &&
           loop_.add(STDIN_FILENO, EPOLLIN, host_watch_);
}

void Driver::begin(std::string session) {
    session_ = std::move(session);
    const ProtocolSettings settings{recipe_.mode, session_, directory_};
    std::vector<std::string> argv = recipe_.argv;
    if (recipe_.adapter == Adapter::stream_json) {
        for (std::string& flag : StreamJsonProtocol::flags(settings))
            argv.push_back(std::move(flag));
        protocol_ = std::make_unique<StreamJsonProtocol>(settings, wishes_);
    } else {
        protocol_ = std::make_unique<AcpProtocol>(settings, wishes_);
    }
    agent_splitter_ = std::make_unique<guest::LineSplitter>(agent_lines_);
    Program program = start_program(argv);
    if (program.pid < 0)
        return fail("cannot be started: cannot run " + argv[0] + ": " + strerrordesc_np(-program.pid));
    pid_ = program.pid;
    children_.watch(pid_, [this](const guest::Ending& ending) { on_exit(ending); });
    input_.open(std::move(program.input));
    output_ = std::move(program.output);
    if (!loop_.add(output_.get(), EPOLLIN, agent_watch_))
        return fail("has an output that cannot be watched");
    timing_.tell(wishes_.log, "started");
    protocol_->start();
    pump();
}

void Driver::on_host() {
    std::array<char, k_read_bytes> buffer;  // NOLINT: written before it is read
    const ssize_t size = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size <= 0) {
        loop_.remove(STDIN_FILENO);
        return stop();
    }
    host_splitter_.feed({buffer.data(), static_cast<std::size_t>(size)});
    pump();
}

void Driver::on_host_line(std::string_view line) {
    const std::optional<HostCommand> command = parse_host_command(line);
    if (!command || over_)
        return;
    if (command->kind == HostCommand::Kind::shutdown)
        return stop();
    if (command->kind == HostCommand::Kind::query)
        timing_.begin(command->turn);
    protocol_->command(*command);
}

void Driver::on_agent() {
    std::array<char, k_read_bytes> buffer;  // NOLINT: written before it is read
    const ssize_t size = read(output_.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size > 0) {
        agent_splitter_->feed({buffer.data(), static_cast<std::size_t>(size)});
        return pump();
    }
    loop_.remove(output_.get());
    output_.reset();
    // It can say nothing more: its exit should be next.
    loop_.arm(k_end_of_output_grace, [this] {
        if (pid_ > 0)
            fail("closed its output");
    });
}

void Driver::on_signal() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD)
            children_.reap_all();
        else
            stop();
}

/// Reads the last lines of an agent that has ended: other processes may hold the pipe for ever.
void Driver::drain() {
    int left_bytes = 0;
    if (!output_ || ioctl(output_.get(), FIONREAD, &left_bytes) != 0)
        return;
    std::string text(static_cast<std::size_t>(left_bytes), '\0');
    const ssize_t size = left_bytes > 0 ? read(output_.get(), text.data(), text.size()) : 0;
    if (size > 0)
        agent_splitter_->feed(std::string_view(text).substr(0, static_cast<std::size_t>(size)));
    loop_.remove(output_.get());
    output_.reset();
}

void Driver::on_exit(const guest::Ending& ending) {
    pid_ = -1;
    drain();
    input_.close();
    if (over_)
        return;
    const bool forgets_session = !protocol_->is_ready() && !session_.empty() && !stopping_;
    pump();
    if (over_)
        return;
    if (forgets_session) {
        write_log("the agent did not take up its session and " + guest::describe(ending) +
                  "; it is started again without");
        static_cast<void>(state_.keep_session({}));
        return begin({});
    }
    if (!stopping_)
        write_log("the agent " + recipe_.name + " " + guest::describe(ending));
    over_ = true;
    if (!ending.signalled || stopping_)
        return loop_.stop(stopping_ ? 0 : ending.code);
    // The guest tells how this program ended, and that is how the agent did.
    sigset_t all;
    sigemptyset(&all);
    signal(ending.code, SIG_DFL);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    kill(getpid(), ending.code);
    loop_.stop(ending.exit_code());
}

void Driver::pump() {
    if (over_)
        return;
    const std::string to_host = std::exchange(wishes_.to_host, {});
    timing_.look_at(wishes_.log, to_host);
    if (const std::string lines = std::exchange(wishes_.log, {}); !lines.empty())
        write_log(lines);
    if (const std::string session = std::exchange(wishes_.session, {}); !session.empty())
        if (const std::string wrong = state_.keep_session(session); !wrong.empty())
            write_log("cannot keep the session: " + wrong);
    if (const std::string lines = std::exchange(wishes_.to_agent, {}); !lines.empty())
        input_.write(lines);
    if (!to_host.empty() && !write_all(STDOUT_FILENO, to_host))
        return end(0);
    if (!wishes_.failure.empty())
        fail(wishes_.failure);
}

/// The agent is asked to end by the end of its input. The guest sees to it that it does.
void Driver::stop() {
    stopping_ = true;
    if (pid_ < 0)
        return end(0);
    input_.close_when_written();
}

void Driver::fail(std::string_view why) {
    if (!over_)
        write_log("the agent " + recipe_.name + " " + std::string(why));
    end(1);
}

void Driver::end(int status) {
    over_ = true;
    if (pid_ > 0)
        kill(pid_, SIGKILL);
    loop_.stop(status);
}

}  // namespace atl::adapter
