// A connection to a port inside a sandbox that the guest has made, as a byte stream: the way where the server
// cannot make sockets there itself. Its input waits in a bounded buffer, and the guest sends no more until
// that is read. Not here: the bytes on the bridge (bridge/dial_stream.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/sandbox/operations.hpp"
#include "http/wire/byte_stream.hpp"

namespace atl::http {

class DialedStream final : public ByteStream, private sandbox::DialObserver {
  public:
    using Open = std::function<std::unique_ptr<sandbox::Dial>(sandbox::DialObserver& observer)>;

    /// `open` is called at once. What is written before the connection is there is not taken. `held` lives as
    /// long as the stream.
    DialedStream(base::Executor executor, const Open& open, std::shared_ptr<const void> held = nullptr);
    ~DialedStream() override;
    DialedStream(const DialedStream&) = delete;
    DialedStream& operator=(const DialedStream&) = delete;

    base::Executor executor() override { return executor_; }
    int native_handle() override { return -1; }
    void async_read_some(std::span<char> room, ReadDone done) override;
    /// For output only: TLS, which waits for input, is never spoken to a dev server.
    void async_wait(Socket::wait_type event, WaitDone done) override;
    std::size_t write_some(std::string_view bytes, boost::system::error_code& error) override;
    void shutdown_send() override;
    /// Nothing: what is closed early ends as broken inside.
    void cut() override {}
    void close() override;

  private:
    enum class State : std::uint8_t { opening, open, over };

    void on_open() override;
    void on_bytes(std::string_view bytes) override;
    void on_writable() override;
    void on_eof() override;
    void on_end(const base::Result<void>& result) override;
    bool is_full() const override;
    std::string_view input() const { return std::string_view(input_).substr(read_); }
    void pump_read();
    void pump_write();

    base::Executor executor_;
    std::shared_ptr<const void> held_;
    State state_ = State::opening;
    std::string input_;  // its first read_ bytes were read
    std::size_t read_ = 0;
    bool input_ended_ = false;
    boost::system::error_code broken_;  // behind the input
    bool may_write_ = false;            // the last write was taken whole, or there is room again
    bool wants_shutdown_ = false;       // once it is open
    std::span<char> room_;
    ReadDone reader_;
    WaitDone writer_;
    std::unique_ptr<sandbox::Dial> dial_;  // null: closed
};

}  // namespace atl::http
