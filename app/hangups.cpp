#include "app/hangups.hpp"

#include <csignal>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::app {
namespace {

void reopen(http::EgressLog& log) {
    if (const auto opened = log.reopen(); !opened)
        base::LogLine(base::evt::egress_log_refused)
            .field("err", opened.error().detail())
            .field("detail", "lines go on to the former file")
            .error();
    else
        base::LogLine(base::evt::egress_log_reopened).info();
}

}  // namespace

Hangups::Hangups(boost::asio::io_context& loop) : signals_(loop, SIGHUP) {}

void Hangups::await(TlsCertificate* certificate, http::EgressLog* log) {
    signals_.async_wait([this, certificate, log](const boost::system::error_code& error, int) {
        if (error || stopped_)
            return;
        if (certificate != nullptr)
            certificate->reload();
        if (log != nullptr)
            reopen(*log);
        if (certificate == nullptr && log == nullptr)
            base::LogLine(base::evt::nothing_to_reload)
                .quoted("detail", "there is neither --tls-cert nor --egress-log")
                .info();
        await(certificate, log);
    });
}

void Hangups::stop() {
    stopped_ = true;
    signals_.cancel();
}

}  // namespace atl::app
