#include "bridge/guest/background_process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "bridge/guest/exec_run.hpp"
#include "bridge/guest/proc_scan.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_kept_read_bytes = k_ring_piece_bytes;
// Two pipes of the usual size hold so much. It is read when the process ends, even if a reader is slow.
constexpr int k_drained_bytes = 128 * 1024;
// Graces of k_output_grace while output still comes behind the end; and for all that holds up the exit.
constexpr int k_most_output_waits = 20;
constexpr int k_most_end_waits = 40;
static_assert(k_most_end_waits * k_output_grace >= k_most_output_waits * k_output_grace + k_reader_patience);
static_assert(k_kept_read_bytes + k_drained_bytes < k_kept_output_bytes / 2);

std::int64_t wall_clock_ms() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<Millis>(now).count();
}

}  // namespace

BackgroundProcess::BackgroundProcess(Services& services, Spec spec)
    : services_(services),
      spec_(std::move(spec)),
      started_ms_(wall_clock_ms()),
      input_(services.loop, [this](std::size_t bytes) { on_passed(bytes); }) {}

BackgroundProcess::~BackgroundProcess() {
    services_.loop.cancel(timer_);
    services_.loop.cancel(patience_);
    pause(output_);
    pause(error_);
    if (pid_ > 0 && !ending_)
        services_.children.forget(pid_);
}

ProgramRefusal BackgroundProcess::start(std::function<void()> on_end) {
    ProgramRefusal refusal = launch();
    if (!refusal.error.empty())
        return refusal;
    on_end_ = std::move(on_end);
    services_.children.watch(pid_, [this](const Ending& ending) { on_exit(ending); });
    if (spec_.program.timeout > Millis{0})
        timer_ = services_.loop.arm(spec_.program.timeout, [this] {
            timed_out_ = true;
            escalate(SIGTERM);
        });
    listen(output_);
    listen(error_);
    return {};
}

ProgramRefusal BackgroundProcess::launch() {
    SpawnRequest spawned;
    ProgramRefusal refusal = spec_.terminal ? launch_in_terminal(spawned) : launch_with_pipes(spawned);
    // The timeout is all of the program that is needed after the start.
    spec_.program = {{}, {}, {}, {}, spec_.program.timeout, {}};
    return refusal;
}

ProgramRefusal BackgroundProcess::launch_in_terminal(SpawnRequest& spawned) {
    Terminal terminal = open_terminal(*spec_.terminal);
    if (terminal.path.empty()) {
        const int why = errno;
        return {std::string("no terminal for the program: ") + strerrordesc_np(why), bridge::refusal::busy};
    }
    output_.fd = std::move(terminal.master);
    holder_ = std::move(terminal.holder);
    input_.open(base::UniqueFd(fcntl(output_.fd.get(), F_DUPFD_CLOEXEC, 0)));
    spawned.terminal = terminal.path;
    std::vector<std::string>& environment = spec_.program.environment;
    const auto names_terminal = [](const std::string& entry) { return entry.starts_with("TERM="); };
    if (std::none_of(environment.begin(), environment.end(), names_terminal))
        environment.emplace_back("TERM=xterm-256color");
    return run(spawned);
}

ProgramRefusal BackgroundProcess::launch_with_pipes(SpawnRequest& spawned) {
    base::UniqueFd input;
    base::UniqueFd program_input;
    base::UniqueFd program_output;
    base::UniqueFd program_error;
    const bool with_input = spec_.program.stdin_kind == ProgramRequest::Stdin::pipe;
    if ((with_input && !make_pipe(input, program_input, 1)) || !make_pipe(output_.fd, program_output, 0) ||
        !make_pipe(error_.fd, program_error, 0)) {
        const int why = errno;
        return program_refusal(why, std::string("no pipe for the program: ") + strerrordesc_np(why));
    }
    input_.open(std::move(input));
    spawned.input_fd = program_input.get();
    spawned.output_fd = program_output.get();
    spawned.error_fd = program_error.get();
    return run(spawned);
}

ProgramRefusal BackgroundProcess::run(SpawnRequest& spawned) {
    const pid_t pid = spawn_program(spawned, spec_.program);
    if (pid < 0)
        return program_refusal(-pid, spawn_error(spawned, -pid));
    pid_ = pid;
    return {};
}

