// SIGHUP asks the server to read its certificate again (signal(7)); it never ends the server, also where
// there is nothing to read. A signal that comes during the start is answered once the server serves.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "app/tls_certificate.hpp"
#include "core/base/task.hpp"

namespace atl::app {

class Hangups {
  public:
    /// From now on the signal does not end the process.
    explicit Hangups(boost::asio::io_context& loop);
    Hangups(const Hangups&) = delete;
    Hangups& operator=(const Hangups&) = delete;

    /// Reloads at each signal until stop(). Null: there is no TLS, which is logged. `certificate` stays until
    /// then.
    void await(TlsCertificate* certificate);
    /// Lets the loop run out of this work.
    void stop();

  private:
    boost::asio::basic_signal_set<base::Executor> signals_;
    bool stopped_ = false;
};

}  // namespace atl::app
