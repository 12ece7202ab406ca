#include "bridge/agents/process_agent.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bridge/event_scan.hpp"
#include "bridge/guest/command.hpp"
#include "bridge/guest/log.hpp"
#include "bridge/guest/process_tree.hpp"
#include "bridge/guest/spawn.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_agent_read_bytes = 32UL * 1024;

}  // namespace

ProcessAgent::ProcessAgent(Services& services, std::vector<std::string> argv, std::string resume)
    : services_(services),
      argv_(std::move(argv)),
      resume_(std::move(resume)),
      input_(services.loop, [this](const char* why) { fail(why); }),
      splitter_(*this) {}

ProcessAgent::~ProcessAgent() {
    services_.loop.cancel(timer_);
    pause();
    kill_all();
    if (pid_ > 0)
        services_.children.forget(pid_);
}

void ProcessAgent::start(OnReady on_ready, OnExit on_exit) {
    on_ended_ = std::move(on_exit);
    const std::string error = launch();
    if (!error.empty()) {
        state_ = State::ended;
        end_reason_ = "could not be started: " + error;
        return on_ready(error);
    }
    on_started_ = std::move(on_ready);
    listen();
}

std::string ProcessAgent::launch() {
    if (argv_.empty() || argv_[0].empty())
        return "the agent has no command";
    int to_agent[2];
    int from_agent[2];
    if (pipe2(to_agent, O_CLOEXEC) != 0)
        return std::string("no pipe for the agent: ") + strerrordesc_np(errno);
    const base::UniqueFd agent_stdin(to_agent[0]);
    base::UniqueFd input(to_agent[1]);
    if (pipe2(from_agent, O_CLOEXEC) != 0)
        return std::string("no pipe for the agent: ") + strerrordesc_np(errno);
    output_.reset(from_agent[0]);
    const base::UniqueFd agent_stdout(from_agent[1]);
    fcntl(input.get(), F_SETFL, O_NONBLOCK);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    SpawnRequest request;
    request.argv = argv_;
    request.directory = services_.workspace;
    request.input_fd = agent_stdin.get();
    request.output_fd = agent_stdout.get();
    pid_ = spawn(request);
    if (pid_ < 0)
        return spawn_error(request, -pid_);
    services_.children.watch(pid_, [this](const Ending& ending) { on_exit(ending); });
    input_.open(std::move(input));
    return {};
}

Begun ProcessAgent::begin(const TurnRequest& request, TurnSink& sink) {
    open_turn(request, sink);
    return Begun::yes;
}

void ProcessAgent::open_turn(const TurnRequest& request, TurnSink& sink) {
    if (sink_ != nullptr) {
        sink.write(bridge::encode_error_event("turn_in_progress", "the agent is busy with another turn"));
        sink.write(bridge::k_done_line);
        return sink.finish();
    }
    if (dropped_lines_ != 0)
        log("dropped " + std::to_string(dropped_lines_) + " lines that the agent wrote outside a turn");
    dropped_lines_ = 0;
    sink_ = &sink;
    turn_ = request.turn;
    told_error_ = false;
    if (state_ == State::starting)
        return refuse_turn("not_ready", "the agent has not said `ready` yet");
    if (state_ == State::ended)
        return refuse_turn("agent_crashed", "the agent " + end_reason_);
    std::string line(request.line);
    line.push_back('\n');
    input_.write(line);
}

void ProcessAgent::resume(TurnSink& sink) {
    if (sink_ == &sink)
        listen();
}

void ProcessAgent::abandon(TurnSink& sink) {
    if (sink_ != &sink)
        return;
    sink_ = nullptr;
    ++unfinished_turns_;
    input_.write(bridge::encode_command(bridge::cmd::interrupt, turn_));
    listen();
}

bool ProcessAgent::interrupt(std::string_view turn) {
    if (sink_ == nullptr || turn_ != turn)
        return false;
    input_.write(bridge::encode_command(bridge::cmd::interrupt, turn_));
    return true;
}

bool ProcessAgent::permit(std::string_view turn, std::string_view line) {
    if (sink_ == nullptr || turn_ != turn)
        return false;
    input_.write(std::string(line) + '\n');
    return true;
}

void ProcessAgent::stop(std::function<void()> on_stopped) {
    if (state_ == State::ended)
        return on_stopped();
    on_stopped_ = std::move(on_stopped);
    input_.write(bridge::encode_command(bridge::cmd::shutdown));
    input_.close_when_written();
    services_.loop.cancel(timer_);
    timer_ = services_.loop.arm(k_stop_grace, [this] {
        signal_group(SIGTERM);
        timer_ = services_.loop.arm(k_kill_grace, [this] { signal_group(SIGKILL); });
    });
}

void ProcessAgent::on_ready(std::uint32_t) {
    const ssize_t size = read_some(k_agent_read_bytes);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        on_end_of_output();
    else if (sink_ != nullptr && !sink_->wants_more())
        pause();
}

ssize_t ProcessAgent::read_some(std::size_t limit_bytes) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_agent_read_bytes);
    const ssize_t size = read(output_.get(), buffer.get(), std::min(limit_bytes, k_agent_read_bytes));
    if (size <= 0)
        return size;
    splitter_.feed({buffer.get(), static_cast<std::size_t>(size)});
    flush_turn();
    return size;
}

