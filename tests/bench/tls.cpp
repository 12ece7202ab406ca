#include "tests/bench/tls.hpp"

#include <signal.h>

#include <stdexcept>

#include "tests/bench/temp_dir.hpp"
#include "tests/support/test_certificate.hpp"

namespace atl::bench {
namespace {

void require(bool done, const char* what) {
    if (!done)
        throw std::runtime_error(std::string("TLS: ") + what);
}

}  // namespace

TlsContext::TlsContext(const SSL_METHOD* method) : context_(SSL_CTX_new(method), &SSL_CTX_free) {
    require(context_ != nullptr, "context");
    // OpenSSL writes without MSG_NOSIGNAL: a peer that has gone is an error, no end of this process.
    ::signal(SIGPIPE, SIG_IGN);
}

TlsContext::SslPtr TlsContext::connection(int fd) const {
    SslPtr ssl(SSL_new(context()), &SSL_free);
    require(ssl && SSL_set_fd(ssl.get(), fd) == 1, "connection");
    return ssl;
}

TlsServer::TlsServer(const std::string& name) : TlsContext(TLS_server_method()) {
    const TempDir dir;
    const auto files = test::write_certificate(dir.path(), test::make_certificate(name));
    // A ticket would be sent after the handshake, to a client that has gone.
    SSL_CTX_set_num_tickets(context(), 0);
    require(SSL_CTX_use_certificate_chain_file(context(), files.certificate.c_str()) == 1, "certificate");
    require(SSL_CTX_use_PrivateKey_file(context(), files.key.c_str(), SSL_FILETYPE_PEM) == 1, "key");
}

void TlsServer::shake_hands(int fd) const {
    const SslPtr ssl = connection(fd);
    require(SSL_accept(ssl.get()) == 1, "the handshake of the server");
}

TlsClient::TlsClient() : TlsContext(TLS_client_method()) {}

void TlsClient::shake_hands(int fd, const std::string& server) const {
    const SslPtr ssl = connection(fd);
    SSL_set_tlsext_host_name(ssl.get(), server.c_str());
    require(SSL_connect(ssl.get()) == 1, "the handshake of the client");
}

}  // namespace atl::bench
