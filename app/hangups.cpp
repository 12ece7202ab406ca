#include "app/hangups.hpp"

#include <csignal>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::app {

Hangups::Hangups(boost::asio::io_context& loop) : signals_(loop, SIGHUP) {}

void Hangups::await(TlsCertificate* certificate) {
    signals_.async_wait([this, certificate](const boost::system::error_code& error, int) {
        if (error || stopped_)
            return;
        if (certificate != nullptr)
            certificate->reload();
        else
            base::LogLine(base::evt::nothing_to_reload).quoted("detail", "there is no --tls-cert").info();
        await(certificate);
    });
}

void Hangups::stop() {
    stopped_ = true;
    signals_.cancel();
}

}  // namespace atl::app
