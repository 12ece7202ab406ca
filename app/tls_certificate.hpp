// The certificate that the server shows, from its files: read at the start, and again when that is asked for.
// A reload that fails changes nothing: the server goes on with the former certificate and logs that. Not
// here: the signal that asks for it (hangups.hpp), the TLS settings (http/wire/tls_context.hpp).
#pragma once

#include <functional>
#include <memory>

#include "core/base/error.hpp"
#include "http/wire/certificate.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

class TlsCertificate {
  public:
    using Use = std::function<void(std::shared_ptr<const http::TlsContext>)>;

    /// Reads the files and gives the result to `use`, now and at each reload() whose files are good. Errors:
    /// those of read_certificate() and TlsContext::make(), naming the flags.
    static base::Result<std::unique_ptr<TlsCertificate>> open(http::CertificateFiles files, Use use);
    TlsCertificate(const TlsCertificate&) = delete;
    TlsCertificate& operator=(const TlsCertificate&) = delete;

    /// Reads the files again. What is wrong with them is logged.
    void reload();

  private:
    TlsCertificate(http::CertificateFiles files, Use use);
    base::Result<void> load();

    http::CertificateFiles files_;
    Use use_;
};

}  // namespace atl::app
