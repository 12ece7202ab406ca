#include "http/proxy/dialed_stream.hpp"

#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "core/plain/preview_limits.hpp"

namespace atl::http {

namespace asio = boost::asio;

DialedStream::DialedStream(base::Executor executor, const Open& open, std::shared_ptr<const void> held)
    : executor_(std::move(executor)), held_(std::move(held)) {
    auto dial = open(*this);
    if (state_ != State::over)
        dial_ = std::move(dial);
}

DialedStream::~DialedStream() {
    close();
}

void DialedStream::async_read_some(std::span<char> room, ReadDone done) {
    room_ = room;
    reader_ = std::move(done);
    pump_read();
}

void DialedStream::async_wait(Socket::wait_type event, WaitDone done) {
    if (event != Socket::wait_write) {
        const boost::system::error_code error = asio::error::operation_not_supported;
        return asio::post(executor_, asio::append(std::move(done), error));
    }
    writer_ = std::move(done);
    pump_write();
}

std::size_t DialedStream::write_some(std::string_view bytes, boost::system::error_code& error) {
    if (state_ == State::over) {
        error = asio::error::broken_pipe;
        return 0;
    }
    const std::size_t taken = state_ == State::open ? dial_->write(bytes) : 0;
    may_write_ = state_ == State::open && taken == bytes.size();
    if (taken == 0)
        error = asio::error::would_block;
    return taken;
}

void DialedStream::shutdown_send() {
    if (state_ == State::open)
        dial_->close_write();
    wants_shutdown_ = state_ == State::opening;
}

void DialedStream::close() {
    state_ = State::over;
    dial_.reset();
    input_.clear();
    read_ = 0;
    input_ended_ = false;
    broken_ = asio::error::operation_aborted;
    pump_read();
    if (writer_)
        asio::post(executor_, asio::append(std::exchange(writer_, {}), broken_));
}

void DialedStream::on_open() {
    state_ = State::open;
    may_write_ = true;
    if (std::exchange(wants_shutdown_, false) && dial_)
        dial_->close_write();
    pump_write();
}

// A reader that is slower than the guest may never find it empty: what was read goes all the same. This moves
// fewer bytes than it frees.
void DialedStream::on_bytes(std::string_view bytes) {
    if (read_ > input_.size() / 2)
        input_.erase(0, std::exchange(read_, 0));
    input_ += bytes;
    pump_read();
}

void DialedStream::on_writable() {
    may_write_ = true;
    pump_write();
}

void DialedStream::on_eof() {
    input_ended_ = true;
    pump_read();
}

void DialedStream::on_end(const base::Result<void>& result) {
    state_ = State::over;
    if (result.has_error())
        broken_ = asio::error::connection_reset;
    else
        input_ended_ = true;
    pump_read();
    pump_write();
}

bool DialedStream::is_full() const {
    return input().size() >= base::k_relay_piece_bytes;
}

// Bytes that came before the end, or before an error, are read before it.
void DialedStream::pump_read() {
    if (!reader_ || (input().empty() && !input_ended_ && !broken_))
        return;
    const bool was_full = is_full();
    const std::size_t count = std::min(room_.size(), input().size());
    std::copy_n(input().begin(), count, room_.begin());
    read_ += count;
    if (read_ == input_.size()) {
        input_.clear();
        read_ = 0;
    }
    boost::system::error_code error;
    if (count == 0)
        error = broken_ ? broken_ : boost::system::error_code(asio::error::eof);
    asio::post(executor_, asio::append(std::exchange(reader_, {}), error, count));
    // Last: more may come from inside the call.
    if (was_full && !is_full() && dial_)
        dial_->resume();
}

void DialedStream::pump_write() {
    if (writer_ && (may_write_ || state_ == State::over))
        asio::post(executor_, asio::append(std::exchange(writer_, {}), boost::system::error_code()));
}

}  // namespace atl::http
