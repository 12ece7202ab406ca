#include "http/api/process_socket.hpp"

#include <utility>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// The first byte of a binary frame.
constexpr char k_input_byte = 0;
constexpr char k_output_byte = 1;
constexpr char k_error_byte = 2;
// The byte that the line discipline of a terminal takes for the end of input (termios(3), VEOF).
constexpr char k_end_of_transmission = 4;

}  // namespace

ProcessSocket::ProcessSocket(std::unique_ptr<conversation::Lease> lease, StreamLease place, Calls calls,
                             base::SteadyTime expires_at)
    : FrameSession({base::k_process_input_bytes + 1, expires_at, std::move(calls.admit_frame)}),
      lease_(std::move(lease)),
      place_of_stream_(std::move(place)),
      is_active_(std::move(calls.is_active)),
      is_signalled_(std::move(calls.is_signalled)) {}

void ProcessSocket::attach(sandbox::Operations& operations, const std::string& id, std::uint64_t after,
                           std::function<void()> on_known) {
    on_known_ = std::move(on_known);
    lease_->on_end([this](const Error& why) {
        run_.reset();
        failure_ = why;
        cause_until_ = base::SteadyTime::min();
        changed();
    });
    run_ = operations.attach(id, after, *this);
}

void ProcessSocket::changed() {
    woken_ = true;
    if (wake_)
        wake_->post();
    else if (is_known() && on_known_)
        on_known_();
}

void ProcessSocket::on_started(pid_t pid) {
    pid_ = pid;
}

void ProcessSocket::on_position(std::uint64_t from, sandbox::StreamKind kind) {
    started_ = true;
    offset_ = from;
    has_terminal_ = kind == sandbox::StreamKind::terminal;
    write_frame(waiting_, Opcode::text, started_frame(pid_, from, kind));
    changed();
}

void ProcessSocket::on_output(sandbox::OutputKind kind, std::string_view bytes) {
    std::string payload;
    payload.reserve(1 + bytes.size());
    payload += kind == sandbox::OutputKind::standard ? k_output_byte : k_error_byte;
    payload += bytes;
    offset_ += bytes.size();
    write_frame(waiting_, Opcode::binary, payload);
    room_.fit(waiting_.size());
    changed();
}

void ProcessSocket::on_dropped(std::uint64_t bytes) {
    offset_ += bytes;
    write_frame(waiting_, Opcode::text, dropped_frame(bytes));
    changed();
}

void ProcessSocket::on_exit(const sandbox::RunExit& exit) {
    is_over_ = true;
    write_frame(waiting_, Opcode::text, exit_frame(exit, offset_));
    changed();
}

void ProcessSocket::on_failed(const Error& error) {
    failure_ = error;
    changed();
}

void ProcessSocket::produce(base::SteadyTime now) {
    woken_ = false;
    take_output();
    if (is_over_)
        return close(CloseCode::normal, "ended");
    // The end of a sandbox breaks the connection to it; what ended it is known a moment later.
    if (failure_ && cause_until_ == base::SteadyTime::max())
        cause_until_ = now + base::k_end_cause_wait;
    if (failure_ && now >= cause_until_)
        close(
            failure_->code() == Errc::bridge_failed ? CloseCode::internal_error : k_close_conversation_ended,
            base::code_name(failure_->code()), failure_->detail());
}

void ProcessSocket::take_output() {
    const bool was_full = is_full();
    if (out().empty())
        out().swap(waiting_);
    else
        out() += std::exchange(waiting_, {});
    room_.fit(waiting_.size());
    if (was_full && run_ && !is_over_)
        run_->resume();
}

void ProcessSocket::on_message(Opcode opcode, std::string_view payload) {
    if (opcode == Opcode::binary)
        return on_input(payload);
    const auto json = parse(payload);
    if (json.has_error())
        return write_rejection(out(), json.error());
    const auto frame = read_process_frame(*json);
    frame.has_error() ? write_rejection(out(), frame.error()) : handle(*frame);
}

void ProcessSocket::on_input(std::string_view bytes) {
    if (bytes.empty() || bytes[0] != k_input_byte)
        return write_rejection(
            out(), Error(Errc::invalid_field, "A binary frame begins with the byte 0, for stdin."));
    is_active_();
    if (!input_ends_)
        input_.append(bytes.substr(1));
    pass_input();
}

void ProcessSocket::handle(const ProcessFrame& frame) {
    if (!run_ || is_over_)
        return;
    is_active_();
    if (frame.kind == ProcessFrame::Kind::signal) {
        if (is_signalled_)
            is_signalled_(frame.signal);
        run_->signal(frame.signal);
    } else if (frame.kind == ProcessFrame::Kind::eof) {
        end_input();
    } else if (has_terminal_) {
        run_->resize(frame.size);
    } else {
        write_rejection(out(), Error(Errc::invalid_field, "The process has no terminal."));
    }
}

void ProcessSocket::end_input() {
    if (has_terminal_)
        input_ += k_end_of_transmission;
    else
        input_ends_ = true;
    pass_input();
}

void ProcessSocket::pass_input() {
    const bool passes = run_ && !is_over_ && !failure_;
    if (!input_.empty()) {
        input_.erase(0, passes ? run_->write(input_) : input_.size());
        if (!input_.empty())
            return;
        std::string().swap(input_);
        give_place_back();
    }
    if (passes && input_ends_)
        run_->close_input();
}

}  // namespace atl::http
