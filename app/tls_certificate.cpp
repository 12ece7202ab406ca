#include "app/tls_certificate.hpp"

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::app {

using base::Error;
using base::LogLine;
using base::Result;
namespace evt = base::evt;

TlsCertificate::TlsCertificate(http::CertificateFiles files, Use use)
    : files_(std::move(files)), use_(std::move(use)) {}

Result<std::unique_ptr<TlsCertificate>> TlsCertificate::open(http::CertificateFiles files, Use use) {
    std::unique_ptr<TlsCertificate> made(new TlsCertificate(std::move(files), std::move(use)));
    if (auto loaded = made->load(); !loaded)
        return Error(loaded.error().code(), loaded.error().detail() + " (--tls-cert, --tls-key)");
    return made;
}

Result<void> TlsCertificate::load() {
    const auto certificate = http::read_certificate(files_);
    if (!certificate)
        return certificate.error();
    auto context = http::TlsContext::make(*certificate);
    if (!context)
        return context.error();
    for (const auto& warning : certificate->warnings)
        LogLine(evt::tls_warning).field("detail", warning).warn();
    LogLine(evt::tls_loaded)
        .field("file", files_.certificate.string())
        .field("expires", certificate->expires)
        .info();
    use_(std::move(*context));
    return {};
}

void TlsCertificate::reload() {
    if (auto loaded = load(); !loaded)
        LogLine(evt::tls_refused)
            .field("err", loaded.error().detail())
            .field("detail", "the former certificate stays in use")
            .error();
}

}  // namespace atl::app
