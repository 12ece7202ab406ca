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

BioPtr reader_of(const std::string& pem) {
    return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

KeyPtr read_key(const CertificatePem& pem) {
    return KeyPtr(PEM_read_bio_PrivateKey(reader_of(pem.key).get(), nullptr, nullptr, nullptr));
}

CertificatePem make(const CertificateTraits& traits, const KeyPtr& key, const CertificatePem* issuer) {
    const X509Ptr certificate(X509_new());
    require(key && certificate, "key");
    const std::string& name = traits.name;
    const long begin_days = traits.validity == Validity::over    ? -10
                            : traits.validity == Validity::later ? 10
                                                                 : -1;
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), begin_days * k_day_seconds);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), (begin_days + 5) * k_day_seconds);
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const X509Ptr signer(issuer == nullptr ? nullptr
                                           : PEM_read_bio_X509(reader_of(issuer->certificate).get(), nullptr,
                                                               nullptr, nullptr));
    const KeyPtr signing_key(issuer == nullptr ? nullptr : read_key(*issuer));
    X509_set_issuer_name(certificate.get(), signer ? X509_get_subject_name(signer.get()) : subject);
    if (traits.alternatives.empty())
        add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    else
        add_extension(certificate.get(), NID_subject_alt_name, traits.alternatives);
    require(X509_set_pubkey(certificate.get(), key.get()) == 1, "public key");
    require(X509_sign(certificate.get(), signing_key ? signing_key.get() : key.get(), EVP_sha256()) > 0,
            "signature");
    const BioPtr certificate_text(BIO_new(BIO_s_mem()));
    const BioPtr key_text(BIO_new(BIO_s_mem()));
    require(PEM_write_bio_X509(certificate_text.get(), certificate.get()) == 1, "PEM");
    require(PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
            "PEM of the key");
    return {content(certificate_text.get()) + (issuer == nullptr ? "" : issuer->certificate),
            content(key_text.get())};
}

}  // namespace

CertificatePem make_certificate(const CertificateTraits& traits, const CertificatePem* issuer) {
    return make(traits, KeyPtr(EVP_EC_gen("P-256")), issuer);
}

CertificatePem make_certificate(const std::string& name, Validity validity) {
    return make_certificate({name, "IP:127.0.0.1,DNS:" + name, validity}, nullptr);
}

CertificatePem make_weak_certificate() {
    return make({"weak.example", "DNS:weak.example"}, KeyPtr(EVP_RSA_gen(512U)), nullptr);
}

std::string encrypted_key(const CertificatePem& pem, const std::string& passphrase) {
    const KeyPtr key = read_key(pem);
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
