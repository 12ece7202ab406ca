#include "http/wire/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// RFC 7301 section 3.1: a length before each name.
constexpr std::array<unsigned char, 9> k_http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// Suites of TLS 1.2 (RFC 9325 section 4.2); all suites of TLS 1.3 are good.
constexpr const char* k_tls_1_2_suites = "ECDHE+AESGCM:ECDHE+CHACHA20:!PSK:!aNULL";

// RFC 7301 section 3.2: a client that offers only other protocols is refused; a client without ALPN is
// served.
int select_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
    unsigned char* found = nullptr;
    if (SSL_select_next_proto(&found, chosen_size, k_http_1_1.data(), k_http_1_1.size(), offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

bool show_certificate(SSL_CTX* context, const Certificate& certificate) {
    if (SSL_CTX_use_certificate(context, certificate.leaf.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context, certificate.key.get()) != 1)
        return false;
    for (const auto& issuer : certificate.chain) {
        if (SSL_CTX_add1_chain_cert(context, issuer.get()) != 1)
            return false;
    }
    return true;
}

bool set_policy(SSL_CTX* context) {
    // Idle connections are many: the record buffers (34 KB) live only while a record is under way. A write
    // that waits is repeated from wherever its bytes are then.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // The end of TCP without close_notify is an end like another here: every message of HTTP and WebSocket
    // tells its own length, so that nothing can be cut off unseen (RFC 9112 section 9.8).
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, k_tls_1_2_suites) == 1;
}

std::string reason() {
    return take_tls_reason("it gives no reason");
}

}  // namespace

const char* take_tls_reason(const char* otherwise) {
    const unsigned long code = ERR_peek_last_error();
    const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
    ERR_clear_error();
    return reason == nullptr ? otherwise : reason;
}

TlsContext::~TlsContext() {
    SSL_CTX_free(context_);
}

base::Result<std::shared_ptr<const TlsContext>> TlsContext::make(const Certificate& certificate) {
    ERR_clear_error();
    SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
    if (context == nullptr)
        return Error(Errc::invalid_field, "OpenSSL cannot speak TLS here: " + reason());
    std::shared_ptr<const TlsContext> made(new TlsContext(context));
    if (!set_policy(context))
        return Error(Errc::invalid_field, "OpenSSL has no TLS 1.2: " + reason());
    if (!show_certificate(context, certificate))
        return Error(Errc::invalid_field, "OpenSSL refuses the certificate: " + reason());
    return made;
}

}  // namespace atl::http
