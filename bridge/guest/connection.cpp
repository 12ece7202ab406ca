#include "bridge/guest/connection.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {

Connection::Connection(base::UniqueFd socket, Loop& loop, ConnectionOwner& owner)
    : socket_(std::move(socket)), loop_(loop), owner_(owner) {}

Connection::~Connection() {
    if (in_loop_)
        loop_.remove(socket_.get());
}

void Connection::open() {
    read_command();
}

void Connection::close() {
    if (phase_ == Phase::closed)
        return;
    phase_ = Phase::closed;
    if (in_loop_)
        loop_.remove(socket_.get());
    in_loop_ = false;
    socket_.reset();
    if (user_ != nullptr)
        std::exchange(user_, nullptr)->on_closed(*this);
    owner_.on_gone(*this);
}

void Connection::on_ready(std::uint32_t events) {
    if (phase_ == Phase::command)
        return read_command();
    if (input_state_ != Input::unread)
        return on_stream(events);
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        return close();
    if ((events & EPOLLIN) != 0) {
        input_early_ = true;
        watch();
    }
    if ((events & EPOLLOUT) != 0)
        flush();
}

// Each event reads once, so that a long command of one connection does not hold up the others.
void Connection::read_command() {
    char chunk[4096];
    const ssize_t size = recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return watch();
    if (size <= 0)
        return close();
    const std::size_t before = input_.size();
    input_.append(chunk, static_cast<std::size_t>(size));
    const std::size_t newline = input_.find('\n', before);
    if (newline != std::string::npos)
        return accept_command(newline);
    if (input_.size() <= bridge::k_max_command_line_bytes)
        return watch();
    phase_ = Phase::stream;
    write(bridge::encode_refusal("the command is too long"));
    break_off();
}

void Connection::accept_command(std::size_t newline) {
    phase_ = Phase::stream;
    const std::string input = std::move(input_);
    input_ = {};
    owner_.on_command(*this, std::string_view(input).substr(0, newline));
    // A connection that the command left open stays open until the command ends or the host leaves.
    if (phase_ == Phase::closed)
        return;
    const std::string_view behind = std::string_view(input).substr(newline + 1);
    if (input_state_ == Input::read && !behind.empty())
        return show(behind);
    // A command that asks for input later gets this, too.
    if (phase_ == Phase::stream)
        input_.assign(behind);
    watch();
}

void Connection::read_input(HalfClose half_close) {
    if (phase_ != Phase::stream)
        return;
    input_state_ = Input::read;
    half_close_ = half_close;
    input_.empty() ? watch() : resume_input();
}

void Connection::on_stream(std::uint32_t events) {
    const bool hung_up = (events & (EPOLLHUP | EPOLLERR)) != 0;
    const bool reads = input_state_ == Input::read && input_.empty();
    if (hung_up && reads && half_close_ == HalfClose::ends_behind_input)
        return read_some();
    // Once this end was shut, a hang-up may be no more than the host's half-close, and input may be left.
    if ((hung_up && !output_shut_) || (half_close_ == HalfClose::ends && (events & EPOLLRDHUP) != 0))
        return close();
    if (hung_up && !reads) {
        loop_.remove(socket_.get());
        in_loop_ = false;
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP)) != 0 && reads)
        read_some();
    if ((events & EPOLLOUT) != 0 && phase_ != Phase::closed)
        flush();
}

void Connection::read_some() {
    // All connections share this buffer: bytes that an event leaves unused are copied before the next event.
    static std::array<char, k_connection_read_bytes> buffer;
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size < 0 || (size == 0 && half_close_ != HalfClose::told))
        return close();
    if (size > 0)
        return show({buffer.data(), static_cast<std::size_t>(size)});
    input_state_ = Input::ended;
    watch();
    user_->on_input_end(*this);
}

void Connection::show(std::string_view bytes) {
    const std::size_t used = user_->on_input(*this, bytes);
    if (input_state_ != Input::read || phase_ == Phase::closed)
        return;
    input_.assign(bytes.substr(used));
    watch();
}

