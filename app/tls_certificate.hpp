// The certificate that the server shows, from its files: read at the start, and again at each SIGHUP. A
// reload that fails changes nothing: the server goes on with the former certificate and logs that. Not here:
// the TLS settings (http/wire/tls_context.hpp).
#pragma once

#include <boost/asio/signal_set.hpp>
#include <functional>
#include <memory>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "http/wire/certificate.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

class TlsCertificate {
  public:
    using Use = std::function<void(std::shared_ptr<const http::TlsContext>)>;

    /// Reads the files and gives the result to `use`, now and after each SIGHUP whose files are good. From
    /// then on SIGHUP does not end the process. `use` must stay callable until stop(). Errors: those of
    /// read_certificate() and TlsContext::make(), naming the flags.
    static base::Result<std::unique_ptr<TlsCertificate>> open(base::Executor executor,
                                                              http::CertificateFiles files, Use use);
    TlsCertificate(const TlsCertificate&) = delete;
    TlsCertificate& operator=(const TlsCertificate&) = delete;

    /// Lets the loop run out of this work.
    void stop() { signals_.cancel(); }

  private:
    TlsCertificate(base::Executor executor, http::CertificateFiles files, Use use);
    base::Result<void> load();
    void await_signal();

    boost::asio::basic_signal_set<base::Executor> signals_;
    http::CertificateFiles files_;
    Use use_;
};

}  // namespace atl::app
