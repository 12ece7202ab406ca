#include "bridge/guest/connection.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

// Beyond this much in the queue, on top of what the socket holds, an agent is asked to wait.
constexpr std::size_t k_queue_bytes = 256UL * 1024;

}  // namespace

Connection::Connection(base::UniqueFd socket, Loop& loop, ConnectionOwner& owner)
    : socket_(std::move(socket)), loop_(loop), owner_(owner) {}

Connection::~Connection() {
    if (waiting_for_ != 0)
        loop_.remove(socket_.get());
}

void Connection::open() {
    read_command();
}

void Connection::close() {
    if (phase_ == Phase::closed)
        return;
    phase_ = Phase::closed;
    if (waiting_for_ != 0)
        loop_.remove(socket_.get());
    waiting_for_ = 0;
    socket_.reset();
    owner_.on_closed(*this);
}

void Connection::on_ready(std::uint32_t events) {
    if (phase_ == Phase::command)
        return read_command();
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        return close();
    if ((events & EPOLLIN) != 0) {
        input_early_ = true;
        wait_for(watched());
    }
    if ((events & EPOLLOUT) != 0)
        flush();
}

// One read an event, so that a long command of one connection does not hold up the others.
void Connection::read_command() {
    char chunk[4096];
    const ssize_t size = recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return wait_for(watched());
    if (size <= 0)
        return close();
    const std::size_t before = input_.size();
    input_.append(chunk, static_cast<std::size_t>(size));
    const std::size_t newline = input_.find('\n', before);
    if (newline != std::string::npos)
        return accept_command(newline);
    if (input_.size() <= bridge::k_max_command_line_bytes)
        return wait_for(watched());
    phase_ = Phase::stream;
    write(bridge::encode_refusal("the command is too long"));
    break_off();
}

void Connection::accept_command(std::size_t newline) {
    phase_ = Phase::stream;
    const std::string input = std::move(input_);
    input_ = {};
    owner_.on_command(*this, std::string_view(input).substr(0, newline));
    // What the command left open stays open until its end or the host's.
    if (phase_ != Phase::closed)
        wait_for(watched());
}

// The usual turn changes nothing here: input that comes early is what the loop stops looking at.
std::uint32_t Connection::watched() const {
    const std::uint32_t input = input_early_ ? 0 : std::uint32_t{EPOLLIN};
    const std::uint32_t output = output_.empty() ? 0 : std::uint32_t{EPOLLOUT};
    return EPOLLRDHUP | input | output;
}

void Connection::write(std::string_view lines) {
    if (phase_ != Phase::stream)
        return;
    if (output_.empty()) {
        const ssize_t size = send(socket_.get(), lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        // A peer that is gone is told by the loop: the caller is not ready for the stream's end in here.
        if (size > 0)
            lines.remove_prefix(static_cast<std::size_t>(size));
        if (lines.empty())
            return;
    }
    output_.append(lines);
    wait_for(watched());
}

bool Connection::wants_more() const {
    return output_.size() - sent_bytes_ < k_queue_bytes;
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
    if (output_.empty())
        settle();
}

void Connection::settle() {
    if (after_ == After::close)
        return close();
    phase_ = Phase::command;
    role = Role::none;
    // The loop reports again what is still to be read.
    if (std::exchange(input_early_, false))
        wait_for(watched());
}

void Connection::flush() {
    while (sent_bytes_ < output_.size()) {
        const ssize_t size = send(socket_.get(), output_.data() + sent_bytes_, output_.size() - sent_bytes_,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR ? void() : close();
        sent_bytes_ += static_cast<std::size_t>(size);
    }
    output_ = {};
    sent_bytes_ = 0;
    wait_for(watched());
    if (phase_ == Phase::ending)
        return settle();
    owner_.on_drained(*this);
}

void Connection::wait_for(std::uint32_t events) {
    if (events == waiting_for_)
        return;
    if (waiting_for_ != 0)
        loop_.modify(socket_.get(), events, *this);
    else if (!loop_.add(socket_.get(), events, *this))
        return loop_.defer([this] { close(); });
    waiting_for_ = events;
}

}  // namespace atl::guest
