// Certificates for tests, made on the spot: self-signed ones, and chains.
#pragma once

#include <filesystem>
#include <string>

namespace atl::test {

struct CertificatePem {
    std::string certificate;
    std::string key;
};

enum class Validity { now, over, later };

/// A certificate for `name` with a P-256 key, which is good for 127.0.0.1 and `name`.
CertificatePem make_certificate(const std::string& name, Validity validity = Validity::now);

/// A certificate with an RSA key of 512 bits, which OpenSSL accepts only at security level 0.
CertificatePem make_weak_certificate();

struct CertificateTraits {
    std::string name;  // the common name
    std::string
        alternatives;  // as in x509v3_config(5): "DNS:a.example,IP:127.0.0.1"; empty: it may issue others
    Validity validity = Validity::now;
};

/// A certificate with a P-256 key that `issuer` has signed, with those of `issuer` behind it; without an
/// issuer it signs itself.
CertificatePem make_certificate(const CertificateTraits& traits, const CertificatePem* issuer);

/// The key of `pem`, encrypted with a passphrase.
std::string encrypted_key(const CertificatePem& pem, const std::string& passphrase);

struct CertificatePaths {
    std::filesystem::path certificate;
    std::filesystem::path key;  // mode 0600
};

/// Writes cert.pem and key.pem into the folder and replaces existing files.
CertificatePaths write_certificate(const std::filesystem::path& folder, const CertificatePem& pem);

}  // namespace atl::test
