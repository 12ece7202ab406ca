#include "http/wire/tls_client_stream.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "http/wire/tls_stream.hpp"

namespace atl::http {

namespace asio = boost::asio;

/// Outlives the stream as long as a wait below is under way.
class TlsClientStream::State : public std::enable_shared_from_this<State> {
  public:
    State(std::unique_ptr<ByteStream> below, std::shared_ptr<const TlsContext> context, std::string name,
          Opened opened)
        : below_(std::move(below)),
          executor_(below_->executor()),
          tls_(std::in_place, std::move(context), below_->native_handle(), std::move(name)),
          opened_(std::move(opened)) {}

    base::Executor executor() const { return executor_; }

    int native_handle() {
        return phase_ == Phase::open && tls_->has_pending() ? -1 : below_->native_handle();
    }

    void read(std::span<char> room, ReadDone done) {
        room_ = room;
        reader_ = std::move(done);
        go_on();
    }

    void wait(Socket::wait_type event, WaitDone done) {
        (event == Socket::wait_write ? writer_ : watcher_) = std::move(done);
        go_on();
    }

    std::size_t write(std::string_view bytes, boost::system::error_code& error) {
        if (phase_ != Phase::open) {
            error = phase_ == Phase::opening ? asio::error::would_block : broken();
            return 0;
        }
        const auto moved = tls_->write(bytes);
        if (moved.step == TlsStream::Step::want_write && moved.bytes == 0)
            error = asio::error::would_block;
        if (moved.step != TlsStream::Step::want_write && moved.step != TlsStream::Step::done) {
            phase_ = Phase::failed;
            error = broken();
            go_on();
        }
        return moved.bytes;
    }

    void shutdown_send() {
        wants_shutdown_ = phase_ == Phase::opening;
        if (phase_ == Phase::opening)
            return;
        if (phase_ == Phase::open)
            tls_->send_close_notify();
        below_->shutdown_send();
    }

    // The server must not see an end that looks like a good one.
    void cut() {
        if (phase_ != Phase::closed)
            phase_ = Phase::failed;
        below_->cut();
    }

    void close() {
        if (phase_ == Phase::open)
            tls_->send_close_notify();
        phase_ = Phase::closed;
        opened_ = nullptr;
        tls_.reset();
        below_->close();
        go_on();
    }

  private:
    enum class Phase : std::uint8_t { opening, open, failed, closed };

    boost::system::error_code broken() const {
        return phase_ == Phase::closed ? asio::error::operation_aborted : asio::error::connection_reset;
    }

    /// Does for those who wait what can be done now, and waits below for the rest.
    void go_on() {
        if (phase_ == Phase::opening) {
            // A connection that is there can be written.
            if (!waits_to_read_ && !waits_to_write_)
                wait_below(Socket::wait_write);
            return;
        }
        if (reader_)
            serve_reader();
        if (phase_ != Phase::open) {
            end_wait(watcher_);
            end_wait(writer_);
            return;
        }
        if (watcher_ && tls_->has_pending())
            end_wait(watcher_);
        if (watcher_)
            wait_below(Socket::wait_read);
        if (writer_)
            wait_below(Socket::wait_write);
    }

    void serve_reader() {
        TlsStream::IoResult moved{0, TlsStream::Step::failed};
        if (phase_ == Phase::open)
            moved = tls_->read(room_.data(), room_.size());
        boost::system::error_code error;
        if (moved.step == TlsStream::Step::want_read || moved.step == TlsStream::Step::want_write)
            return wait_below(moved.step == TlsStream::Step::want_read ? Socket::wait_read
                                                                       : Socket::wait_write);
        if (moved.step == TlsStream::Step::eof)
            error = asio::error::eof;
        if (moved.step == TlsStream::Step::failed) {
            phase_ = phase_ == Phase::open ? Phase::failed : phase_;
            error = broken();
        }
        asio::post(executor_, asio::append(std::exchange(reader_, {}), error, moved.bytes));
    }

    void end_wait(WaitDone& waiter) {
        if (!waiter)
            return;
        boost::system::error_code error;
        if (phase_ == Phase::closed)
            error = asio::error::operation_aborted;
        asio::post(executor_, asio::append(std::exchange(waiter, {}), error));
    }

    void wait_below(Socket::wait_type event) {
        bool& waits = event == Socket::wait_read ? waits_to_read_ : waits_to_write_;
        if (std::exchange(waits, true))
            return;
        below_->async_wait(event, [self = shared_from_this(), event](const boost::system::error_code& error) {
            self->on_event(event, error);
        });
    }

    void on_event(Socket::wait_type event, const boost::system::error_code& error) {
        (event == Socket::wait_read ? waits_to_read_ : waits_to_write_) = false;
        if (phase_ == Phase::opening)
            shake_hands(error);
        else if (phase_ == Phase::open)
            end_wait(event == Socket::wait_read ? watcher_ : writer_);
        if (phase_ != Phase::opening)
            go_on();
    }

    void shake_hands(const boost::system::error_code& error) {
        switch (error ? TlsStream::Step::failed : tls_->handshake()) {
            case TlsStream::Step::want_read:
                return wait_below(Socket::wait_read);
            case TlsStream::Step::want_write:
                return wait_below(Socket::wait_write);
            case TlsStream::Step::done:
                phase_ = Phase::open;
                if (std::exchange(wants_shutdown_, false))
                    shutdown_send();
                return tell(nullptr);
            case TlsStream::Step::failed:
                phase_ = Phase::failed;
                return tell(error ? "the connection broke" : tls_->reason());
            case TlsStream::Step::eof:
            case TlsStream::Step::plaintext:
                phase_ = Phase::failed;
                return tell("the server ended the handshake");
        }
    }

    void tell(const char* failure) {
        if (Opened opened = std::exchange(opened_, nullptr))
            std::move(opened)(failure);
    }

    std::unique_ptr<ByteStream> below_;
    base::Executor executor_;
    std::optional<TlsStream> tls_;  // gone once it is closed
    Opened opened_;
    std::span<char> room_;
    ReadDone reader_;
    WaitDone watcher_;  // for input
    WaitDone writer_;
    Phase phase_ = Phase::opening;
    bool waits_to_read_ = false;  // below
    bool waits_to_write_ = false;
    bool wants_shutdown_ = false;  // once it is open
};

TlsClientStream::TlsClientStream(std::unique_ptr<ByteStream> below, std::shared_ptr<const TlsContext> context,
                                 std::string server_name, Opened opened)
    : state_(std::make_shared<State>(std::move(below), std::move(context), std::move(server_name),
                                     std::move(opened))) {}

TlsClientStream::~TlsClientStream() {
    state_->close();
}

base::Executor TlsClientStream::executor() {
    return state_->executor();
}

int TlsClientStream::native_handle() {
    return state_->native_handle();
}

void TlsClientStream::async_read_some(std::span<char> room, ReadDone done) {
    state_->read(room, std::move(done));
}

void TlsClientStream::async_wait(Socket::wait_type event, WaitDone done) {
    state_->wait(event, std::move(done));
}

std::size_t TlsClientStream::write_some(std::string_view bytes, boost::system::error_code& error) {
    return state_->write(bytes, error);
}

void TlsClientStream::shutdown_send() {
    state_->shutdown_send();
}

void TlsClientStream::cut() {
    state_->cut();
}

void TlsClientStream::close() {
    state_->close();
}

}  // namespace atl::http