bool BackgroundProcess::attach(Connection& connection, std::uint64_t after, Attachment::Use use) {
    attachments_.remove_if([](const Attachment& one) { return one.is_over(); });
    if (attachments_.size() >= base::k_max_process_followers)
        return false;
    const std::uint64_t from = std::min(after, ring_.end());
    Attachment& added = attachments_.emplace_back(*this, services_.loop, connection, from, use);
    connection.follow(&added);
    connection.write(bridge::encode_attached(pid_, from, spec_.terminal.has_value()));
    connection.read_input(Connection::HalfClose::ends_behind_input);
    added.pump();
    return true;
}

std::size_t BackgroundProcess::followers() const {
    return static_cast<std::size_t>(std::count_if(attachments_.begin(), attachments_.end(),
                                                  [](const Attachment& one) { return !one.is_over(); }));
}

bool BackgroundProcess::signal(int number) {
    if (ending_)
        return false;
    if (number == SIGKILL) {
        killed_ = true;
        signal_all(number);
        return true;
    }
    kill(-pid_, number);
    if (const pid_t foreground = foreground_group(); foreground != pid_)
        kill(-foreground, number);
    return true;
}

/// Or its own group.
pid_t BackgroundProcess::foreground_group() const {
    const pid_t foreground = spec_.terminal && output_.fd ? tcgetpgrp(output_.fd.get()) : -1;
    return foreground > 1 ? foreground : pid_;
}

// The jobs of a shell have groups of their own. Precondition: it has not been reaped.
void BackgroundProcess::signal_all(int number) {
    kill(-pid_, number);
    const pid_t foreground = foreground_group();
    if (foreground != pid_)
        kill(-foreground, number);
    signal_session(pid_, foreground, number);
}

bool BackgroundProcess::resize(const TerminalSize& size) {
    if (!spec_.terminal || ending_ || !output_.fd)
        return false;
    spec_.terminal = size;
    return resize_terminal(output_.fd.get(), size);
}

void BackgroundProcess::write_input(Attachment& by, std::string_view bytes) {
    if (bytes.empty() || !takes_input())
        return by.on_passed(bytes.size());
    if (waiting_.empty() || waiting_.back().from != &by)
        waiting_.push_back({&by, 0});
    waiting_.back().bytes += bytes.size();
    input_.write(bytes);
}

void BackgroundProcess::on_passed(std::size_t bytes) {
    while (bytes > 0) {
        Waiting& first = waiting_.front();
        const std::size_t passed = std::min(bytes, first.bytes);
        bytes -= passed;
        first.bytes -= passed;
        if (first.from != nullptr)
            first.from->on_passed(passed);
        if (first.bytes == 0)
            waiting_.pop_front();
    }
}

void BackgroundProcess::leave_input(const Attachment& who) {
    std::size_t room = base::k_left_input_bytes;
    for (const Waiting& one : waiting_)
        room -= one.from == nullptr ? one.bytes : 0;
    std::deque<Waiting> left;
    std::size_t offset = 0;
    for (Waiting& one : waiting_) {
        if (one.from == &who) {
            const std::size_t kept = std::min(one.bytes, room);
            input_.drop(offset + kept, one.bytes - kept);
            room -= kept;
            one = {nullptr, kept};
        }
        offset += one.bytes;
        if (one.bytes > 0 && one.from == nullptr && !left.empty() && left.back().from == nullptr)
            left.back().bytes += one.bytes;
        else if (one.bytes > 0)
            left.push_back(one);
    }
    waiting_ = std::move(left);
}

void BackgroundProcess::end_input() {
    if (!spec_.terminal)
        input_.end();
}

