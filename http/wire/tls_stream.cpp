#include "http/wire/tls_stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
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

// A new key costs the client 27 bytes and us 30 us. The limits of the ciphers ask for one in many gigabytes.
constexpr int k_max_key_updates = 64;

constexpr char k_handshake_record = 22;  // RFC 8446 section 5.1

// The first byte of a method (RFC 9110 section 9.1), where a record's type would be.
bool begins_http(char byte) {
    return byte >= 'A' && byte <= 'Z';
}

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int socket) noexcept
    : context_(std::move(context)), socket_(socket) {}

TlsStream::~TlsStream() {
    SSL_free(ssl_);
}

// Looks at the first byte before OpenSSL does, which would take plain HTTP away and answer with an alert.
TlsStream::Step TlsStream::begin() {
    char first = 0;
    const ssize_t got = ::recv(socket_, &first, 1, MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return Step::want_read;
    if (got == 0)
        return Step::eof;
    reason_ = got < 0 ? "the connection is broken" : "the first bytes are not TLS";
    if (got < 0 || first != k_handshake_record)
        return got > 0 && begins_http(first) ? Step::plaintext : Step::failed;
    ERR_clear_error();
    ssl_ = SSL_new(context_->native());
    BIO* const bio = ssl_ == nullptr ? nullptr : new_socket_bio(socket_);
    if (bio == nullptr) {
        reason_ = take_tls_reason("out of memory");
        return Step::failed;
    }
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_accept_state(ssl_);
    SSL_set_msg_callback(ssl_, on_message);
    SSL_set_msg_callback_arg(ssl_, this);
    // Only SSL itself still needs the context, and it has its own reference.
    context_.reset();
    return Step::done;
}

// SSL_set_msg_callback(3). Counts KeyUpdate (RFC 8446 section 4.6.3); past the limit OpenSSL gets nothing
// more to read, so that its call ends.
void TlsStream::on_message(int is_sent, int, int type, const void* data, std::size_t size, ssl_st* ssl,
                           void* self) {
    auto& stream = *static_cast<TlsStream*>(self);
    const bool is_key_update = is_sent == 0 && type == SSL3_RT_HANDSHAKE && size > 0 &&
                               *static_cast<const unsigned char*>(data) == SSL3_MT_KEY_UPDATE;
    if (is_key_update && ++stream.key_updates_ > k_max_key_updates)
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
    established_ = true;
    return Step::done;
}

TlsStream::IoResult TlsStream::read(char* data, std::size_t size) {
    allow_reading(SSL_get_rbio(ssl_), k_read_turn_bytes);
    std::size_t got = 0;
    ERR_clear_error();
    const int code = SSL_read_ex(ssl_, data, size, &got);
    if (key_updates_ > k_max_key_updates) {
        established_ = false;
        reason_ = "too many new keys";
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
            return Step::want_write;
        case SSL_ERROR_ZERO_RETURN:
            return Step::eof;
        default:
            // SSL_get_error(3): nothing may be asked of it any more, not even to shut down.
            established_ = false;
            reason_ = take_tls_reason("the connection broke");
            return Step::failed;
    }
}

}  // namespace atl::http
