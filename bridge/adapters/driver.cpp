#include "bridge/adapters/driver.hpp"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bridge/adapters/acp.hpp"
#include "bridge/adapters/program.hpp"
#include "bridge/adapters/stream_json.hpp"
#include "bridge/agents/runtime.hpp"
#include "bridge/guest/proc_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/utf8.hpp"

namespace atl::adapter {
namespace {

constexpr std::size_t k_read_bytes = 32UL * 1024;
// The grace that the guest gives an agent that closed its output.
constexpr guest::Millis k_end_of_output_grace{1000};
constexpr guest::Millis k_settle_grace{1000};
// An agent's end is told with so much of what it said last.
constexpr std::size_t k_last_words_bytes = 1024;

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

/// Writes as much as there is room for now; the rest is lost.
void write_now(int fd, std::string_view text) {
    while (!text.empty()) {
        iovec piece{const_cast<char*>(text.data()), text.size()};
        ssize_t size = pwritev2(fd, &piece, 1, -1, RWF_NOWAIT);
        if (size < 0 && errno != EAGAIN && errno != EINTR) {
            // Some files do not know the flag. A pipe that is ready takes PIPE_BUF bytes at once (pipe(7)).
            pollfd room{fd, POLLOUT, 0};
            if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)
                return;
            size = write(fd, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
        }
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
}

/// Reads up to k_read_bytes from a pipe. Nothing: it is empty; an empty text: it has ended.
std::optional<std::string> read_now(int fd) {
    std::string text(k_read_bytes, '\0');
    const ssize_t size = read(fd, text.data(), text.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return std::nullopt;
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

/// Reads all that is in a pipe now; it holds at most /proc/sys/fs/pipe-max-size.
std::string read_rest(int fd) {
    int left_bytes = 0;
    if (ioctl(fd, FIONREAD, &left_bytes) != 0 || left_bytes <= 0)
        return {};
    std::string text(static_cast<std::size_t>(left_bytes), '\0');
    const ssize_t size = read(fd, text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

/// Lines of this program's own, as the log has them.
std::string own_lines(std::string_view lines) {
    std::string text;
    while (!lines.empty()) {
        const std::size_t end = lines.find('\n');
        text.append("atoll-agent: ").append(lines.substr(0, end)).push_back('\n');
        lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    }
    return text;
}

}  // namespace

Driver::Driver(Recipe recipe, std::string directory, AgentState state)
    : recipe_(std::move(recipe)),
      directory_(std::move(directory)),
      state_(std::move(state)),
      timing_(recipe_.name, guest::Timing::is_wanted()),
      input_(loop_, [this](const char* why) { fail(why); }),
      host_watch_([this] { on_host(); }),
      agent_watch_([this] { on_agent(); }),
      errors_watch_([this] { on_errors(); }),
      signal_watch_([this] { on_signal(); }),
      host_lines_([this](std::string_view line) { on_host_line(line); },
                  [this](std::string_view) { fail("got a command beyond the bound"); },
                  [](std::string_view) {}),
      agent_lines_(
          [this](std::string_view line) {
              timing_.agent_line(times_);
              protocol_->agent_line(line);
          },
          [this](std::string_view head) { protocol_->agent_long_line(head); },
          [this](std::string_view outline) { protocol_->agent_long_line_end(outline); }),
      host_splitter_(host_lines_, bridge::k_max_command_line_bytes) {}

Driver::~Driver() {
    if (pid_ > 0)
        kill(pid_, SIGKILL);
}

int Driver::run() {
    if (!set_up()) {
        log("cannot set up its loop");
        return 70;  // EX_SOFTWARE of sysexits.h
    }
    begin(state_.take_session());
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
    ProtocolSettings settings{recipe_.mode, session_, directory_};
    if (protocol_)
        settings.left = protocol_->left();
    confirmed_ = false;
    std::vector<std::string> argv = recipe_.argv;
    if (recipe_.adapter == Adapter::stream_json) {
        for (std::string& flag : StreamJsonProtocol::flags(settings))
            argv.push_back(std::move(flag));
        protocol_ = std::make_unique<StreamJsonProtocol>(settings, wishes_);
    } else {
        protocol_ = std::make_unique<AcpProtocol>(settings, wishes_);
    }
    agent_splitter_ = std::make_unique<guest::LineSplitter>(agent_lines_);
    last_words_.clear();
    // Until the agent is ready, daemons that it has made are children of this program (prctl(2)).
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    Program program = start_program(argv);
    if (program.pid < 0)
        return fail("cannot be started: cannot run " + argv[0] + ": " + strerrordesc_np(-program.pid));
    pid_ = program.pid;
    children_.watch(pid_, [this](const guest::Ending& ending) { on_exit(ending); });
    input_.open(std::move(program.input));
    output_ = std::move(program.output);
    errors_ = std::move(program.errors);
    if (!loop_.add(output_.get(), EPOLLIN, agent_watch_) || !loop_.add(errors_.get(), EPOLLIN, errors_watch_))
        return fail("has an output that cannot be watched");
    timing_.tell(times_, "started");
    protocol_->start();
    pump();
}

void Driver::on_host() {
    const std::optional<std::string> text = read_now(STDIN_FILENO);
    if (!text)
        return;
    if (text->empty()) {
        loop_.remove(STDIN_FILENO);
        return stop();
    }
    host_splitter_.feed(*text);
    pump();
}

void Driver::on_host_line(std::string_view line) {
    const std::optional<HostCommand> command = parse_host_command(line);
    if (!command || over_)
        return;
    if (command->kind == HostCommand::Kind::shutdown)
        return stop();
    if (command->kind == HostCommand::Kind::query) {
        timing_.begin(command->turn);
        last_words_.clear();
    }
    protocol_->command(*command);
}

void Driver::on_agent() {
    const std::optional<std::string> text = read_now(output_.get());
    if (!text)
        return;
    if (!text->empty()) {
        agent_splitter_->feed(*text);
        return pump();
    }
    loop_.remove(output_.get());
    output_.reset();
    // It can say nothing more: its exit should be next.
    loop_.arm(k_end_of_output_grace, [this, pid = pid_] {
        if (pid_ == pid)
            fail("closed its output");
    });
}

/// The agent's stderr goes into the log as it is.
void Driver::on_errors() {
    const std::optional<std::string> text = read_now(errors_.get());
    if (!text)
        return;
    if (!text->empty())
        return remember(*text);
    loop_.remove(errors_.get());
    errors_.reset();
}

void Driver::remember(std::string_view text) {
    // The pipe is shared and read at a bounded rate: the log loses text rather than hold up a turn.
    write_now(STDERR_FILENO, text);
    last_words_.append(text);
    if (last_words_.size() > k_last_words_bytes)
        last_words_.erase(0, last_words_.size() - k_last_words_bytes);
}

void Driver::log(std::string_view lines) {
    remember(own_lines(lines));
}

void Driver::on_signal() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD)
            children_.reap_all();
        else
            stop();
}

/// Reads the last lines of an agent that has ended: other processes may hold its pipes for ever.
void Driver::drain() {
    if (errors_) {
        remember(read_rest(errors_.get()));
        loop_.remove(errors_.get());
        errors_.reset();
    }
    if (output_) {
        agent_splitter_->feed(read_rest(output_.get()));
        loop_.remove(output_.get());
        output_.reset();
    }
}

void Driver::on_exit(const guest::Ending& ending) {
    pid_ = -1;
    drain();
    input_.close();
    end_unready();
    if (over_)
        return;
    const bool forgets_session = !session_.empty() && !stopping_ &&
                                 (!protocol_->is_ready() || protocol_->leaves_turn(guest::describe(ending)));
    wishes_.renews = false;
    pump();
    if (over_)
        return;
    if (forgets_session) {
        if (!protocol_->is_ready())
            log("the agent did not take up its session and " + guest::describe(ending) +
                "; it is started again without");
        static_cast<void>(state_.keep_session({}));
        return begin({});
    }
    if (!stopping_)
        tell_end(guest::describe(ending));
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
    timing_.look_at(times_, to_host);
    if (const std::string lines = std::exchange(times_, {}); !lines.empty())
        write_now(STDERR_FILENO, own_lines(lines));
    if (const std::string lines = std::exchange(wishes_.log, {}); !lines.empty())
        log(lines);
    if (protocol_->is_ready() && !std::exchange(confirmed_, true)) {
        state_.confirm();
        // A program that is started in a turn may outlive it, and belongs to the sandbox.
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
    if (const std::string session = std::exchange(wishes_.session, {}); !session.empty())
        if (const std::string wrong = state_.keep_session(session); !wrong.empty())
            log("cannot keep the session: " + wrong);
    if (const std::string lines = std::exchange(wishes_.to_agent, {}); !lines.empty())
        input_.write(lines);
    if (!to_host.empty() && !write_all(STDOUT_FILENO, to_host))
        return end(0);
    if (!wishes_.failure.empty())
        return fail(wishes_.failure);
    // It has done nothing yet: what it has started is for itself.
    if (std::exchange(wishes_.renews, false))
        guest::signal_descendants(getpid(), SIGKILL);
    if (std::exchange(wishes_.settles, false))
        loop_.arm(k_settle_grace, [this, pid = pid_] {
            if (pid_ != pid)
                return;
            protocol_->settled();
            pump();
        });
}

/// The agent is asked to end by the end of its input. The guest sees to it that it does.
void Driver::stop() {
    stopping_ = true;
    if (pid_ < 0)
        return end(0);
    input_.close_when_written();
}

void Driver::fail(std::string_view why) {
    // Then it is started again when it has ended.
    if (!over_ && pid_ > 0 && protocol_->leaves_turn(why))
        return guest::signal_descendants(getpid(), SIGKILL);
    if (!over_)
        tell_end(why);
    end(1);
}

/// In the log and, with what the agent said last, in the open turn. The turn has no `done`: the guest ends it
/// when this program has ended.
void Driver::tell_end(std::string_view why) {
    const std::string text = "the agent " + recipe_.name + " " + std::string(why);
    std::string_view said = last_words_;
    said.remove_suffix(said.size() - (said.find_last_not_of("\r\n \t") + 1));
    protocol_->agent_ended(said.empty() ? text
                                        : text + "; its log ends: " + base::excerpt(said, said.size()));
    static_cast<void>(write_all(STDOUT_FILENO, std::exchange(wishes_.to_host, {})));
    log(text);
}

void Driver::end(int status) {
    over_ = true;
    // The guest ends the process group with this program: an agent may be a script around the program proper.
    if (pid_ > 0)
        kill(pid_, SIGKILL);
    end_unready();
    loop_.stop(status);
}

/// An agent that did not become ready leaves nothing, whatever group or session its programs went to.
void Driver::end_unready() {
    if (!protocol_->is_ready())
        guest::signal_descendants(getpid(), SIGKILL);
}

}  // namespace atl::adapter
