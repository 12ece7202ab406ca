#include "bridge/agents/shell_run.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bridge/guest/spawn.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
ShellRun::ShellRun(Services& services, std::string turn, TurnSink& sink, OnEnd on_end)
    : services_(services), turn_(std::move(turn)), sink_(&sink), on_end_(std::move(on_end)) {}

ShellRun::~ShellRun() {
    services_.loop.cancel(timer_);
    pause();
    if (pid_ > 0)
        services_.children.forget(pid_);
}

std::string ShellRun::start(std::string_view script) {
    if (script.find('\0') != std::string_view::npos)
        return "a message with a NUL character cannot be run";
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return std::string("no pipe for the command: ") + strerrordesc_np(errno);
    pipe_.reset(ends[0]);
    const base::UniqueFd output(ends[1]);
    // Only the guest's end: each end of a pipe has a file description of its own.
    fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    std::string error = launch(script, output.get());
    if (!error.empty())
        return error;
    services_.children.watch(pid_, [this](const Ending& ending) { on_exit(ending); });
    buffer_ = std::make_unique_for_overwrite<char[]>(bridge::k_max_delta_bytes);
    listen();
    return {};
}

std::string ShellRun::launch(std::string_view script, int output_fd) {
    SpawnRequest request;
    request.directory = services_.workspace;
    request.output_fd = output_fd;
    request.error_fd = output_fd;
    pid_ = spawn_shell(request, script);
    return pid_ > 0 ? std::string() : spawn_error(request, -pid_);
}

void ShellRun::interrupt() {
    if (last_signal_ == 0)
        escalate(SIGINT);
}

void ShellRun::terminate() {
    if (last_signal_ != SIGTERM && last_signal_ != SIGKILL)
        escalate(SIGTERM);
}

void ShellRun::abandon() {
    sink_ = nullptr;
    listen();
    interrupt();
}

void ShellRun::escalate(int signal_number) {
    last_signal_ = signal_number;
    kill(-pid_, signal_number);
    services_.loop.cancel(timer_);
    timer_ = 0;
    if (signal_number == SIGINT)
        timer_ = services_.loop.arm(k_interrupt_grace, [this] { escalate(SIGTERM); });
    if (signal_number == SIGTERM)
        timer_ = services_.loop.arm(k_kill_grace, [this] { escalate(SIGKILL); });
}

void ShellRun::resume() {
    listen();
}

void ShellRun::listen() {
    if (!listening_ && pipe_)
        listening_ = services_.loop.add(pipe_.get(), EPOLLIN, *this);
}

// Removes the descriptor from the loop: epoll reports a hang-up even if no event is asked for.
void ShellRun::pause() {
    if (listening_)
        services_.loop.remove(pipe_.get());
    listening_ = false;
}

void ShellRun::on_ready(std::uint32_t) {
    const ssize_t size = read_some(bridge::k_max_delta_bytes);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        pause();
        pipe_.reset();  // all writers closed it; the exit is still to come
    } else if (sink_ != nullptr && !sink_->wants_more()) {
        pause();
    }
}

/// Reads once and sends the text on; returns the result of read(2).
ssize_t ShellRun::read_some(std::size_t limit_bytes) {
    const ssize_t size = read(pipe_.get(), buffer_.get(), std::min(limit_bytes, bridge::k_max_delta_bytes));
    if (size > 0) {
        std::string text;
        repair_.feed({buffer_.get(), static_cast<std::size_t>(size)}, text);
        emit(text);
    }
    return size;
}

// The zombie still holds its pid, so the pid of the group is not reused. If the command was ended by SIGTERM
// or SIGKILL, the rest of its group is killed, too.
void ShellRun::on_exit(const Ending& ending) {
    if (last_signal_ == SIGTERM || last_signal_ == SIGKILL)
        kill(-pid_, SIGKILL);
    pid_ = -1;
    pause();
    drain();
    report(ending);
    if (pipe_)
        services_.leftovers.adopt(std::move(pipe_));
    const OnEnd on_end = std::move(on_end_);
    on_end(*this);  // destroys this
}

/// Sends only the bytes that are in the pipe now: leftover processes may write for ever. A pipe holds at most
/// /proc/sys/fs/pipe-max-size, so this may exceed the sink's limit.
void ShellRun::drain() {
    int left_bytes = 0;
    if (!pipe_ || ioctl(pipe_.get(), FIONREAD, &left_bytes) != 0)
        return;
    while (left_bytes > 0) {
        const ssize_t size = read_some(static_cast<std::size_t>(left_bytes));
        if (size <= 0)
            return;
        left_bytes -= static_cast<int>(size);
    }
}

void ShellRun::report(const Ending& ending) {
    if (sink_ == nullptr)
        return;
    std::string text;
    repair_.finish(text);
    emit(text);
    std::string lines = "{\"ev\":\"turn_complete\",\"data\":{\"result\":";
    const char* result = ending.exit_code() == 0 ? "success" : "error";
    base::append_json_string(lines, last_signal_ != 0 ? "interrupted" : result);
    lines += ",\"exitCode\":" + std::to_string(ending.exit_code());
    if (ending.signalled)
        lines += ",\"signal\":\"" + signal_name(ending.code) + "\"";
    lines += "}}\n";
    lines += bridge::k_done_line;
    sink_->write(lines);
    std::exchange(sink_, nullptr)->finish();
}

void ShellRun::emit(std::string_view text) {
    if (sink_ == nullptr || text.empty())
        return;
    std::string lines;
    bridge::append_text_deltas(lines, text);
    sink_->write(lines);
}

}  // namespace atl::guest
