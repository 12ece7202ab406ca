#include "http/wire/connection.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::http {
namespace {

namespace asio = boost::asio;

constexpr std::size_t k_first_buffer_bytes = 4096;
constexpr std::size_t k_least_room_bytes = 1024;

// Output that the kernel has taken and not sent (tcp(7)); 0 where it does not say.
std::size_t unsent_bytes(int fd) {
    int bytes = 0;
    return fd >= 0 && ::ioctl(fd, SIOCOUTQNSD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

void allow_unsent(int fd, std::size_t bytes) {
    const int most = static_cast<int>(bytes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

}  // namespace

Connection::Connection(std::unique_ptr<ByteStream> stream, const base::Clock& clock, base::Timers& timers,
                       const WireSettings& settings, std::shared_ptr<const TlsContext> tls)
    : stream_(std::move(stream)),
      clock_(clock),
      timers_(timers),
      settings_(settings),
      wake_(std::make_shared<WakeEvent>(stream_->executor())),
      tls_(tls ? std::make_unique<TlsStream>(std::move(tls), stream_->native_handle()) : nullptr) {}

Connection::Connection(std::unique_ptr<ByteStream> stream, const Connection& other)
    : stream_(std::move(stream)),
      clock_(other.clock_),
      timers_(other.timers_),
      settings_(other.settings_),
      wake_(other.wake_),
      reads_on_(true) {}

Connection::~Connection() {
    timers_.cancel(timer_);
    timers_.cancel(cut_timer_);
}

void Connection::consume(std::size_t count) noexcept {
    begin_ += count;
    free_buffer();
}

// An empty buffer that is larger than most requests need.
void Connection::free_buffer() noexcept {
    if (begin_ != end_ || read_pending_)
        return;
    begin_ = end_ = 0;
    if (buffer_.size() > k_first_buffer_bytes && size_ == BufferSize::small)
        std::vector<char>().swap(buffer_);
}

void Connection::use_buffer(BufferSize size) noexcept {
    if (std::exchange(size_, size) != size)
        free_buffer();
}

// Moved later, the usual case, only a number is stored: the timer looks at it when it fires.
void Connection::set_deadline(base::Millis from_now) {
    deadline_passed_ = false;
    deadline_ = now() + from_now;
    if (timer_ != 0 && timer_at_ <= deadline_)
        return;
    timers_.cancel(timer_);
    arm_timer();
}

void Connection::clear_deadline() noexcept {
    deadline_passed_ = false;
    deadline_ = base::SteadyTime::max();
}

void Connection::arm_timer() {
    timer_at_ = deadline_;
    timer_ = timers_.arm(std::chrono::ceil<base::Millis>(deadline_ - now()), [this] { on_timer(); });
}

void Connection::on_timer() {
    timer_ = 0;
    if (deadline_ == base::SteadyTime::max())
        return;
    if (now() < deadline_)
        return arm_timer();
    deadline_ = base::SteadyTime::max();
    deadline_passed_ = true;
    wake_->post();
}

void Connection::cut_at(base::SteadyTime at) {
    timers_.cancel(std::exchange(cut_timer_, 0));
    if (at == base::SteadyTime::max() || aborted_)
        return;
    const auto wait = std::max(base::Millis::zero(), std::chrono::ceil<base::Millis>(at - now()));
    cut_timer_ = timers_.arm(wait, [this] {
        cut_timer_ = 0;
        cut();
        abort();
    });
}

// Room for a read, within the cap. Only while no read is under way: it may move the buffer.
bool Connection::make_room() {
    const std::size_t small = settings_.max_header_bytes + base::k_read_ahead_bytes;
    const std::size_t limit = size_ == BufferSize::full ? std::max(small, base::k_bulk_input_bytes) : small;
    if (begin_ > 0 && begin_ == end_)
        begin_ = end_ = 0;
    if (size_ == BufferSize::full && buffer_.size() < limit)
        buffer_.resize(limit);
    if (buffer_.size() - end_ >= k_least_room_bytes)
        return true;
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        if (buffer_.size() - end_ >= k_least_room_bytes)
            return true;
    }
    if (buffer_.size() >= limit)
        return buffer_.size() > end_;
    buffer_.resize(std::min(limit, std::max(k_first_buffer_bytes, buffer_.size() * 2)));
    return true;
}

void Connection::start_read() {
    if (read_pending_ || eof_ || failed_ || aborted_)
        return;
    if (tls_)
        return start_tls_read();
    if (!make_room())
        return;
    read_pending_ = true;
    stream_->async_read_some(
        std::span(buffer_).subspan(end_),
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t count) {
            self->read_pending_ = false;
            self->end_ += count;
            const bool is_end = error == asio::error::eof && !self->deaf_;
            self->eof_ = self->eof_ || is_end;
            self->failed_ = self->failed_ || (error && !is_end);
            self->wake_->notify();
        });
}

// Unlike a plain read it only waits, so that an idle connection needs no buffer.
void Connection::start_tls_read() {
    if (tls_->has_pending() || read_wants_write_) {
        const std::size_t before = end_ - begin_;
        take_tls_input();
        // Wakes the session also after an end. The wake comes later in this turn, since the session only now
        // begins to wait.
        if (end_ - begin_ > before || eof_ || failed_)
            return wake_->post();
    }
    if (read_wants_write_) {
        if (!write_pending_)
            start_write_wait();
        return;
    }
    if (begin_ == end_) {
        begin_ = end_ = 0;
        if (size_ == BufferSize::small)
            std::vector<char>().swap(buffer_);
    } else if (!make_room()) {
        return;
    }
    start_read_wait();
}

void Connection::take_tls_input() {
    if (!make_room())
        return;
    const auto moved = tls_->read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += moved.bytes;
    read_wants_write_ = moved.step == TlsStream::Step::want_write;
    eof_ = eof_ || moved.step == TlsStream::Step::eof;
    failed_ = failed_ || moved.step == TlsStream::Step::failed;
}

void Connection::start_read_wait() {
    read_pending_ = true;
    stream_->async_wait(Socket::wait_read,
                        [self = shared_from_this()](const boost::system::error_code& error) {
                            self->read_pending_ = false;
                            self->failed_ = self->failed_ || error;
                            if (self->tls_ && self->secure_ && !self->failed_)
                                self->take_tls_input();
                            self->wake_->notify();
                        });
}

void Connection::start_write_wait() {
    write_pending_ = true;
    stream_->async_wait(Socket::wait_write,
                        [self = shared_from_this()](const boost::system::error_code& error) {
                            self->write_pending_ = false;
                            if (error)
                                self->fail_write();
                            self->wake_->notify();
                        });
}

void Connection::fail_write() noexcept {
    (reads_on_ ? deaf_ : failed_) = true;
}

// Gives how many bytes were taken. Fewer than all: more can go once the socket can be written, or it failed.
std::size_t Connection::write_some(std::string_view bytes) {
    if (tls_) {
        const auto moved = tls_->write(bytes);
        // A write never has to read first: there is no renegotiation.
        failed_ =
            failed_ || (moved.step != TlsStream::Step::done && moved.step != TlsStream::Step::want_write);
        return moved.bytes;
    }
    boost::system::error_code error;
    const auto sent = stream_->write_some(bytes, error);
    if (error && error != asio::error::would_block && error != asio::error::try_again)
        fail_write();
    return sent;
}

/// The peer has not taken all: `left` bytes wait beside what the kernel has. False: there is no room for
/// them.
bool Connection::hold_output(std::size_t left) {
    if (!payer_ || settings_.buffers == nullptr)
        return true;
    if (left > base::k_free_output_bytes && rest_share_.amount() == 0) {
        auto share = settings_.buffers->take(*payer_, left);
        if (share.has_error())
            return false;
        rest_share_ = std::move(*share);
    }
    if (kernel_share_.amount() > 0)
        return true;
    if (auto share = settings_.buffers->take(*payer_, base::k_max_unsent_bytes)) {
        kernel_share_ = std::move(*share);
        allow_unsent(stream_->native_handle(), base::k_max_unsent_bytes);
    }
    return true;
}

/// Once the kernel has sent what it took, and the next output needs no more than each connection has free: a
/// long body keeps its room from piece to piece. Cheap where nothing was charged, as for almost all output.
void Connection::give_output_back(std::size_t next_bytes) {
    if (kernel_share_.amount() == 0 || next_bytes > base::k_free_unsent_bytes ||
        unsent_bytes(stream_->native_handle()) > base::k_free_unsent_bytes)
        return;
    kernel_share_ = base::Share();
    allow_unsent(stream_->native_handle(), base::k_free_unsent_bytes);
}

void Connection::start_tls(std::shared_ptr<const TlsContext> tls) {
    assert(!tls_ && !read_pending_ && !write_pending_);
    tls_ = std::make_unique<TlsStream>(std::move(tls), stream_->native_handle());
    tls_->read_before(std::string(input()));
    consume(input().size());
}

base::Task<Io> Connection::async_open() {
    if (!tls_)
        co_return Io::ok;
    set_deadline(settings_.header_deadline);
    for (;;) {
        if (aborted_ || interrupted_)
            co_return Io::stopped;
        if (failed_)
            co_return Io::failed;
        if (std::exchange(deadline_passed_, false))
            co_return Io::deadline;
        if (!read_pending_ && !write_pending_) {
            switch (tls_->handshake()) {
                case TlsStream::Step::want_read:
                    start_read_wait();
                    break;
                case TlsStream::Step::want_write:
                    start_write_wait();
                    break;
                case TlsStream::Step::done:
                    clear_deadline();
                    secure_ = true;
                    co_return Io::ok;
                case TlsStream::Step::plaintext:
                    clear_deadline();
                    tls_.reset();
                    co_return Io::plaintext;
                case TlsStream::Step::eof:
                    co_return Io::eof;
                case TlsStream::Step::failed:
                    base::LogLine(base::evt::tls_handshake_failed).field("err", tls_->reason()).debug();
                    failed_ = true;
                    co_return Io::failed;
            }
        }
        co_await wake_->async_wait();
    }
}

base::Task<Io> Connection::async_fill() {
    const std::size_t before = input().size();
    for (;;) {
        if (aborted_ || interrupted_)
            co_return Io::stopped;
        if (input().size() > before)
            co_return Io::ok;
        if (eof_ || failed_)
            co_return eof_ ? Io::eof : Io::failed;
        if (std::exchange(deadline_passed_, false))
            co_return Io::deadline;
        start_read();
        co_await wake_->async_wait();
    }
}

base::Task<Io> Connection::async_send(std::string_view bytes) {
    std::size_t slice_left = 0;
    bool waited = false;
    give_output_back(bytes.size());
    while (!bytes.empty()) {
        if (aborted_ || failed_)
            co_return aborted_ ? Io::stopped : Io::failed;
        const auto sent = write_some(bytes);
        if (failed_)
            co_return Io::failed;
        bytes.remove_prefix(sent);
        if (bytes.empty())
            break;
        if (!hold_output(bytes.size())) {
            cut();
            co_return Io::failed;
        }
        if (sent >= slice_left || !waited) {
            slice_left = base::k_write_slice_bytes;
            set_deadline(settings_.write_deadline);
        } else {
            slice_left -= sent;
        }
        waited = true;
        if (!write_pending_)
            start_write_wait();
        while (write_pending_ && !aborted_) {
            if (std::exchange(deadline_passed_, false)) {
                // Something is missing for good. The reset also frees what the kernel still holds for a
                // client that does not read.
                cut();
                co_return Io::deadline;
            }
            co_await wake_->async_wait();
        }
    }
    if (waited) {
        rest_share_ = base::Share();
        clear_deadline();
    }
    co_return Io::ok;
}

base::Task<Io> Connection::async_idle() {
    if (!aborted_ && !eof_ && !failed_ && !deadline_passed_) {
        start_read();
        co_await wake_->async_wait();
    }
    if (aborted_)
        co_return Io::stopped;
    if (std::exchange(deadline_passed_, false))
        co_return Io::deadline;
    if (eof_ || failed_)
        co_return eof_ ? Io::eof : Io::failed;
    co_return Io::ok;
}

base::Task<Io> Connection::async_pause() {
    if (!aborted_ && !deadline_passed_)
        co_await wake_->async_wait();
    if (aborted_)
        co_return Io::stopped;
    co_return std::exchange(deadline_passed_, false) ? Io::deadline : Io::ok;
}

std::size_t Connection::send_some(std::string_view bytes) {
    if (aborted_ || failed_ || deaf_ || write_pending_)
        return 0;
    give_output_back(bytes.size());
    const std::size_t sent = write_some(bytes);
    sent_bytes_ += sent;
    if (sent < bytes.size() && !failed_ && !deaf_) {
        hold_output(0);
        start_write_wait();
    }
    return sent;
}

Io Connection::status() const noexcept {
    if (aborted_)
        return Io::stopped;
    if (failed_)
        return Io::failed;
    return eof_ ? Io::eof : Io::ok;
}

std::unique_ptr<ByteStream> Connection::release() {
    if (read_pending_ || write_pending_ || tls_ || begin_ != end_)
        return nullptr;
    failed_ = true;
    return std::move(stream_);
}

void Connection::end_sending() {
    if (tls_ && !aborted_ && !failed_)
        tls_->send_close_notify();
    stream_->shutdown_send();
}

base::Task<> Connection::async_linger() {
    // Input that still arrives is dropped, so it need not be decrypted.
    end_tls();
    stream_->shutdown_send();
    set_deadline(settings_.linger_deadline);
    for (;;) {
        consume(input().size());
        if (eof_ || failed_ || aborted_ || std::exchange(deadline_passed_, false))
            co_return;
        start_read();
        co_await wake_->async_wait();
    }
}

// A connection that broke off ends without close_notify: the peer has to see that something is missing.
void Connection::end_tls() {
    if (tls_ && !aborted_ && !failed_)
        tls_->send_close_notify();
    tls_.reset();
}

void Connection::cut() {
    failed_ = true;
    stream_->cut();
}

void Connection::interrupt() {
    interrupted_ = true;
    wake_->post();
}

void Connection::abort() {
    aborted_ = true;
    close();
    wake_->post();
}

void Connection::close() {
    end_tls();
    if (stream_)
        stream_->close();
    kernel_share_ = base::Share();
    rest_share_ = base::Share();
    clear_deadline();
    timers_.cancel(std::exchange(timer_, 0));
    timers_.cancel(std::exchange(cut_timer_, 0));
}

}  // namespace atl::http
