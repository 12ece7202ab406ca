#include "bridge/guest/exec_run.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_exec_read_bytes = 32UL * 1024;
static_assert(k_exec_read_bytes <= base::k_max_frame_bytes);

}  // namespace

ExecRun::ExecRun(Services& services, Connection& connection)
    : FrameUser(connection),
      services_(services),
      window_(services.loop,
              [this](std::uint32_t bytes) {
                  if (connection_ != nullptr)
                      connection_->write(bridge::encode_grant(bytes));
              }),
      input_(services.loop, [this](std::size_t bytes) { window_.passed(bytes); }) {}

ExecRun::~ExecRun() {
    services_.loop.cancel(timer_);
    pause(output_);
    pause(error_);
    if (pid_ > 0)
        services_.children.forget(pid_);
}

ProgramRefusal ExecRun::start(const ProgramRequest& request, std::function<void()> on_gone) {
    ProgramRefusal refusal = launch(request);
    if (!refusal.error.empty())
        return refusal;
    on_gone_ = std::move(on_gone);
    services_.children.watch(pid_, [this](const Ending& ending) { on_exit(ending); });
    if (request.timeout > Millis{0})
        timer_ = services_.loop.arm(request.timeout, [this] {
            timed_out_ = true;
            escalate(SIGTERM);
        });
    connection_->follow(this);
    connection_->write(bridge::encode_started(pid_));
    connection_->read_input(Connection::HalfClose::ends);
    listen(output_);
    listen(error_);
    return {};
}

ProgramRefusal ExecRun::launch(const ProgramRequest& request) {
    base::UniqueFd input;
    base::UniqueFd program_input;
    base::UniqueFd program_output;
    base::UniqueFd program_error;
    const bool with_input = request.stdin_kind == ProgramRequest::Stdin::pipe;
    if ((with_input && !make_pipe(input, program_input, 1)) || !make_pipe(output_.pipe, program_output, 0) ||
        !make_pipe(error_.pipe, program_error, 0)) {
        const int why = errno;
        return program_refusal(why, std::string("no pipe for the program: ") + strerrordesc_np(why));
    }
    SpawnRequest spawned;
    spawned.input_fd = program_input.get();
    spawned.output_fd = program_output.get();
    spawned.error_fd = program_error.get();
    const pid_t pid = spawn_program(spawned, request);
    if (pid < 0)
        return program_refusal(-pid, spawn_error(spawned, -pid));
    pid_ = pid;
    input_.open(std::move(input));
    return {};
}

/// False: nothing that the host may send.
bool ExecRun::handle(const bridge::Frame& frame) {
    switch (frame.type) {
        case bridge::FrameType::input:
            if (!window_.take(frame.bytes.size()))
                return false;
            input_.write(frame.bytes);
            return true;
        case bridge::FrameType::input_end:
            input_.end();
            return true;
        case bridge::FrameType::signal:
            if (frame.number == 0 || frame.number >= static_cast<std::uint32_t>(NSIG))
                return false;
            if (pid_ > 0)
                kill(-pid_, static_cast<int>(frame.number));
            return true;
        default:
            return false;
    }
}

void ExecRun::on_output(Output& output) {
    const ssize_t size = read_some(output, k_exec_read_bytes);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        pause(output);
        output.pipe.reset();
        if (ending_ && !output_.pipe && !error_.pipe)
            finish();
        return;
    }
    if (!connection_->wants_more()) {
        pause(output_);
        pause(error_);
    }
}

/// Reads once and sends the bytes on as a frame; returns what read(2) did.
ssize_t ExecRun::read_some(Output& output, std::size_t limit_bytes) {
    const auto buffer =
        std::make_unique_for_overwrite<char[]>(bridge::k_frame_header_bytes + k_exec_read_bytes);
    const ssize_t size = read(output.pipe.get(), buffer.get() + bridge::k_frame_header_bytes,
                              std::min(limit_bytes, k_exec_read_bytes));
    if (size <= 0)
        return size;
    const auto bytes = static_cast<std::size_t>(size);
    const auto header = bridge::frame_header(output.type, bytes);
    std::copy(header.begin(), header.end(), buffer.get());
    connection_->write({buffer.get(), bridge::k_frame_header_bytes + bytes});
    return size;
}

void ExecRun::listen(Output& output) {
    if (!output.listening && output.pipe)
        output.listening = services_.loop.add(output.pipe.get(), EPOLLIN, output);
}

// Out of the loop altogether: epoll reports a hang-up also to those who wait for nothing.
void ExecRun::pause(Output& output) {
    if (output.listening)
        services_.loop.remove(output.pipe.get());
    output.listening = false;
}

void ExecRun::on_drained(Connection&) {
    listen(output_);
    listen(error_);
}

void ExecRun::on_closed(Connection&) {
    connection_ = nullptr;
    input_.close();
    leave(output_);
    leave(error_);
    if (ending_)
        return gone();
    escalate(SIGTERM);
}

void ExecRun::escalate(int signal_number) {
    forced_ = true;
    tree_.signal(pid_, signal_number);
    services_.loop.cancel(std::exchange(timer_, 0));
    if (signal_number == SIGTERM)
        timer_ = services_.loop.arm(k_kill_grace, [this] { escalate(SIGKILL); });
}

// The zombie still holds its number, so its group and its descendants can be signalled for certain: what a
// program left behind that had to be ended ends as well.
void ExecRun::on_exit(const Ending& ending) {
    if (forced_)
        tree_.signal(pid_, SIGKILL);
    pid_ = -1;
    ending_ = ending;
    services_.loop.cancel(std::exchange(timer_, 0));
    if (connection_ == nullptr)
        return gone();
    if (!output_.pipe && !error_.pipe)
        return finish();
    timer_ = services_.loop.arm(k_output_grace, [this] {
        timer_ = 0;
        finish();
    });
}

void ExecRun::finish() {
    services_.loop.cancel(std::exchange(timer_, 0));
    for (Output* output : {&output_, &error_}) {
        pause(*output);
        drain(*output);
        leave(*output);
    }
    input_.close();
    const auto number = static_cast<std::uint8_t>(ending_->code);
    Connection* const connection = std::exchange(connection_, nullptr);
    connection->follow(nullptr);
    connection->write(bridge::encode_exit({ending_->signalled ? std::uint8_t{0} : number,
                                           ending_->signalled ? number : std::uint8_t{0}, timed_out_}));
    connection->break_off();
    gone();
}

/// Sends what is in the pipe now, and no more. A pipe holds at most /proc/sys/fs/pipe-max-size, so this may
/// go beyond what the connection wants.
void ExecRun::drain(Output& output) {
    int left_bytes = 0;
    if (!output.pipe || ioctl(output.pipe.get(), FIONREAD, &left_bytes) != 0)
        return;
    while (left_bytes > 0) {
        const ssize_t size = read_some(output, static_cast<std::size_t>(left_bytes));
        if (size <= 0)
            return;
        left_bytes -= static_cast<int>(size);
    }
}

/// Bytes that others write to the pipe from now on go nowhere.
void ExecRun::leave(Output& output) {
    pause(output);
    if (output.pipe)
        services_.orphan_pipes.adopt(std::move(output.pipe));
}

void ExecRun::gone() {
    services_.loop.defer(std::move(on_gone_));
}

}  // namespace atl::guest
