#include "tests/support/tls_client.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <array>
#include <csignal>
#include <stdexcept>

namespace atl::test {

TlsClient::TlsClient(int fd, const TlsClientOptions& options)
    : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    // OpenSSL's own sockets raise it when the server has gone.
    std::signal(SIGPIPE, SIG_IGN);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // Sessions come with tickets, after the handshake.
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT);
    SSL_CTX_set_security_level(context_.get(), 0);  // the server has to refuse weak settings, not its client
    if (options.version != 0) {
        SSL_CTX_set_min_proto_version(context_.get(), options.version);
        SSL_CTX_set_max_proto_version(context_.get(), options.version);
    }
    if (!options.suites.empty())
        SSL_CTX_set_cipher_list(context_.get(), options.suites.c_str());
    ssl_.reset(SSL_new(context_.get()));
    if (!options.alpn.empty()) {
        const std::string wire = std::string(1, static_cast<char>(options.alpn.size())) + options.alpn;
        SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(wire.data()),
                            static_cast<unsigned>(wire.size()));
    }
    if (options.resume != nullptr)
        SSL_set_session(ssl_.get(), options.resume);
    SSL_set_fd(ssl_.get(), fd);
    SSL_set_connect_state(ssl_.get());
}

TlsClient::Want TlsClient::want_of(int code, const char* what) {
    switch (SSL_get_error(ssl_.get(), code)) {
        case SSL_ERROR_WANT_READ:
            return Want::read;
        case SSL_ERROR_WANT_WRITE:
            return Want::write;
        default:
            break;
    }
    const unsigned long error = ERR_peek_last_error();
    const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
    ERR_clear_error();
    throw std::runtime_error(std::string("tls client: ") + what + ": " +
                             (reason == nullptr ? "the connection ended" : reason));
}

TlsClient::Want TlsClient::handshake() {
    ERR_clear_error();
    const int code = SSL_do_handshake(ssl_.get());
    return code == 1 ? Want::nothing : want_of(code, "handshake");
}

TlsClient::IoResult TlsClient::read(char* data, std::size_t size) {
    IoResult moved;
    ERR_clear_error();
    const int code = SSL_read_ex(ssl_.get(), data, size, &moved.bytes);
    if (code == 1)
        return moved;
    const int error = SSL_get_error(ssl_.get(), code);
    if (error == SSL_ERROR_WANT_READ)
        moved.want = Want::read;
    else if (error == SSL_ERROR_WANT_WRITE)
        moved.want = Want::write;
    ERR_clear_error();
    return moved;
}

TlsClient::IoResult TlsClient::write(std::string_view bytes) {
    IoResult moved;
    ERR_clear_error();
    const int code = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &moved.bytes);
    if (code != 1)
        moved.want = want_of(code, "write");
    return moved;
}

void TlsClient::close_notify() {
    SSL_shutdown(ssl_.get());
}

bool TlsClient::saw_close_notify() const {
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

std::string TlsClient::server_name() const {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl_.get()),
                                                                  &X509_free);
    std::array<char, 256> name{};
    if (!certificate || X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                                  name.data(), name.size()) < 0)
        return {};
    return name.data();
}

std::string TlsClient::protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &size);
    return size == 0 ? std::string() : std::string(reinterpret_cast<const char*>(name), size);
}

bool TlsClient::is_resumed() const {
    return SSL_session_reused(ssl_.get()) == 1;
}

}  // namespace atl::test
