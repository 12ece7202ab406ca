#include "http/wire/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// RFC 7301 section 3.1: a length before each name.
constexpr std::array<unsigned char, 9> k_http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// Suites of TLS 1.2 (RFC 9325 section 4.2); all suites of TLS 1.3 are good.
constexpr const char* k_tls_1_2_suites = "ECDHE+AESGCM:ECDHE+CHACHA20:!PSK:!aNULL";

// Curves alone, in both roles: finite fields are rare, and one handshake with ffdhe8192 takes a server 0.1 s,
// in which nothing else runs.
constexpr const char* k_groups = "X25519:P-256:P-384";
// The same behind the group for post-quantum cryptography, which OpenSSL has since 3.5.
constexpr const char* k_server_groups = "X25519MLKEM768:X25519:P-256:P-384";

// The certificates that a server may show.
constexpr long k_max_chain_bytes = 32L * 1024;
constexpr int k_max_issuers = 8;

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

// The rules that both roles keep.
bool set_policy(SSL_CTX* context) {
    // Idle connections are many: the record buffers (34 KB) live only while a record is under way. A write
    // that waits is repeated from wherever its bytes are then.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, k_tls_1_2_suites) == 1;
}

bool set_server_policy(SSL_CTX* context) {
    // The end of TCP without close_notify is an end like another here: every message of HTTP and WebSocket
    // tells its own length, so that nothing can be cut off unseen (RFC 9112 section 9.8).
    SSL_CTX_set_options(
        context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
    if (SSL_CTX_set1_groups_list(context, k_server_groups) == 1)
        return true;
    ERR_clear_error();
    return SSL_CTX_set1_groups_list(context, k_groups) == 1;
}

// How far the check of a server's chain has come, kept with its SSL; none at first.
constexpr int k_put_off = 0;
constexpr int k_verified = 1;

void set_check(SSL* ssl, const int& state) {
    SSL_set_app_data(ssl, const_cast<int*>(&state));
}

// The server proves that it has this key in the step after the check. 8,192 bits take it a millisecond at
// most.
bool is_costly(X509* leaf) {
    const EVP_PKEY* const key = leaf == nullptr ? nullptr : X509_get0_pubkey(leaf);
    return key == nullptr || EVP_PKEY_get_bits(key) > 8192;
}

// SSL_CTX_set_cert_verify_callback(3). Signatures of a chain take up to a millisecond each, so that the check
// is a step of its own: the first call only puts it off. Signatures are looked at from a trusted issuer
// downward, so that no stranger can make the check longer.
int verify_server(X509_STORE_CTX* chain, void*) {
    auto* const ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    if (SSL_get_app_data(ssl) == nullptr) {
        set_check(ssl, k_put_off);
        return SSL_set_retry_verify(ssl) ? 1 : 0;
    }
    if (is_costly(X509_STORE_CTX_get0_cert(chain))) {
        X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
        return 0;
    }
    if (X509_verify_cert(chain) != 1)
        return 0;
    set_check(ssl, k_verified);
    return 1;
}

bool set_client_policy(SSL_CTX* context) {
    // The end of TCP alone may cut off an answer that ends with its connection: here it is a failure.
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_cert_verify_callback(context, verify_server, nullptr);
    SSL_CTX_set_verify_depth(context, k_max_issuers);
    SSL_CTX_set_max_cert_list(context, k_max_chain_bytes);
    return SSL_CTX_set1_groups_list(context, k_groups) == 1 &&
           SSL_CTX_set_alpn_protos(context, k_http_1_1.data(), k_http_1_1.size()) == 0;
}

// The issuers that this host trusts; empty where it has no such file. A folder with one file for each issuer
// would be read during handshakes.
std::filesystem::path system_bundle() {
    if (const char* named = std::getenv(X509_get_default_cert_file_env()))
        return named;
    for (const char* usual : {"/etc/ssl/certs/ca-certificates.crt", X509_get_default_cert_file()}) {
        if (::access(usual, R_OK) == 0)
            return usual;
    }
    return {};
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
    std::shared_ptr<const TlsContext> made(new TlsContext(context, TlsRole::server));
    if (!set_policy(context) || !set_server_policy(context))
        return Error(Errc::invalid_field, "OpenSSL has no TLS 1.2: " + reason());
    if (!show_certificate(context, certificate))
        return Error(Errc::invalid_field, "OpenSSL refuses the certificate: " + reason());
    return made;
}

base::Result<std::shared_ptr<const TlsContext>> TlsContext::make_client(
    const std::vector<std::filesystem::path>& ca_files) {
    ERR_clear_error();
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    if (context == nullptr)
        return Error(Errc::invalid_field, "OpenSSL cannot speak TLS here: " + reason());
    std::shared_ptr<const TlsContext> made(new TlsContext(context, TlsRole::client));
    if (!set_policy(context) || !set_client_policy(context))
        return Error(Errc::invalid_field, "OpenSSL has no TLS 1.2: " + reason());
    auto files = ca_files;
    if (auto system = system_bundle(); !system.empty())
        files.push_back(std::move(system));
    if (files.empty())
        return Error(Errc::storage_failed, "this host trusts no issuer of certificates");
    for (const auto& file : files) {
        if (::access(file.c_str(), R_OK) != 0)
            return Error(Errc::storage_failed, base::errno_text("cannot read " + file.string(), errno));
        if (SSL_CTX_load_verify_file(context, file.c_str()) != 1)
            return Error(Errc::invalid_field,
                         file.string() + " holds no certificates in PEM form: " + reason());
    }
    return made;
}

bool is_server_verified(ssl_st* ssl) {
    return SSL_get_app_data(ssl) == &k_verified && SSL_get_verify_result(ssl) == X509_V_OK;
}

}  // namespace atl::http
