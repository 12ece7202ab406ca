#include "http/egress/egress_dial.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <utility>

#include "core/plain/egress_limits.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

class Dialing final : public std::enable_shared_from_this<Dialing> {
  public:
    Dialing(base::Executor executor, base::Timers& timers, EgressAddresses addresses, std::uint16_t port,
            EgressDialDone done)
        : executor_(executor),
          timers_(timers),
          addresses_(std::move(addresses)),
          port_(port),
          done_(std::move(done)) {}
    ~Dialing() {
        timers_.cancel(attempt_timer_);
        timers_.cancel(timer_);
    }
    Dialing(const Dialing&) = delete;
    Dialing& operator=(const Dialing&) = delete;

    void start() {
        // Late is also what is under way when the timers stop: a server that ends waits for no connection.
        const std::shared_ptr<const void> late(this, [weak = weak_from_this()](const void*) {
            if (const auto self = weak.lock())
                self->end_late();
        });
        timer_ = timers_.arm(base::k_egress_dial_time, [late] {});
        try_next();
    }

  private:
    void try_next() {
        if (is_late_ || next_ == addresses_.size())
            return end(is_late_ ? Error(Errc::deadline_exceeded, "it took no connection in time")
                                : Error(Errc::upstream_failed, "it takes no connection"));
        const boost::asio::generic::stream_protocol::endpoint to(
            boost::asio::ip::tcp::endpoint(addresses_[next_++], port_));
        socket_.emplace(executor_);
        boost::system::error_code error;
        socket_->open(to.protocol(), error);
        if (!error)
            socket_->non_blocking(true, error);
        if (!error)
            socket_->set_option(boost::asio::ip::tcp::no_delay(true), error);
        const auto self = shared_from_this();
        attempt_timer_ = timers_.arm(base::k_egress_connect_time, [weak = weak_from_this()] {
            const auto late = weak.lock();
            if (late == nullptr)
                return;
            late->attempt_timer_ = 0;
            late->close();
        });
        // An error of open() comes again, from the loop.
        socket_->async_connect(to, [self, to](const boost::system::error_code& failure) {
            self->timers_.cancel(std::exchange(self->attempt_timer_, 0));
            boost::system::error_code unknown;
            // The peer is the address that was checked (getpeername(2)).
            if (failure || !self->socket_->is_open() || self->socket_->remote_endpoint(unknown) != to)
                return self->try_next();
            self->end(std::make_unique<SocketStream>(std::move(*self->socket_)));
        });
    }

    void end_late() {
        timer_ = 0;
        is_late_ = true;
        close();
    }

    void close() {
        boost::system::error_code ignored;
        if (socket_)
            socket_->close(ignored);
    }

    void end(base::Result<std::unique_ptr<ByteStream>> result) {
        if (const auto done = std::exchange(done_, nullptr))
            done(std::move(result));
    }

    base::Executor executor_;
    base::Timers& timers_;
    const EgressAddresses addresses_;
    const std::uint16_t port_;
    EgressDialDone done_;
    std::size_t next_ = 0;
    std::optional<Socket> socket_;
    base::TimerId attempt_timer_ = 0;
    base::TimerId timer_ = 0;
    bool is_late_ = false;
};

}  // namespace

EgressDial make_egress_dial(base::Executor executor, base::Timers& timers) {
    return [executor, &timers](EgressAddresses addresses, std::uint16_t port, EgressDialDone done) {
        std::make_shared<Dialing>(executor, timers, std::move(addresses), port, std::move(done))->start();
    };
}

}  // namespace atl::http
