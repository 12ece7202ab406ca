// Handshakes of TLS over blocking sockets, for the measurements of tunnels. The client verifies nothing.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace atl::bench {

class TlsContext {
  public:
    explicit TlsContext(const SSL_METHOD* method);

  protected:
    using SslPtr = std::unique_ptr<SSL, decltype(&SSL_free)>;

    /// A connection over `fd`, which stays the caller's.
    SslPtr connection(int fd) const;
    SSL_CTX* context() const { return context_.get(); }

  private:
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
};

class TlsServer : TlsContext {
  public:
    /// With a new certificate for `name`, which signs itself. Throws.
    explicit TlsServer(const std::string& name);
    /// Throws unless the handshake succeeds.
    void shake_hands(int fd) const;
};

class TlsClient : TlsContext {
  public:
    TlsClient();
    /// Names `server` as what it wants. Throws unless the handshake succeeds.
    void shake_hands(int fd, const std::string& server) const;
};

}  // namespace atl::bench