std::string BackgroundProcess::line() const {
    std::string line = "{\"id\":";
    base::append_json_string(line, spec_.id);
    line.append(",").append(spec_.described);
    line += ",\"pid\":" + std::to_string(pid_) + ",\"startedAtMs\":" + std::to_string(started_ms_) +
            ",\"first\":" + std::to_string(ring_.first()) + ",\"end\":" + std::to_string(ring_.end());
    if (spec_.terminal)
        line += ",\"columns\":" + std::to_string(spec_.terminal->columns) +
                ",\"rows\":" + std::to_string(spec_.terminal->rows);
    if (exit_)
        line += ",\"exitCode\":" + std::to_string(exit_->code) +
                ",\"signal\":" + std::to_string(exit_->signal) +
                ",\"timedOut\":" + (exit_->timed_out ? "true" : "false");
    return line + "}\n";
}

void BackgroundProcess::on_output(Output& output) {
    const ssize_t size = read_some(output, k_kept_read_bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size > 0) {
        for (Attachment& attachment : attachments_)
            attachment.pump();
        if (must_wait())
            wait_for_readers();
        return;
    }
    // The output has ended. A terminal tells EIO when its program has ended and nobody holds its other end.
    pause(output);
    output.fd.reset();
    if (ending_ && !has_output())
        finish();
}

/// Reads once into the ring; returns what read(2) did.
ssize_t BackgroundProcess::read_some(Output& output, std::size_t limit_bytes) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_kept_read_bytes);
    const ssize_t size = read(output.fd.get(), buffer.get(), std::min(limit_bytes, k_kept_read_bytes));
    if (size > 0)
        ring_.append(output.type, {buffer.get(), static_cast<std::size_t>(size)});
    return size;
}

void BackgroundProcess::listen(Output& output) {
    if (!output.listening && output.fd)
        output.listening = services_.loop.add(output.fd.get(), EPOLLIN, output);
}

// Out of the loop altogether: epoll reports a hang-up also to those who wait for nothing.
void BackgroundProcess::pause(Output& output) {
    if (output.listening)
        services_.loop.remove(output.fd.get());
    output.listening = false;
}

bool BackgroundProcess::must_wait() const {
    return std::any_of(attachments_.begin(), attachments_.end(), [](const Attachment& one) {
        return one.would_lose(k_kept_read_bytes + k_drained_bytes);
    });
}

void BackgroundProcess::wait_for_readers() {
    pause(output_);
    pause(error_);
    services_.loop.cancel(std::exchange(patience_, 0));
    patience_ = services_.loop.arm(k_reader_patience, [this] {
        patience_ = 0;
        for (Attachment& attachment : attachments_)
            if (attachment.would_lose(k_kept_read_bytes + k_drained_bytes))
                attachment.give_up();
        stop_waiting();
    });
}

void BackgroundProcess::on_read() {
    if (patience_ != 0 && !must_wait())
        stop_waiting();
}

void BackgroundProcess::stop_waiting() {
    services_.loop.cancel(std::exchange(patience_, 0));
    listen(output_);
    listen(error_);
}

void BackgroundProcess::escalate(int signal_number) {
    killed_ = true;
    signal_all(signal_number);
    services_.loop.cancel(std::exchange(timer_, 0));
    if (signal_number == SIGTERM)
        timer_ = services_.loop.arm(k_kill_grace, [this] { escalate(SIGKILL); });
}

// The zombie still holds its number, so the session can be signalled for certain: what a program left behind
// that had to be ended ends as well.
void BackgroundProcess::on_exit(const Ending& ending) {
    if (killed_)
        signal_all(SIGKILL);
    ending_ = ending;
    services_.loop.cancel(std::exchange(timer_, 0));
    input_.close();
    holder_.reset();
    if (!has_output())
        return finish();
    await_output();
}

// Readers for whose sake nothing is read are waited for first; so is output that still comes; both for a
// while: what is left in the background may write for ever.
void BackgroundProcess::await_output() {
    timer_ = services_.loop.arm(k_output_grace, [this, seen = ring_.end()] {
        timer_ = 0;
        const bool comes = ring_.end() != seen && ++output_waits_ < k_most_output_waits;
        const bool waits = (patience_ != 0 || comes) && ++end_waits_ < k_most_end_waits;
        waits ? await_output() : finish();
    });
}

