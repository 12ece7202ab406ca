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
namespace {

/// A pipe whose end `ours` is nonblocking; the result is the other end, or none with errno set.
base::UniqueFd make_pipe(base::UniqueFd& ours) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return {};
    ours.reset(ends[0]);
    // Only the guest's end: each end of a pipe has a file description of its own.
    fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    return base::UniqueFd(ends[1]);
}

/// True if chdir(2) fails so for a folder that is gone or shut. Other errors do not come from the folder.
bool is_no_way_in(int error_number) {
    return error_number == ENOENT || error_number == ENOTDIR || error_number == EACCES ||
           error_number == ELOOP || error_number == ENAMETOOLONG;
}

}  // namespace

ShellRun::ShellRun(Services& services, std::string turn, TurnSink& sink, OnEnd on_end)
    : services_(services), turn_(std::move(turn)), sink_(&sink), on_end_(std::move(on_end)) {}

ShellRun::~ShellRun() {
    services_.loop.cancel(timer_);
    services_.loop.cancel(gather_timer_);
    pause();
    if (pid_ > 0)
        services_.children.forget(pid_);
}

ShellRun::Failure ShellRun::start(std::string_view script, const ShellState& state) {
    if (script.find('\0') != std::string_view::npos)
        return {"a message with a NUL character cannot be run"};
    const base::UniqueFd output = make_pipe(output_.pipe);
    const base::UniqueFd errors = make_pipe(errors_.pipe);
    if (!output || !errors)
        return {std::string("no pipe for the command: ") + strerrordesc_np(errno)};
    if (Failure failure = launch(script, state, output.get(), errors.get()); !failure.error.empty())
        return failure;
    services_.children.watch(pid_, [this](const Ending& ending) { on_exit(ending); });
    buffer_ = std::make_unique_for_overwrite<char[]>(bridge::k_max_delta_bytes);
    listen();
    return {};
}

ShellRun::Failure ShellRun::launch(std::string_view script, const ShellState& state, int output_fd,
                                   int error_fd) {
    state_file_ = StateFile::make(services_.state_folder);
    SpawnRequest request;
    request.directory = state.directory.empty() ? services_.workspace : state.directory;
    request.output_fd = output_fd;
    request.error_fd = error_fd;
    if (state.environment)
        request.whole_environment = &*state.environment;
    pid_ = spawn_message(request, script);
    if (is_no_way_in(-pid_) && request.directory != services_.workspace) {
        const std::string gone = std::exchange(request.directory, services_.workspace);
        pid_ = spawn_message(request, script);
        if (pid_ > 0)
            emit(errors_.stream, "shell: cannot enter " + base::excerpt(gone, base::k_quoted_line_bytes) +
                                     "; this runs in " + services_.workspace + "\n");
    }
    return pid_ > 0 ? Failure() : Failure{spawn_error(request, -pid_), -pid_};
}

/// With the program that tells the state. Where there is no bash, or no file for the state: without.
pid_t ShellRun::spawn_message(SpawnRequest& request, std::string_view script) {
    if (!state_file_)
        return spawn_shell(request, script);
    const bool is_small = script.size() <= k_max_inline_script_bytes;
    const MessageIn where = is_small ? MessageIn::argument : MessageIn::file;
    request.argv = {"/bin/bash", "-c", shell_program(state_file_->path(), where), "/bin/bash"};
    base::UniqueFd file;
    if (is_small) {
        request.argv.emplace_back(script);
    } else {
        file = memory_file(script);
        if (!file)
            return -ENOMEM;
        request.script_fd = file.get();
    }
    const pid_t pid = spawn(request);
    request.script_fd = -1;
    return pid == -ENOENT ? spawn_shell(request, script) : pid;
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
    tree_.signal(pid_, signal_number);
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
    for (Output* const output : {&output_, &errors_})
        if (!output->listening && output->pipe)
            output->listening = services_.loop.add(output->pipe.get(), EPOLLIN, *output);
}

void ShellRun::pause() {
    pause(output_);
    pause(errors_);
}

// Removes the descriptor from the loop: epoll reports a hang-up even if no event is asked for.
void ShellRun::pause(Output& output) {
    if (output.listening)
        services_.loop.remove(output.pipe.get());
    output.listening = false;
}

