// The TLS settings of this server, as a server and as a client: TLS 1.2 and 1.3 with forward secrecy only,
// ALPN `http/1.1`, no renegotiation, no early data (it can be replayed). As a server it has its certificate,
// and session tickets instead of kept sessions; as a client it has the certificates that it trusts, and
// resumes nothing. Immutable: another certificate is another context, and a connection keeps its first
// context. Not here: one connection (tls_stream.hpp), files (certificate.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "http/wire/certificate.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace atl::http {

enum class TlsRole : std::uint8_t { server, client };

class TlsContext {
  public:
    /// Errors: invalid_field if OpenSSL refuses the certificate or its key, e.g. a key that is too short for
    /// the security level of this host (SSL_CTX_set_security_level(3)).
    static base::Result<std::shared_ptr<const TlsContext>> make(const Certificate& certificate);
    /// For connections to servers of others. It trusts the issuers in this host's bundle (SSL_CERT_FILE, or
    /// /etc/ssl/certs/ca-certificates.crt) and in `ca_files`, and accepts chains of 32 KiB and eight issuers.
    /// Blocks on the disk: for the start. Errors: storage_failed if one of `ca_files` cannot be read, or if
    /// there is no bundle and no other file; invalid_field if a file holds no certificate.
    static base::Result<std::shared_ptr<const TlsContext>> make_client(
        const std::vector<std::filesystem::path>& ca_files);
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;
    ~TlsContext();

    ssl_ctx_st* native() const noexcept { return context_; }
    TlsRole role() const noexcept { return role_; }

  private:
    TlsContext(ssl_ctx_st* context, TlsRole role) noexcept : context_(context), role_(role) {}
    ssl_ctx_st* context_;
    TlsRole role_;
};

/// True once the check of the server's chain and name has found both good. Precondition: a client's
/// connection.
bool is_server_verified(ssl_st* ssl);

/// The newest reason in OpenSSL's queue of errors, which is emptied; `otherwise` if there is none. Static.
const char* take_tls_reason(const char* otherwise);

}  // namespace atl::http