void BackgroundProcess::finish() {
    services_.loop.cancel(std::exchange(timer_, 0));
    services_.loop.cancel(std::exchange(patience_, 0));
    for (Output* output : {&output_, &error_}) {
        pause(*output);
        drain(*output);
        // Closing a terminal hangs it up; a pipe that others hold is read to nowhere.
        if (output->fd && !spec_.terminal)
            services_.orphan_pipes.adopt(std::move(output->fd));
        output->fd.reset();
    }
    const auto number = static_cast<std::uint8_t>(ending_->code);
    exit_ = {ending_->signalled ? std::uint8_t{0} : number, ending_->signalled ? number : std::uint8_t{0},
             timed_out_};
    for (Attachment& attachment : attachments_)
        attachment.pump();
    on_end_();
}

/// Takes what is there now, and no more: others may write on for ever.
void BackgroundProcess::drain(Output& output) {
    // A terminal does not tell what waits behind its line discipline.
    int left_bytes = k_drained_bytes;
    if (!output.fd || (!spec_.terminal && ioctl(output.fd.get(), FIONREAD, &left_bytes) != 0))
        return;
    while (left_bytes > 0) {
        const ssize_t size = read_some(output, static_cast<std::size_t>(left_bytes));
        if (size <= 0)
            return;
        left_bytes -= static_cast<int>(size);
    }
}

Attachment::Attachment(BackgroundProcess& process, Loop& loop, Connection& connection, std::uint64_t offset,
                       Use use)
    : FrameUser(connection),
      process_(process),
      use_(use),
      offset_(offset),
      window_(loop, [this](std::uint32_t bytes) {
          if (connection_ != nullptr)
              connection_->write(bridge::encode_grant(bytes));
      }) {}

Attachment::~Attachment() {
    if (connection_ == nullptr)
        return;
    connection_->follow(nullptr);
    connection_->break_off();
}

void Attachment::pump() {
    const OutputRing& ring = process_.output();
    if (use_ == Use::feed)
        offset_ = ring.end();
    while (connection_ != nullptr && connection_->wants_more() && offset_ != ring.end()) {
        if (offset_ < ring.first()) {
            connection_->write(bridge::encode_dropped(ring.first() - offset_));
            offset_ = ring.first();
        }
        const OutputRing::Piece piece = ring.at(offset_);
        std::string frame;
        frame.reserve(bridge::k_frame_header_bytes + piece.bytes.size());
        bridge::append_frame(frame, piece.stream, piece.bytes);
        connection_->write(frame);
        offset_ += piece.bytes.size();
    }
    if (ring.end() - offset_ <= k_kept_output_bytes / 2)
        slow_ = false;
    if (connection_ != nullptr && offset_ == ring.end() && process_.exit())
        send_exit();
}

bool Attachment::would_lose(std::uint64_t bytes) const {
    const std::uint64_t behind = process_.output().end() - offset_;
    return connection_ != nullptr && !slow_ && behind + bytes > k_kept_output_bytes;
}

void Attachment::send_exit() {
    Connection* const connection = std::exchange(connection_, nullptr);
    connection->follow(nullptr);
    connection->write(bridge::encode_exit(*process_.exit()));
    connection->break_off();
}

/// False: nothing that the host may send.
bool Attachment::handle(const bridge::Frame& frame) {
    switch (frame.type) {
        case bridge::FrameType::input:
            return pass_on(frame.bytes);
        case bridge::FrameType::input_end:
            process_.end_input();
            return true;
        case bridge::FrameType::signal:
            if (frame.number == 0 || frame.number >= static_cast<std::uint64_t>(NSIG))
                return false;
            process_.signal(static_cast<int>(frame.number));
            return true;
        case bridge::FrameType::resize:
            process_.resize({static_cast<std::uint16_t>(frame.number & 0xFFFF),
                             static_cast<std::uint16_t>(frame.number >> 16U)});
            return frame.number != 0;
        default:
            return false;
    }
}

bool Attachment::pass_on(std::string_view bytes) {
    if (!window_.take(bytes.size()))
        return false;
    process_.write_input(*this, bytes);
    return true;
}

void Attachment::on_drained(Connection&) {
    pump();
    process_.on_read();
}

void Attachment::on_closed(Connection&) {
    connection_ = nullptr;
    process_.leave_input(*this);
    process_.on_read();
}

}  // namespace atl::guest