void Connection::resume_input() {
    if (input_.empty() || input_state_ != Input::read)
        return;
    const std::string bytes = std::exchange(input_, {});
    show(bytes);
}

// The usual turn changes nothing here: input that comes early is what the loop stops looking at.
std::uint32_t Connection::watched() const {
    const std::uint32_t output = output_.empty() ? 0 : std::uint32_t{EPOLLOUT};
    if (input_state_ == Input::unread)
        return EPOLLRDHUP | (input_early_ ? 0 : std::uint32_t{EPOLLIN}) | output;
    const bool reads = input_state_ == Input::read && input_.empty();
    return (half_close_ == HalfClose::ends ? std::uint32_t{EPOLLRDHUP} : 0) |
           (reads ? std::uint32_t{EPOLLIN} : 0) | output;
}

void Connection::write(std::string_view bytes) {
    write({}, bytes);
}

void Connection::write(std::string_view head, std::string_view bytes) {
    if (phase_ != Phase::stream || output_ends_)
        return;
    if (output_.empty()) {
        iovec parts[] = {{const_cast<char*>(head.data()), head.size()},
                         {const_cast<char*>(bytes.data()), bytes.size()}};
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = std::size(parts);
        const ssize_t size = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        // A peer that is gone is told by the loop: the caller is not ready for the stream's end in here.
        const std::size_t sent = size > 0 ? static_cast<std::size_t>(size) : 0;
        const std::size_t sent_of_head = std::min(sent, head.size());
        head.remove_prefix(sent_of_head);
        bytes.remove_prefix(sent - sent_of_head);
        if (head.empty() && bytes.empty())
            return;
    }
    // A queue that is written to as fast as it is read is never empty.
    if (sent_bytes_ >= base::k_guest_queue_bytes)
        output_.erase(0, std::exchange(sent_bytes_, 0));
    output_.append(head).append(bytes);
    watch();
}

bool Connection::wants_more() const {
    return output_.size() - sent_bytes_ < base::k_guest_queue_bytes;
}

void Connection::end_output() {
    if (phase_ != Phase::stream || std::exchange(output_ends_, true))
        return;
    shut_if_ended();
}

void Connection::shut_if_ended() {
    if (!output_ends_ || !output_.empty() || std::exchange(output_shut_, true))
        return;
    shutdown(socket_.get(), SHUT_WR);
}

void Connection::finish() {
    end(After::next_command);
}

void Connection::break_off() {
    end(After::close);
}

void Connection::end(After after) {
    if (phase_ != Phase::stream)
        return;
    after_ = after;
    phase_ = Phase::ending;
    // Nobody takes input any more.
    input_state_ = Input::unread;
    input_ = {};
    if (output_.empty())
        settle();
}

void Connection::settle() {
    if (after_ == After::close)
        return close();
    phase_ = Phase::command;
    user_ = nullptr;
    output_ = {};
    // The loop reports again what is still to be read.
    if (std::exchange(input_early_, false))
        watch();
}

void Connection::flush() {
    while (sent_bytes_ < output_.size()) {
        const ssize_t size = send(socket_.get(), output_.data() + sent_bytes_, output_.size() - sent_bytes_,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR ? void() : close();
        sent_bytes_ += static_cast<std::size_t>(size);
    }
    // A queue that was full once is full again soon: it keeps its memory until the command ends.
    output_.clear();
    sent_bytes_ = 0;
    watch();
    shut_if_ended();
    if (phase_ == Phase::ending)
        return settle();
    if (user_ != nullptr)
        user_->on_drained(*this);
}

void Connection::watch() {
    const std::uint32_t events = watched();
    if (in_loop_ && events == waiting_for_)
        return;
    if (in_loop_)
        loop_.modify(socket_.get(), events, *this);
    else if (!loop_.add(socket_.get(), events, *this))
        return loop_.defer([this] { close(); });
    in_loop_ = true;
    waiting_for_ = events;
}

}  // namespace atl::guest
