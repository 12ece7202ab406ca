#include "bridge/stream.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace atl::bridge {
namespace {

// Doubling waits: 1, 2, 4, … 512 ms.
constexpr std::size_t k_connect_attempts = 10;

}  // namespace

std::shared_ptr<Stream> Stream::open(std::shared_ptr<StreamContext> context, const std::string& path,
                                     std::string command, Reader& reader) {
    auto stream = std::make_shared<Stream>(std::move(context));
    stream->output_ = std::move(command);
    stream->reader_ = &reader;
    if (path.size() >= sizeof stream->address_.sun_path) {
        stream->end_later(End::connect_failed, "the path of the bridge socket is too long");
        return stream;
    }
    stream->address_.sun_family = AF_UNIX;
    std::memcpy(stream->address_.sun_path, path.c_str(), path.size() + 1);
    stream->connect();
    return stream;
}

Stream::Stream(std::shared_ptr<StreamContext> context)
    : context_(std::move(context)), socket_(context_->executor) {}

bool Stream::begin(std::string& command, Reader& reader) {
    if (closed_)
        return false;
    const int fd = socket_.native_handle();
    // If bytes or an end came since the loop last looked, the next command is not for this stream.
    char byte = 0;
    const bool silent = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    const ssize_t size =
        silent ? ::send(fd, command.data(), command.size(), MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    if (!silent || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        close();
        return false;
    }
    sent_bytes_ = static_cast<std::size_t>(std::max<ssize_t>(size, 0));
    output_ = std::move(command);
    reader_ = &reader;
    flush();
    wait_readable();
    return true;
}

void Stream::close() {
    closed_ = true;
    reader_ = nullptr;
    context_->timers.cancel(std::exchange(timer_, 0));
    boost::system::error_code ignored;
    socket_.close(ignored);
}

void Stream::connect() {
    const char* why = nullptr;
    switch (try_connect(why)) {
        case Connected::yes:
            connected_ = true;
            flush();
            return wait_readable();
        case Connected::later:
            return retry_connect();
        case Connected::failed:
            return end_later(End::connect_failed, why);
    }
}

// A Unix connect(2) completes at once or fails; EAGAIN means that the listener's backlog is full.
Stream::Connected Stream::try_connect(const char*& why) {
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    why = "the server has no socket left for the bridge";
    if (!fd)
        return Connected::failed;
    const auto* address = reinterpret_cast<const sockaddr*>(&address_);
    if (::connect(fd.get(), address, sizeof address_) != 0) {
        why = errno == EAGAIN ? "the guest does not accept connections" : "the guest cannot be reached";
        return errno == EAGAIN && connect_attempts_ < k_connect_attempts && pin_address() ? Connected::later
                                                                                          : Connected::failed;
    }
    pinned_.reset();
    boost::system::error_code error;
    socket_.assign(boost::asio::local::stream_protocol(), fd.get(), error);
    if (error)
        return Connected::failed;
    fd.release();
    return Connected::yes;
}

// The path goes through a descriptor of the generation's (core/isolation/bridge_socket.hpp): once that is
// gone, the same path may lead to another sandbox.
bool Stream::pin_address() {
    if (pinned_)
        return true;
    pinned_ = base::UniqueFd(::open(address_.sun_path, O_PATH | O_CLOEXEC));
    std::snprintf(address_.sun_path, sizeof address_.sun_path, "/proc/self/fd/%d", pinned_.get());
    return static_cast<bool>(pinned_);
}

void Stream::retry_connect() {
    const base::Millis delay{1LL << connect_attempts_++};
    timer_ = context_->timers.arm(delay, [self = shared_from_this()] {
        self->timer_ = 0;
        self->connect();
    });
}

void Stream::write(std::string_view head, std::string_view bytes) {
    if (closed_ || write_ends_ || write_ended_)
        return;
    const bool was_idle = output_.empty();
    if (was_idle && connected_) {
        const std::size_t sent = send_some(head, bytes);
        const std::size_t sent_of_head = std::min(sent, head.size());
        head.remove_prefix(sent_of_head);
        bytes.remove_prefix(sent - sent_of_head);
    }
    if (write_ended_ && read_ended_)
        return end_later(End::closed, "the guest broke the stream");
    if ((head.empty() && bytes.empty()) || write_ended_)
        return;
    // Moves fewer bytes than it frees.
    if (sent_bytes_ > output_.size() / 2)
        output_.erase(0, std::exchange(sent_bytes_, 0));
    output_.append(head).append(bytes);
    if (was_idle && connected_)
        wait_writable();
}

std::size_t Stream::room() const noexcept {
    return base::k_stream_queue_bytes - std::min(output_.size() - sent_bytes_, base::k_stream_queue_bytes);
}

void Stream::close_write() {
    if (closed_ || std::exchange(write_ends_, true))
        return;
    if (connected_ && output_.empty())
        written();
}

/// Returns how many bytes the kernel took; all of them if the guest takes no more.
std::size_t Stream::send_some(std::string_view head, std::string_view bytes) {
    iovec parts[] = {{const_cast<char*>(head.data()), head.size()},
                     {const_cast<char*>(bytes.data()), bytes.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    const ssize_t size = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size >= 0)
        return static_cast<std::size_t>(size);
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    write_ended_ = true;  // the guest closed it: what it said before is still to be read
    return head.size() + bytes.size();
}

void Stream::flush() {
    while (sent_bytes_ < output_.size()) {
        const std::size_t size = send_some({}, std::string_view(output_).substr(sent_bytes_));
        if (size == 0)
            return wait_writable();
        sent_bytes_ += size;
    }
    output_ = {};
    sent_bytes_ = 0;
    if (write_ends_)
        written();
}

/// All that was to be written has been.
void Stream::written() {
    if (!std::exchange(write_ended_, true))
        ::shutdown(socket_.native_handle(), SHUT_WR);
    if (read_ended_)
        end_later(End::closed, "both ends of the stream are closed");
}

void Stream::wait_writable() {
    socket_.async_wait(Socket::wait_write, [self = shared_from_this()](boost::system::error_code error) {
        if (error || self->reader_ == nullptr)
            return;
        self->flush();
        if (self->read_ended_ && self->write_ended_ && !self->write_ends_)
            return self->end(End::closed, "the guest broke the stream");
        if (self->output_.empty())
            self->reader_->on_writable();
    });
}

void Stream::wait_readable() {
    if (std::exchange(waits_readable_, true))
        return;
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](boost::system::error_code error) {
        self->waits_readable_ = false;
        if (self->closed_)
            return;
        if (self->reader_ == nullptr)
            return self->close();  // between commands there is nothing to say
        if (error)
            return self->end(End::closed, "the bridge cannot be watched");
        self->on_readable();
    });
}

