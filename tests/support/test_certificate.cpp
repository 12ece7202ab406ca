#include "tests/support/test_certificate.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <stdexcept>

namespace atl::test {
namespace {

constexpr long k_day_seconds = 86'400;

template <auto free>
struct Free {
    template <class T>
    void operator()(T* object) const noexcept {
        free(object);
    }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Free<&X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>>;
using BioPtr = std::unique_ptr<BIO, Free<&BIO_free>>;

void require(bool done, const char* what) {
    if (!done)
        throw std::runtime_error(std::string("test certificate: ") + what);
}

void add_extension(X509* certificate, int id, const std::string& value) {
    const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()));
    require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "extension");
}

std::string content(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

CertificatePem make(const std::string& name, Validity validity, const KeyPtr& key) {
    const X509Ptr certificate(X509_new());
    require(key && certificate, "key");
    const long begin_days = validity == Validity::over ? -10 : validity == Validity::later ? 10 : -1;
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), begin_days * k_day_seconds);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), (begin_days + 5) * k_day_seconds);
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    add_extension(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:" + name);
    require(X509_set_pubkey(certificate.get(), key.get()) == 1, "public key");
    require(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "signature");
    const BioPtr certificate_text(BIO_new(BIO_s_mem()));
    const BioPtr key_text(BIO_new(BIO_s_mem()));
    require(PEM_write_bio_X509(certificate_text.get(), certificate.get()) == 1, "PEM");
    require(PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
            "PEM of the key");
    return {content(certificate_text.get()), content(key_text.get())};
}

}  // namespace

CertificatePem make_certificate(const std::string& name, Validity validity) {
    return make(name, validity, KeyPtr(EVP_EC_gen("P-256")));
}

CertificatePem make_weak_certificate() {
    return make("weak.example", Validity::now, KeyPtr(EVP_RSA_gen(512U)));
}

std::string encrypted_key(const CertificatePem& pem, const std::string& passphrase) {
    const BioPtr plain(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
    const KeyPtr key(PEM_read_bio_PrivateKey(plain.get(), nullptr, nullptr, nullptr));
    const BioPtr out(BIO_new(BIO_s_mem()));
    require(key && PEM_write_bio_PrivateKey(out.get(), key.get(), EVP_aes_256_cbc(),
                                            reinterpret_cast<const unsigned char*>(passphrase.data()),
                                            static_cast<int>(passphrase.size()), nullptr, nullptr) == 1,
            "encrypted key");
    return content(out.get());
}

CertificatePaths write_certificate(const std::filesystem::path& folder, const CertificatePem& pem) {
    CertificatePaths paths{folder / "cert.pem", folder / "key.pem"};
    std::ofstream(paths.certificate) << pem.certificate;
    std::ofstream(paths.key) << pem.key;
    std::filesystem::permissions(paths.key,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return paths;
}

}  // namespace atl::test
