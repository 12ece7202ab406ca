// SIGHUP asks the server to read its certificate again, and to open the file of --egress-log again
// (signal(7)); it never ends the server, also where there is neither. A signal that comes during the start is
// answered once the server serves.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "app/tls_certificate.hpp"
#include "core/base/task.hpp"
#include "http/egress/egress_log.hpp"

namespace atl::app {

class Hangups {
  public:
    /// From now on the signal does not end the process.
    explicit Hangups(boost::asio::io_context& loop);
    Hangups(const Hangups&) = delete;
    Hangups& operator=(const Hangups&) = delete;

    /// Reloads both at each signal until stop(); they stay until then. Null: there is none. Without both that
    /// is logged.
    void await(TlsCertificate* certificate, http::EgressLog* log);
    /// Lets the loop run out of this work.
    void stop();

  private:
    boost::asio::basic_signal_set<base::Executor> signals_;
    bool stopped_ = false;
};

}  // namespace atl::app