void Stream::on_readable() {
    if (rests())
        return;
    auto& scratch = context_->scratch;
    const ssize_t size = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return wait_readable();
    if (size == 0)
        return on_eof();
    if (size < 0)
        return end(End::closed, "the guest broke the stream");
    const std::string_view bytes(scratch.data(), static_cast<std::size_t>(size));
    unpaced_bytes_ += bytes.size();
    if (pending_.empty()) {
        // The usual case: whole lines or frames, shown where they were received.
        const std::size_t used = show(bytes);
        if (used < bytes.size())
            pending_.assign(bytes.substr(used));
    } else {
        pending_.append(bytes);
        pending_.erase(0, show(pending_));
    }
    go_on();
}

void Stream::on_eof() {
    if (reader_->on_eof() == AtEof::end || reader_ == nullptr)
        return end(End::closed, "the guest closed the stream");
    read_ended_ = true;
    if (write_ended_)
        end(End::closed, "both ends of the stream are closed");
}

/// Returns the bytes that are done with.
std::size_t Stream::show(std::string_view bytes) {
    next_pause_ = k_first_pause;
    const Taken taken = reader_->on_bytes(*this, bytes);
    backlog_ = taken.rest == Taken::Rest::go_on;
    if (taken.refusal != nullptr)
        end(End::refused, taken.refusal);
    return taken.bytes;
}

/// Goes on after a handler: with the bytes that it left over, after a pause for the pace, or with a read.
void Stream::go_on() {
    if (reader_ == nullptr)
        return keep_for_next();
    if (backlog_)
        return boost::asio::post(context_->executor, [self = shared_from_this()] { self->work_off(); });
    if (pending_.empty())
        pending_ = {};
    const std::size_t read_bytes = std::exchange(unpaced_bytes_, 0);
    if (reader_->pace() != Pace::slow)
        return wait_readable();
    const base::Millis rest{1 + read_bytes * 1000 / base::k_truncated_read_bytes_per_s};
    timer_ = context_->timers.arm(rest, [self = shared_from_this()] {
        self->timer_ = 0;
        self->wait_readable();
    });
}

/// True if the reader wants nothing now: it is asked again after a pause, or has to say so.
bool Stream::rests() {
    const Pace pace = reader_->pace();
    held_ = pace == Pace::hold;
    if (pace != Pace::pause)
        return held_;
    const base::Millis rest = std::exchange(next_pause_, std::min(2 * next_pause_, k_longest_pause));
    timer_ = context_->timers.arm(rest, [self = shared_from_this()] {
        self->timer_ = 0;
        self->backlog_ ? self->work_off() : self->wait_readable();
    });
    return true;
}

void Stream::resume() {
    if (!std::exchange(held_, false) || closed_)
        return;
    if (!backlog_)
        return wait_readable();
    boost::asio::post(context_->executor, [self = shared_from_this()] { self->work_off(); });
}

/// Shows the reader what is here already.
void Stream::work_off() {
    if (reader_ == nullptr || rests())
        return;
    pending_.erase(0, show(pending_));
    go_on();
}

/// After release(). What the guest says beyond the command's end must not reach the next command, nor what is
/// left of the command the guest.
void Stream::keep_for_next() {
    if (!pending_.empty() || !output_.empty())
        close();
    pending_ = {};
    backlog_ = false;
    unpaced_bytes_ = 0;
    if (!closed_)
        wait_readable();
}

void Stream::end(End why, std::string_view detail) {
    Reader* const reader = reader_;
    close();
    if (reader != nullptr)
        reader->on_end(why, detail);
}

void Stream::end_later(End why, const char* detail) {
    boost::asio::post(context_->executor,
                      [self = shared_from_this(), why, detail] { self->end(why, detail); });
}

std::shared_ptr<Stream> IdleStream::begin(std::shared_ptr<StreamContext> context, const std::string& path,
                                          std::string command, Stream::Reader& reader) {
    std::shared_ptr<Stream> kept = std::exchange(stream_, nullptr);
    if (kept && kept->begin(command, reader))
        return kept;
    return Stream::open(std::move(context), path, std::move(command), reader);
}

void IdleStream::keep(std::shared_ptr<Stream> stream) {
    if (dropped_ || stream_)
        return stream->close();
    stream_ = std::move(stream);
}

void IdleStream::drop() {
    dropped_ = true;
    if (stream_)
        std::exchange(stream_, nullptr)->close();
}

}  // namespace atl::bridge
