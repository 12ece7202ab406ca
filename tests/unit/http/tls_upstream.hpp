// A TLS server on one end of a socket pair, driven by hand, and the client's context that trusts its issuer.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "core/plain/unique_fd.hpp"
#include "http/wire/tls_context.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/test_certificate.hpp"

namespace atl::test {

inline const CertificatePem& test_issuer() {
    static const CertificatePem issuer = make_certificate({"Test issuer", ""}, nullptr);
    return issuer;
}

/// A leaf of the test's issuer.
inline CertificatePem issued(const std::string& alternatives, Validity validity = Validity::now) {
    return make_certificate({"leaf", alternatives, validity}, &test_issuer());
}

/// Trusts the test's issuer, beside those of this host.
inline std::shared_ptr<const http::TlsContext> trusting_context() {
    const TempDir dir;
    const auto file = dir.path() / "ca.pem";
    std::ofstream(file) << test_issuer().certificate;
    return http::TlsContext::make_client({file}).value();
}

class TlsUpstream {
  public:
    explicit TlsUpstream(const CertificatePem& pem) {
        const TempDir dir;
        const auto paths = write_certificate(dir.path(), pem);
        context_ =
            http::TlsContext::make(http::read_certificate({paths.certificate, paths.key}).value()).value();
        // OpenSSL's own sockets raise it when the client has gone.
        std::signal(SIGPIPE, SIG_IGN);
        // It tells an end without close_notify from one with it.
        SSL_CTX_clear_options(settings(), SSL_OP_IGNORE_UNEXPECTED_EOF);
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
        own_end.reset(ends[0]);
        client_end.reset(ends[1]);
    }
    /// Its settings, before the first step.
    SSL_CTX* settings() { return context_->native(); }
    SSL* ssl() {
        if (!ssl_) {
            ssl_.reset(SSL_new(context_->native()));
            SSL_set_fd(ssl_.get(), own_end.get());
            SSL_set_accept_state(ssl_.get());
        }
        return ssl_.get();
    }
    /// A step of the handshake; whether it is done.
    bool shake_hands() { return SSL_do_handshake(ssl()) == 1; }
    void write(std::string_view bytes) {
        REQUIRE(SSL_write(ssl(), bytes.data(), static_cast<int>(bytes.size())) ==
                static_cast<int>(bytes.size()));
    }
    std::string read() {
        std::array<char, 20'000> bytes{};
        const int got = SSL_read(ssl(), bytes.data(), bytes.size());
        return {bytes.data(), static_cast<std::size_t>(std::max(got, 0))};
    }

    base::UniqueFd own_end;
    base::UniqueFd client_end;

  private:
    std::shared_ptr<const http::TlsContext> context_;
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

}  // namespace atl::test
