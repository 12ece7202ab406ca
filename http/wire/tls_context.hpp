// The TLS settings of this server: its certificate, TLS 1.2 and 1.3 with forward secrecy only, ALPN
// `http/1.1`, session tickets instead of kept sessions, no renegotiation, no early data (it can be replayed).
// Immutable: another certificate is another context, and a connection keeps its first context.
// Not here: one connection (tls_stream.hpp), files (certificate.hpp).
#pragma once

#include <memory>

#include "core/base/error.hpp"
#include "http/wire/certificate.hpp"

struct ssl_ctx_st;

namespace atl::http {

class TlsContext {
  public:
    /// Errors: invalid_field if OpenSSL refuses the certificate or its key, e.g. a key that is too short for
    /// the security level of this host (SSL_CTX_set_security_level(3)).
    static base::Result<std::shared_ptr<const TlsContext>> make(const Certificate& certificate);
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;
    ~TlsContext();

    ssl_ctx_st* native() const noexcept { return context_; }

  private:
    explicit TlsContext(ssl_ctx_st* context) noexcept : context_(context) {}
    ssl_ctx_st* context_;
};

/// The newest reason in OpenSSL's queue of errors, which is emptied; `otherwise` if there is none. Static.
const char* take_tls_reason(const char* otherwise);

}  // namespace atl::http
