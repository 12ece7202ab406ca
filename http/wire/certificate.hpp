// The server's certificate chain and its private key, read from PEM files (RFC 7468) and checked against each
// other. Errors are sentences for the operator and name the file. Not here: how TLS is spoken
// (tls_context.hpp).
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace atl::http {

struct CertificateFiles {
    std::filesystem::path certificate;  // the server's own first, then its issuers
    std::filesystem::path key;          // may be the same file
};

struct Certificate {
    template <auto free>
    struct Free {
        template <class T>
        void operator()(T* object) const noexcept {
            free(object);
        }
    };
    using X509Ptr = std::unique_ptr<X509, Free<&X509_free>>;
    using KeyPtr = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;

    X509Ptr leaf;
    std::vector<X509Ptr> chain;  // without the leaf, in the order of the file
    KeyPtr key;
    std::string expires;                // RFC 3339, UTC
    std::vector<std::string> warnings;  // faults that still work; an operator should fix them
};

/// Blocks on the disk: for the start and for a reload. Errors: storage_failed if a file cannot be read,
/// invalid_field if its content is invalid, or if key and certificate do not match.
base::Result<Certificate> read_certificate(const CertificateFiles& files);

}  // namespace atl::http
