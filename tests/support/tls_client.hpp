// The client's side of TLS on a connected socket. Trusts every certificate and reports it, since a test wants
// to know which certificate the server showed.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

namespace atl::test {

struct TlsClientOptions {
    int version = 0;          // TLS1_2_VERSION, …; 0: the newest
    std::string alpn;         // a protocol to ask for
    std::string suites = {};  // of TLS 1.2, as SSL_CTX_set_cipher_list(3) takes them
    SSL_SESSION* resume = nullptr;
};

class TlsClient {
  public:
    enum class Want { nothing, read, write };
    struct IoResult {
        std::size_t bytes = 0;  // 0 and nothing wanted: the end
        Want want = Want::nothing;
    };

    /// Makes the socket non-blocking; it must outlive this. Nothing is sent yet.
    explicit TlsClient(int fd, const TlsClientOptions& options = {});

    /// Goes on with the handshake; nothing wanted: it is done. Throws with OpenSSL's reason if it fails.
    Want handshake();
    IoResult read(char* data, std::size_t size);
    /// Throws if the connection is broken.
    IoResult write(std::string_view bytes);
    /// Sends close_notify.
    void close_notify();
    /// True if the peer's end was close_notify and not merely that of TCP.
    bool saw_close_notify() const;

    /// The common name in the certificate that the server showed.
    std::string server_name() const;
    std::string protocol() const;  // ALPN
    bool is_resumed() const;
    SSL* native() const noexcept { return ssl_.get(); }

  private:
    Want want_of(int code, const char* what);

    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

}  // namespace atl::test
