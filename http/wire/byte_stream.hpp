// The bytes below a connection: a socket, or memory where a test plays the peer. Not here: buffers, deadlines
// and waits for more than one event (connection.hpp).
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/task.hpp"

namespace atl::http {

using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, base::Executor>;

class ByteStream {
  public:
    using ReadDone = boost::asio::any_completion_handler<void(boost::system::error_code, std::size_t)>;
    using WaitDone = boost::asio::any_completion_handler<void(boost::system::error_code)>;

    virtual ~ByteStream() = default;
    virtual base::Executor executor() = 0;
    /// The descriptor of the socket, for TLS; -1 where there is none.
    virtual int native_handle() = 0;
    /// Reads at least one byte into `room`, which must live until then; error::eof at the end of the input.
    /// `done` comes from the loop. One read or wait at a time, and one wait_write beside it.
    virtual void async_read_some(std::span<char> room, ReadDone done) = 0;
    virtual void async_wait(Socket::wait_type event, WaitDone done) = 0;
    /// Gives how many bytes were taken; error::would_block where none could be.
    virtual std::size_t write_some(std::string_view bytes, boost::system::error_code& error) = 0;
    virtual void shutdown_send() = 0;
    /// close() will reset the connection.
    virtual void cut() = 0;
    /// A read or wait that is under way ends with error::operation_aborted.
    virtual void close() = 0;
};

class SocketStream final : public ByteStream {
  public:
    /// `socket` must be non-blocking. `held` lives as long as the stream.
    explicit SocketStream(Socket socket, std::shared_ptr<const void> held = nullptr)
        : held_(std::move(held)), socket_(std::move(socket)) {}
    base::Executor executor() override { return socket_.get_executor(); }
    int native_handle() override { return socket_.native_handle(); }
    void async_read_some(std::span<char> room, ReadDone done) override {
        socket_.async_read_some(boost::asio::buffer(room.data(), room.size()), std::move(done));
    }
    void async_wait(Socket::wait_type event, WaitDone done) override {
        socket_.async_wait(event, std::move(done));
    }
    std::size_t write_some(std::string_view bytes, boost::system::error_code& error) override {
        return socket_.write_some(boost::asio::buffer(bytes.data(), bytes.size()), error);
    }
    void shutdown_send() override {
        boost::system::error_code ignored;
        socket_.shutdown(Socket::shutdown_send, ignored);
    }
    void cut() override {
        boost::system::error_code ignored;
        socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
    }
    void close() override {
        boost::system::error_code ignored;
        socket_.close(ignored);
    }

  private:
    std::shared_ptr<const void> held_;
    Socket socket_;
};

}  // namespace atl::http