void ShellRun::on_output(Output& output) {
    const ssize_t size = read_some(output, bridge::k_max_delta_bytes);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        pause(output);
        output.pipe.reset();  // all writers closed it; the exit is still to come
    } else if (sink_ != nullptr && !sink_->wants_more()) {
        pause();
    }
}

/// Reads once and sends the text on; returns the result of read(2).
ssize_t ShellRun::read_some(Output& output, std::size_t limit_bytes) {
    const ssize_t size =
        read(output.pipe.get(), buffer_.get(), std::min(limit_bytes, bridge::k_max_delta_bytes));
    if (size > 0) {
        std::string text;
        output.repair.feed({buffer_.get(), static_cast<std::size_t>(size)}, text);
        emit(output.stream, text);
    }
    return size;
}

// The zombie still holds its pid, so the pid of the group is not reused. If the command was interrupted, the
// rest of what it started is killed, too: a job in the background ignores SIGINT (bash(1)).
void ShellRun::on_exit(const Ending& ending) {
    if (last_signal_ != 0)
        tree_.signal(pid_, SIGKILL);
    pid_ = -1;
    pause();
    for (Output* const output : {&output_, &errors_}) {
        drain(*output);
        if (output->pipe)
            services_.orphan_pipes.adopt(std::move(output->pipe));
    }
    auto left = left_state();
    report(ending);
    const OnEnd on_end = std::move(on_end_);
    on_end(*this, std::move(left));  // destroys this
}

/// Sends only the bytes that are in the pipe now: leftover processes may write for ever. A pipe holds at most
/// /proc/sys/fs/pipe-max-size, so this may exceed the sink's limit.
void ShellRun::drain(Output& output) {
    int left_bytes = 0;
    if (output.pipe && ioctl(output.pipe.get(), FIONREAD, &left_bytes) == 0) {
        while (left_bytes > 0) {
            const ssize_t size = read_some(output, static_cast<std::size_t>(left_bytes));
            if (size <= 0)
                break;
            left_bytes -= static_cast<int>(size);
        }
    }
    std::string text;
    output.repair.finish(text);
    emit(output.stream, text);
}

/// Nobody hears of the state that an abandoned turn ended with: the next one does not begin there.
std::optional<ShellState> ShellRun::left_state() {
    if (!state_file_ || abandoned())
        return std::nullopt;
    ShellState state;
    switch (state_file_->read(state)) {
        case StateFile::Found::not_begun:
            // Perhaps for a variable (LD_PRELOAD), which no message could unset then.
            if (last_signal_ != 0)
                return std::nullopt;
            emit(errors_.stream,
                 "shell: the message did not begin to run; the next one has the directory "
                 "and the variables of a new sandbox\n");
            return ShellState{};
        case StateFile::Found::nothing:
            return std::nullopt;
        case StateFile::Found::too_much:
            emit(errors_.stream, "shell: the exported variables and the directory are more than " +
                                     std::to_string(base::k_max_shell_state_bytes) +
                                     " bytes; the next message has those of before\n");
            return std::nullopt;
        case StateFile::Found::state:
            add_injected(*state.environment);
            break;
    }
    return state;
}

void ShellRun::report(const Ending& ending) {
    if (sink_ == nullptr)
        return;
    std::string lines;
    gather_.flush(lines);
    lines += "{\"ev\":\"turn_complete\",\"data\":{\"result\":";
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

void ShellRun::emit(std::string_view stream, std::string_view text) {
    if (sink_ == nullptr || text.empty())
        return;
    std::string lines;
    const bool begins = gather_.feed(stream, text, lines);
    if (!lines.empty())
        sink_->write(lines);
    if (begins)
        arm_gather();
}

void ShellRun::arm_gather() {
    gather_timer_ = services_.loop.arm(k_delta_gather, [this] {
        gather_timer_ = 0;
        std::string lines;
        const bool goes_on = gather_.expire(lines);
        if (sink_ == nullptr)
            return;
        if (!lines.empty())
            sink_->write(lines);
        if (goes_on)
            arm_gather();
    });
}

}  // namespace atl::guest
