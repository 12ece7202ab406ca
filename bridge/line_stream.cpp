#include "bridge/line_stream.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

#include "core/base/unique_fd.hpp"

namespace atl::bridge {
namespace {

// Doubling waits: 1, 2, 4, … 512 ms.
constexpr std::size_t k_connect_attempts = 10;

}  // namespace

std::shared_ptr<LineStream> LineStream::open(std::shared_ptr<StreamContext> context, const std::string& path,
                                             std::string command, std::size_t max_line_bytes, Sink& sink) {
    auto stream = std::make_shared<LineStream>(std::move(context), max_line_bytes);
    stream->command_ = std::move(command);
    stream->sink_ = &sink;
    if (path.size() >= sizeof stream->address_.sun_path) {
        stream->end_later(End::connect_failed, "the path of the bridge socket is too long");
        return stream;
    }
    stream->address_.sun_family = AF_UNIX;
    std::memcpy(stream->address_.sun_path, path.c_str(), path.size() + 1);
    stream->connect();
    return stream;
}

LineStream::LineStream(std::shared_ptr<StreamContext> context, std::size_t max_line_bytes)
    : context_(std::move(context)), socket_(context_->executor), max_line_bytes_(max_line_bytes) {}

bool LineStream::begin(std::string& command, Sink& sink) {
    if (closed_)
        return false;
    const int fd = socket_.native_handle();
    // What came, or an end that came, since the loop last looked: then the next command is not for this
    // stream.
    char byte = 0;
    const bool silent = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    const ssize_t size =
        silent ? ::send(fd, command.data(), command.size(), MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    if (!silent || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        close();
        return false;
    }
    sent_bytes_ = static_cast<std::size_t>(std::max<ssize_t>(size, 0));
    command_ = std::move(command);
    sink_ = &sink;
    write_command();
    return true;
}

void LineStream::close() {
    closed_ = true;
    sink_ = nullptr;
    context_->timers.cancel(std::exchange(timer_, 0));
    boost::system::error_code ignored;
    socket_.close(ignored);
}

void LineStream::connect() {
    const char* why = nullptr;
    switch (try_connect(why)) {
        case Connected::yes:
            return write_command();
        case Connected::later:
            return retry_connect();
        case Connected::failed:
            return end_later(End::connect_failed, why);
    }
}

// A Unix connect(2) completes at once or fails; EAGAIN means that the listener's backlog is full.
LineStream::Connected LineStream::try_connect(const char*& why) {
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    why = "the server has no socket left for the bridge";
    if (!fd)
        return Connected::failed;
    const auto* address = reinterpret_cast<const sockaddr*>(&address_);
    if (::connect(fd.get(), address, sizeof address_) != 0) {
        why = errno == EAGAIN ? "the guest does not accept connections" : "the guest cannot be reached";
        return errno == EAGAIN && connect_attempts_ < k_connect_attempts ? Connected::later
                                                                         : Connected::failed;
    }
    boost::system::error_code error;
    socket_.assign(boost::asio::local::stream_protocol(), fd.get(), error);
    if (error)
        return Connected::failed;
    fd.release();
    return Connected::yes;
}

void LineStream::retry_connect() {
    const base::Millis delay{1LL << connect_attempts_++};
    timer_ = context_->timers.arm(delay, [self = shared_from_this()] {
        self->timer_ = 0;
        self->connect();
    });
}

void LineStream::write_command() {
    while (sent_bytes_ < command_.size()) {
        const ssize_t size = ::send(socket_.native_handle(), command_.data() + sent_bytes_,
                                    command_.size() - sent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return socket_.async_wait(Socket::wait_write,
                                      [self = shared_from_this()](boost::system::error_code error) {
                                          if (!error && self->sink_ != nullptr)
                                              self->write_command();
                                      });
        if (size < 0)
            break;  // the guest closed it: what it said before is still to be read
        sent_bytes_ += static_cast<std::size_t>(size);
    }
    command_ = {};
    wait_readable();
}

void LineStream::wait_readable() {
    if (std::exchange(waits_readable_, true))
        return;
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](boost::system::error_code error) {
        self->waits_readable_ = false;
        if (self->closed_)
            return;
        if (self->sink_ == nullptr)
            return self->close();  // between commands there is nothing to say
        if (error)
            return self->end(End::closed, "the bridge cannot be watched");
        self->on_readable();
    });
}

void LineStream::on_readable() {
    if (sink_->pace() == Pace::pause)
        return pause();
    auto& scratch = context_->scratch;
    const ssize_t size = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return wait_readable();
    if (size <= 0)
        return end(End::closed, size == 0 ? "the guest closed the stream" : "the guest broke the stream");
    const std::string_view bytes(scratch.data(), static_cast<std::size_t>(size));
    unpaced_bytes_ += bytes.size();
    if (pending_.empty()) {
        // The usual case: whole lines, handed out where they were received.
        const std::size_t used = hand_out(bytes);
        if (used < bytes.size())
            pending_.assign(bytes.substr(used));
    } else {
        pending_.append(bytes);
        pending_.erase(0, hand_out(pending_));
    }
    go_on();
}

/// Hands out complete lines, a bounded number; returns the bytes that are done with.
std::size_t LineStream::hand_out(std::string_view bytes) {
    next_pause_ = k_first_pause;
    std::size_t used = 0;
    for (std::size_t lines = 0; lines < k_lines_per_handler; ++lines) {
        const std::size_t newline = bytes.find('\n', std::max(used, searched_bytes_));
        const std::size_t length = std::min(newline, bytes.size()) - used;
        if (length > max_line_bytes_) {
            end(End::line_too_long, "the guest sent a line beyond its bound");
            return used;
        }
        if (newline == std::string_view::npos) {
            backlog_ = false;
            searched_bytes_ = length;
            return used;
        }
        unpaced_bytes_ += base::k_paced_line_bytes;
        sink_->on_line(bytes.substr(used, length));
        used = newline + 1;
        if (sink_ == nullptr)
            return used;
    }
    backlog_ = true;
    searched_bytes_ = 0;
    return used;
}

/// What comes after a handler: the lines it left over, a rest for the sake of the pace, or the next read.
void LineStream::go_on() {
    if (sink_ == nullptr)
        return keep_for_next();
    if (backlog_)
        return boost::asio::post(context_->executor, [self = shared_from_this()] { self->work_off(); });
    if (pending_.empty())
        pending_ = {};
    const std::size_t read_bytes = std::exchange(unpaced_bytes_, 0);
    if (sink_->pace() != Pace::slow)
        return wait_readable();
    const base::Millis rest{1 + read_bytes * 1000 / base::k_truncated_read_bytes_per_s};
    timer_ = context_->timers.arm(rest, [self = shared_from_this()] {
        self->timer_ = 0;
        self->wait_readable();
    });
}

/// Lines that are here already.
void LineStream::work_off() {
    if (sink_ == nullptr)
        return;
    if (sink_->pace() == Pace::pause)
        return pause();
    pending_.erase(0, hand_out(pending_));
    go_on();
}

void LineStream::pause() {
    const base::Millis rest = std::exchange(next_pause_, std::min(2 * next_pause_, k_longest_pause));
    timer_ = context_->timers.arm(rest, [self = shared_from_this()] {
        self->timer_ = 0;
        self->backlog_ ? self->work_off() : self->wait_readable();
    });
}

/// After release(). What the guest says beyond the command's end must not reach the next command, nor what is
/// left of the command the guest.
void LineStream::keep_for_next() {
    if (!pending_.empty() || !command_.empty())
        close();
    pending_ = {};
    backlog_ = false;
    searched_bytes_ = 0;
    unpaced_bytes_ = 0;
    if (!closed_)
        wait_readable();
}

void LineStream::end(End why, std::string_view detail) {
    Sink* const sink = sink_;
    close();
    if (sink != nullptr)
        sink->on_end(why, detail);
}

void LineStream::end_later(End why, const char* detail) {
    boost::asio::post(context_->executor,
                      [self = shared_from_this(), why, detail] { self->end(why, detail); });
}

}  // namespace atl::bridge
