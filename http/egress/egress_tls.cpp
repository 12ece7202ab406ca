#include "http/egress/egress_tls.hpp"

#include <string>
#include <utility>

#include "core/plain/egress_limits.hpp"
#include "http/wire/tls_client_stream.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

/// Its timer keeps it.
class Securing final : public std::enable_shared_from_this<Securing> {
  public:
    Securing(base::Timers& timers, EgressDialDone done) : timers_(timers), done_(std::move(done)) {}
    Securing(const Securing&) = delete;
    Securing& operator=(const Securing&) = delete;

    void start(std::unique_ptr<ByteStream> below, std::shared_ptr<const TlsContext> context,
               const std::string& name) {
        timer_ = timers_.arm(base::k_egress_handshake_time, [self = shared_from_this()] {
            self->end(Error(Errc::deadline_exceeded, "its handshake of TLS took too long"));
        });
        stream_ = std::make_unique<TlsClientStream>(
            std::move(below), std::move(context), name, [weak = weak_from_this()](const char* failure) {
                const auto self = weak.lock();
                if (self == nullptr)
                    return;
                if (failure == nullptr)
                    return self->end(std::move(self->stream_));
                self->end(Error(Errc::upstream_failed, std::string("TLS failed: ") + failure));
            });
        // It begins with the first wait.
        stream_->async_wait(Socket::wait_write, [](const boost::system::error_code&) {});
    }

  private:
    void end(base::Result<std::unique_ptr<ByteStream>> result) {
        const auto self = shared_from_this();
        timers_.cancel(std::exchange(timer_, 0));
        const auto unused = std::move(stream_);
        if (const auto done = std::exchange(done_, nullptr))
            done(std::move(result));
    }

    base::Timers& timers_;
    EgressDialDone done_;
    base::TimerId timer_ = 0;
    std::unique_ptr<ByteStream> stream_;
};

}  // namespace

EgressSecure make_egress_tls(base::Timers& timers, std::shared_ptr<const TlsContext> context) {
    return
        [&timers, context](std::unique_ptr<ByteStream> stream, const std::string& name, EgressDialDone done) {
            std::make_shared<Securing>(timers, std::move(done))->start(std::move(stream), context, name);
        };
}

}  // namespace atl::http
