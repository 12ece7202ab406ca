#include "http/wire/tls_stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "http/wire/socket_bio.hpp"

namespace atl::http {
namespace {

// The bytes that one call may read from the socket, or encrypt: about a tenth of a millisecond.
constexpr std::size_t k_read_turn_bytes = 20UL * 1024;
constexpr std::size_t k_write_turn_bytes = 256UL * 1024;
static_assert(k_read_turn_bytes > SSL3_RT_MAX_PACKET_SIZE);

// A new key costs the peer 27 bytes and us 30 us, and a ticket is no cheaper. The limits of the ciphers ask
// for a key in many gigabytes, and servers send a few tickets.
constexpr int k_max_late_messages = 64;

constexpr char k_handshake_record = 22;  // RFC 8446 section 5.1

// The first byte of a method (RFC 9110 section 9.1), where a record's type would be.
bool begins_http(char byte) {
    return byte >= 'A' && byte <= 'Z';
}

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int socket) noexcept
    : TlsStream(std::move(context), socket, std::string()) {}

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int socket, std::string server_name) noexcept
    : context_(std::move(context)),
      server_name_(std::move(server_name)),
      socket_(socket),
      is_client_(context_->role() == TlsRole::client) {}

TlsStream::~TlsStream() {
    SSL_free(ssl_);
}

// Looks at the first byte before OpenSSL does, which would take plain HTTP away and answer with an alert.
TlsStream::Step TlsStream::look_at_first_byte() {
    char first = early_.empty() ? '\0' : early_.front();
    const ssize_t got = early_.empty() ? ::recv(socket_, &first, 1, MSG_PEEK) : 1;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return Step::want_read;
    if (got == 0)
        return Step::eof;
    reason_ = got < 0 ? "the connection is broken" : "the first bytes are not TLS";
    if (got < 0 || first != k_handshake_record)
        return got > 0 && begins_http(first) ? Step::plaintext : Step::failed;
    return Step::done;
}

// SNI is for host names alone (RFC 6066 section 3). Without a name OpenSSL would take any server.
bool TlsStream::ask_for_server() {
    SSL_set_connect_state(ssl_);
    X509_VERIFY_PARAM* const checks = SSL_get0_param(ssl_);
    if (server_name_.empty())
        return false;
    if (X509_VERIFY_PARAM_set1_ip_asc(checks, server_name_.c_str()) == 1)
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(
        checks, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(checks, server_name_.data(), server_name_.size()) == 1 &&
           SSL_set_tlsext_host_name(ssl_, server_name_.c_str()) == 1;
}

TlsStream::Step TlsStream::begin() {
    if (!is_client_) {
        if (const Step looked = look_at_first_byte(); looked != Step::done)
            return looked;
    }
    ERR_clear_error();
    ssl_ = SSL_new(context_->native());
    BIO* const bio = ssl_ == nullptr ? nullptr : new_socket_bio(socket_, std::move(early_));
    if (bio == nullptr) {
        reason_ = take_tls_reason("out of memory");
        return Step::failed;
    }
    SSL_set_bio(ssl_, bio, bio);
    if (!is_client_) {
        SSL_set_accept_state(ssl_);
    } else if (!ask_for_server()) {
        reason_ = take_tls_reason("the server's name cannot be asked for");
        return Step::failed;
    }
    SSL_set_msg_callback(ssl_, on_message);
    SSL_set_msg_callback_arg(ssl_, this);
    // Only SSL itself still needs the context, and it has its own reference.
    context_.reset();
    return Step::done;
}

// SSL_set_msg_callback(3). Where others should run first, OpenSSL gets nothing more to read, so that its call
// ends: after each message of a server's handshake, and past the limit on what may follow a handshake, which
// is KeyUpdate and NewSessionTicket (RFC 8446 section 4.6).
void TlsStream::on_message(int is_sent, int, int type, const void*, std::size_t, ssl_st* ssl, void* self) {
    auto& stream = *static_cast<TlsStream*>(self);
    if (is_sent != 0 || type != SSL3_RT_HANDSHAKE)
        return;
    if (stream.established_ ? ++stream.late_messages_ > k_max_late_messages : stream.is_client_)
        allow_reading(SSL_get_rbio(ssl), 0);
}

TlsStream::Step TlsStream::handshake() {
    if (ssl_ == nullptr) {
        if (const Step begun = begin(); begun != Step::done)
            return begun;
    }
    allow_reading(SSL_get_rbio(ssl_), k_read_turn_bytes);
    ERR_clear_error();
    const int code = SSL_do_handshake(ssl_);
    if (code != 1)
        return step_of(code);
    if (is_client_ && !is_server_verified(ssl_)) {
        reason_ = "the server was not verified";
        return Step::failed;
    }
    established_ = true;
    return Step::done;
}

TlsStream::IoResult TlsStream::read(char* data, std::size_t size) {
    allow_reading(SSL_get_rbio(ssl_), k_read_turn_bytes);
    std::size_t got = 0;
    ERR_clear_error();
    const int code = SSL_read_ex(ssl_, data, size, &got);
    if (late_messages_ > k_max_late_messages) {
        established_ = false;
        reason_ = "too many new keys or tickets";
        return {0, Step::failed};
    }
    return {got, code == 1 ? Step::done : step_of(code)};
}

TlsStream::IoResult TlsStream::write(std::string_view bytes) {
    const std::size_t limit = std::min(bytes.size(), k_write_turn_bytes);
    std::size_t total = 0;
    while (total < limit) {
        std::size_t sent = 0;
        ERR_clear_error();
        const int code = SSL_write_ex(ssl_, bytes.data() + total, limit - total, &sent);
        inside_record_ = code != 1;
        if (code != 1)
            return {total, step_of(code)};
        total += sent;
    }
    return {total, Step::done};
}

bool TlsStream::has_pending() const noexcept {
    return SSL_has_pending(ssl_) == 1;
}

void TlsStream::send_close_notify() {
    if (!established_ || inside_record_)
        return;
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
}

TlsStream::Step TlsStream::step_of(int code) {
    switch (SSL_get_error(ssl_, code)) {
        case SSL_ERROR_WANT_READ:
            return Step::want_read;
        case SSL_ERROR_WANT_WRITE:
        case SSL_ERROR_WANT_RETRY_VERIFY:  // only a turn of the loop is wanted
            return Step::want_write;
        case SSL_ERROR_ZERO_RETURN:
            return Step::eof;
        default:
            // SSL_get_error(3): nothing may be asked of it any more, not even to shut down.
            established_ = false;
            reason_ = take_tls_reason("the connection broke");
            if (const long verdict = SSL_get_verify_result(ssl_); is_client_ && verdict != X509_V_OK)
                reason_ = X509_verify_cert_error_string(verdict);
            return Step::failed;
    }
}

}  // namespace atl::http
