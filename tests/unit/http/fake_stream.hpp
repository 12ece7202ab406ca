// A connection in memory. The test is the peer: it says when bytes come, how many it takes, and how it ends.
#pragma once

#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "http/wire/byte_stream.hpp"

namespace atl::test {

/// The client's end, and what lies between both.
class FakePeer {
  public:
    explicit FakePeer(base::Executor executor) : executor_(executor) {}
    FakePeer(const FakePeer&) = delete;
    FakePeer& operator=(const FakePeer&) = delete;

    void send(std::string_view bytes) {
        input_ += bytes;
        pump();
    }
    void end_sending() {
        sending_ended_ = true;
        pump();
    }
    /// From now on only so many bytes are taken from the server: zero plays a client that does not read.
    void take_only(std::size_t bytes) {
        room_ = bytes;
        pump();
    }
    /// From now on writes of the server fail, as after a reset. What was sent before it can still be read.
    void refuse_writes() {
        refuses_ = true;
        pump();
    }
    /// The bytes that have arrived since the last call.
    std::string take() { return std::exchange(output_, {}); }
    bool input_ended() const noexcept { return shut_down_ || closed_; }  // the server sends nothing more
    bool is_closed() const noexcept { return closed_; }
    std::size_t writes() const noexcept { return writes_; }  // of the server, that took at least a byte
    bool was_reset() const noexcept { return closed_ && cut_; }

  private:
    friend class FakeStream;

    void pump() {
        using boost::asio::error::operation_aborted;
        if (reader_ && (closed_ || sending_ended_ || !input_.empty())) {
            const std::size_t count = closed_ ? 0 : std::min(reader_room_.size(), input_.size());
            std::copy_n(input_.begin(), count, reader_room_.begin());
            input_.erase(0, count);
            boost::system::error_code error;
            if (count == 0)
                error = closed_ ? boost::system::error_code(operation_aborted)
                                : boost::system::error_code(boost::asio::error::eof);
            boost::asio::post(executor_, boost::asio::append(std::exchange(reader_, {}), error, count));
        }
        if (writer_ && (closed_ || refuses_ || room_ > 0)) {
            boost::system::error_code error;
            if (closed_)
                error = operation_aborted;
            boost::asio::post(executor_, boost::asio::append(std::exchange(writer_, {}), error));
        }
    }

    base::Executor executor_;
    std::string input_;
    std::string output_;
    std::size_t writes_ = 0;
    std::size_t room_ = std::numeric_limits<std::size_t>::max();
    bool sending_ended_ = false;
    bool shut_down_ = false;
    bool cut_ = false;
    bool refuses_ = false;
    bool closed_ = false;
    std::span<char> reader_room_;
    http::ByteStream::ReadDone reader_;
    http::ByteStream::WaitDone writer_;
};

/// The server's end.
class FakeStream final : public http::ByteStream {
  public:
    explicit FakeStream(std::shared_ptr<FakePeer> peer) : peer_(std::move(peer)) {}
    base::Executor executor() override { return peer_->executor_; }
    int native_handle() override { return -1; }
    void async_read_some(std::span<char> room, ReadDone done) override {
        peer_->reader_room_ = room;
        peer_->reader_ = std::move(done);
        peer_->pump();
    }
    /// For output only: without TLS nobody waits for input.
    void async_wait(http::Socket::wait_type, WaitDone done) override {
        peer_->writer_ = std::move(done);
        peer_->pump();
    }
    std::size_t write_some(std::string_view bytes, boost::system::error_code& error) override {
        const std::size_t count = peer_->refuses_ ? 0 : std::min(bytes.size(), peer_->room_);
        if (peer_->refuses_)
            error = boost::asio::error::broken_pipe;
        else if (count == 0)
            error = boost::asio::error::would_block;
        peer_->writes_ += count > 0 ? 1 : 0;
        peer_->output_ += bytes.substr(0, count);
        peer_->room_ -= count;
        return count;
    }
    void shutdown_send() override { peer_->shut_down_ = true; }
    void cut() override { peer_->cut_ = true; }
    void close() override {
        peer_->closed_ = true;
        peer_->pump();
    }

  private:
    std::shared_ptr<FakePeer> peer_;
};

}  // namespace atl::test
