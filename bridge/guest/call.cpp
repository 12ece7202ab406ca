#include "bridge/guest/call.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "bridge/guest/log.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {
namespace {

constexpr Millis k_progress_interval{500};
static_assert(k_progress_interval < base::k_call_keepalive_interval);
// An answer of at most so many bytes goes out in one write.
constexpr std::size_t k_held_bytes = 64UL * 1024;
constexpr std::size_t k_exit_frame_bytes = bridge::k_frame_header_bytes + 3;

}  // namespace

Call::~Call() {
    // Before the coroutine goes, which owns the descriptor.
    if (fd_ >= 0)
        loop_.remove(fd_);
    loop_.cancel(turn_timer_);
    loop_.cancel(keepalive_timer_);
    task_.reset();
}

void Call::start(Work work, std::function<void()> on_gone) {
    on_gone_ = std::move(on_gone);
    work_ = std::move(work);
    connection_->follow(this);
    say_at_work();
    task_.emplace(work_(*this));
    task_->start();
    settle();
}

// The host gives up on a guest that is silent.
void Call::say_at_work() {
    const Millis interval = how_far_ ? k_progress_interval : base::k_call_keepalive_interval;
    keepalive_timer_ = loop_.arm(interval, [this] {
        if (connection_ == nullptr || replied_)
            return;
        connection_->write(how_far_ ? "{\"progress\":" + how_far_() + "}\n" : std::string("{}\n"));
        say_at_work();
    });
}

Call::Progress::Progress(Call& call, std::function<std::string()> how_far)
    : call_(call), outer_(std::exchange(call.how_far_, std::move(how_far))) {
    call_.loop_.cancel(call_.keepalive_timer_);
    call_.say_at_work();
}

void Call::reply(std::string_view members) {
    if (connection_ == nullptr || std::exchange(replied_, true))
        return;
    held_ = "{\"ok\":true";
    if (!members.empty())
        held_.append(",").append(members);
    held_ += "}\n";
}

void Call::output(std::string_view bytes) {
    while (connection_ != nullptr && !bytes.empty()) {
        const std::string_view piece = bytes.substr(0, base::k_max_frame_bytes);
        const auto header = bridge::frame_header(bridge::FrameType::output, piece.size());
        if (held_.size() + header.size() + piece.size() <= k_held_bytes) {
            held_.reserve(held_.size() + header.size() + piece.size() + k_exit_frame_bytes);
            held_.append(header.data(), header.size()).append(piece);
        } else {
            held_.append(header.data(), header.size());
            send_held(piece);
        }
        bytes.remove_prefix(piece.size());
    }
}

void Call::send_held(std::string_view behind) {
    if (connection_ != nullptr && (!held_.empty() || !behind.empty()))
        connection_->write(held_, behind);
    held_.clear();
}

void Call::wait(For what, std::coroutine_handle<> who, int fd, Millis time) {
    waiting_ = who;
    waiting_for_ = what;
    send_held();
    // Nobody waits for the result any more: the coroutine ends here, with this.
    if (connection_ == nullptr)
        return;
    if (what == For::fd && loop_.add(fd, EPOLLIN, fd_watch_)) {
        fd_ = fd;
        return;
    }
    if (what == For::input && !std::exchange(input_asked_, true)) {
        connection_->write("{\"ready\":true}\n");
        connection_->read_input(Connection::HalfClose::ends);
    }
    // Not from in here: the coroutine has not stopped yet. What has come of the input is shown then. A
    // descriptor that the loop does not take (epoll_ctl(2), EPERM: a file) is ready.
    const bool comes_by_itself = what == For::room || (what == For::input && in_input_);
    if (!comes_by_itself && turn_timer_ == 0)
        turn_timer_ = loop_.arm(time, [this] {
            turn_timer_ = 0;
            if (waiting_for_ == For::input && connection_ != nullptr)
                connection_->resume_input();
            else if (waiting_for_ != For::room && waiting_for_ != For::input && waiting_for_ != For::nothing)
                resume();
        });
}

void Call::resume() {
    if (fd_ >= 0)
        loop_.remove(std::exchange(fd_, -1));
    loop_.cancel(std::exchange(turn_timer_, 0));
    waiting_for_ = For::nothing;
    std::exchange(waiting_, {}).resume();
    settle();
}

std::size_t Call::on_input(Connection& connection, std::string_view bytes) {
    const std::size_t size = bytes.size();
    bridge::Frame frame;
    in_input_ = true;
    while (connection_ != nullptr && waiting_for_ == For::input) {
        const auto found = decoder_.next(bytes, frame);
        if (found == bridge::FrameDecoder::Found::need_more)
            break;
        const bool is_end = frame.type == bridge::FrameType::input_end;
        if (found == bridge::FrameDecoder::Found::refused ||
            (frame.type != bridge::FrameType::input && !is_end)) {
            connection.close();
            break;
        }
        if (!is_end && frame.bytes.empty())
            continue;
        piece_ = {frame.bytes, is_end};
        resume();
    }
    in_input_ = false;
    return size - bytes.size();
}

void Call::on_drained(Connection&) {
    if (waiting_for_ == For::room)
        resume();
}

// The coroutine may be running: it ends at its next wait.
void Call::on_closed(Connection&) {
    connection_ = nullptr;
    gone();
}

/// The coroutine has stopped, for a while or for good.
void Call::settle() {
    if (!task_->is_done() || connection_ == nullptr)
        return;
    CallEnd end;
    try {
        end = task_->result();
    } catch (const std::exception& error) {
        log(std::string("a call failed: ") + error.what());
        end = {"the guest could not do it: " + std::string(error.what()), {}};
    }
    if (end.is_good()) {
        reply({});
        held_ += bridge::encode_exit({});
    } else if (!replied_) {
        held_ = bridge::encode_refusal(end.error, end.code);
    }
    send_held();
    Connection* const connection = std::exchange(connection_, nullptr);
    connection->follow(nullptr);
    // Input that nobody read must not become the next command.
    end.is_good() && !input_asked_ ? connection->finish() : connection->break_off();
    gone();
}

void Call::gone() {
    if (on_gone_)
        loop_.defer(std::exchange(on_gone_, nullptr));
}

}  // namespace atl::guest