void ProcessAgent::on_line(std::string_view line) {
    if (state_ == State::ready && sink_ != nullptr && unfinished_turns_ == 0)
        return turn_line(line);
    const std::string name = event_name(line);
    if (state_ == State::starting && name == bridge::ev::ready)
        return became_ready();
    if (unfinished_turns_ != 0 && name == bridge::ev::done)
        --unfinished_turns_;
    else if (unfinished_turns_ == 0)
        ++dropped_lines_;
}

void ProcessAgent::on_long_line(std::string_view head) {
    if (sink_ == nullptr || unfinished_turns_ != 0) {
        ++dropped_lines_;
        return;
    }
    relay_ += bridge::encode_error_event(
        "line_too_long",
        "the agent wrote a line beyond " + std::to_string(base::k_max_event_line_bytes) +
            " bytes, which was dropped; the line: " + base::excerpt(head, base::k_quoted_line_bytes));
}

void ProcessAgent::on_long_line_end(std::string_view outline) {
    if (event_name(outline) != bridge::ev::done)
        return;
    if (unfinished_turns_ != 0) {
        --unfinished_turns_;
    } else if (sink_ != nullptr) {
        relay_ += bridge::k_done_line;
        finish_turn();
    }
}

void ProcessAgent::turn_line(std::string_view line) {
    relay_.append(line).push_back('\n');
    const std::string name = event_name(line);
    told_error_ = name == bridge::ev::error;
    if (name != bridge::ev::done)
        return;
    // The agent has ended the turn. If the host would refuse this line, the turn would not end there, so the
    // host gets a `done` of ours as well.
    if (!bridge::scan_event(line).refusal.empty())
        relay_ += bridge::k_done_line;
    finish_turn();
}

void ProcessAgent::finish_turn() {
    flush_turn();
    std::exchange(sink_, nullptr)->finish();
}

void ProcessAgent::flush_turn() {
    if (sink_ != nullptr && !relay_.empty())
        sink_->write(relay_);
    relay_ = {};
}

void ProcessAgent::became_ready() {
    state_ = State::ready;
    // Not before: of an agent that fails to start this would say that it closed its input.
    if (!resume_.empty())
        input_.write(std::exchange(resume_, {}) + '\n');
    std::exchange(on_started_, nullptr)({});
}

// An agent that closed its output can say nothing more: its exit should be next.
void ProcessAgent::on_end_of_output() {
    pause();
    output_.reset();
    if (timer_ == 0)
        timer_ = services_.loop.arm(k_kill_grace, [this] { fail("closed its output"); });
}

void ProcessAgent::fail(std::string reason) {
    if (end_reason_.empty())
        end_reason_ = std::move(reason);
    kill_all();
}

void ProcessAgent::signal_group(int signal_number) {
    if (pid_ > 0)
        kill(-pid_, signal_number);
}

void ProcessAgent::kill_all() {
    if (pid_ > 0 && state_ == State::starting)
        ProcessTree().signal(pid_, SIGKILL);
    else
        signal_group(SIGKILL);
}

void ProcessAgent::on_exit(const Ending& ending) {
    // Processes that left its group have process 1 as their parent by now, and cannot be told from others.
    signal_group(SIGKILL);
    pid_ = -1;
    services_.loop.cancel(timer_);
    pause();
    drain();
    if (output_)
        services_.orphan_pipes.adopt(std::move(output_));
    input_.close();
    state_ = State::ended;
    if (end_reason_.empty())
        end_reason_ = describe(ending);
    end_turn_as_crashed();
    if (on_started_)
        std::exchange(on_started_, nullptr)("the agent " + end_reason_ + " before it was ready");
    else if (on_ended_)
        std::exchange(on_ended_, nullptr)(end_reason_);
    if (on_stopped_)
        std::exchange(on_stopped_, nullptr)();
}

/// Relays only the bytes that are in the pipe now: children of the agent may hold and fill it for ever. A
/// pipe holds at most /proc/sys/fs/pipe-max-size, so this may exceed the sink's limit.
void ProcessAgent::drain() {
    int left_bytes = 0;
    if (!output_ || ioctl(output_.get(), FIONREAD, &left_bytes) != 0)
        return;
    while (left_bytes > 0) {
        const ssize_t size = read_some(static_cast<std::size_t>(left_bytes));
        if (size <= 0)
            return;
        left_bytes -= static_cast<int>(size);
    }
}

/// No `done`: the agent did not say it, and the host tells an agent's end from a turn's. One whose last event
/// was an error has told why.
void ProcessAgent::end_turn_as_crashed() {
    if (sink_ != nullptr && told_error_)
        std::exchange(sink_, nullptr)->break_off();
    else if (sink_ != nullptr)
        refuse_turn("agent_crashed", "the agent " + end_reason_);
}

void ProcessAgent::refuse_turn(std::string_view code, std::string_view message) {
    sink_->write(bridge::encode_error_event(code, message));
    std::exchange(sink_, nullptr)->break_off();
}

void ProcessAgent::listen() {
    if (!listening_ && output_)
        listening_ = services_.loop.add(output_.get(), EPOLLIN, *this);
}

// Removes the descriptor from the loop: epoll reports a hang-up even if no event is asked for.
void ProcessAgent::pause() {
    if (listening_)
        services_.loop.remove(output_.get());
    listening_ = false;
}

}  // namespace atl::guest
