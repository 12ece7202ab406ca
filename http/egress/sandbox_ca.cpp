#include "http/egress/sandbox_ca.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

// Longer than any generation of a sandbox lives. The day before is for clocks that were set back.
constexpr long k_lifetime_seconds = 10L * 366 * 24 * 3600;
constexpr long k_early_seconds = 24L * 3600;

struct ExtensionText {
    int kind;
    std::string text;  // x509v3_config(5)
};

Error not_made() {
    return Error(Errc::internal, std::string("OpenSSL cannot make a certificate of a sandbox: ") +
                                     take_tls_reason("it gives no reason"));
}

bool has_name(X509_NAME* name, const char* common_name) {
    const auto add = [&](const char* field, const char* value) {
        return X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC,
                                          reinterpret_cast<const unsigned char*>(value), -1, -1, 0) == 1;
    };
    return add("O", "Atoll") && add("CN", common_name);
}

bool has_serial(X509* certificate) {
    std::array<unsigned char, 8> bytes{};
    std::uint64_t number = 0;
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        return false;
    for (const unsigned char byte : bytes)
        number = number << 8 | byte;
    // Positive (RFC 5280 section 4.1.2.2).
    return ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), number >> 1 | 1) == 1;
}

bool extend(X509* certificate, X509* issuer, const ExtensionText& wanted) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, wanted.kind, wanted.text.c_str());
    const bool is_added = made != nullptr && X509_add_ext(certificate, made, -1) == 1;
    X509_EXTENSION_free(made);
    return is_added;
}

/// Null: OpenSSL says why. `issuer` null: it is its own.
Certificate::X509Ptr make_certificate(const char* common_name, EVP_PKEY* key, X509* issuer,
                                      EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions) {
    Certificate::X509Ptr made(X509_new());
    X509* const certificate = made.get();
    if (certificate == nullptr)
        return nullptr;
    X509* const by = issuer == nullptr ? certificate : issuer;
    const bool is_filled =
        X509_set_version(certificate, X509_VERSION_3) == 1 && has_serial(certificate) &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -k_early_seconds) != nullptr &&
        X509_gmtime_adj(X509_getm_notAfter(certificate), k_lifetime_seconds) != nullptr &&
        X509_set_pubkey(certificate, key) == 1 && has_name(X509_get_subject_name(certificate), common_name) &&
        X509_set_issuer_name(certificate, X509_get_subject_name(by)) == 1 &&
        std::all_of(extensions.begin(), extensions.end(),
                    [&](const ExtensionText& each) { return extend(certificate, by, each); }) &&
        X509_sign(certificate, issuer_key, EVP_sha256()) > 0;
    return is_filled ? std::move(made) : nullptr;
}

std::string pem_of(X509* certificate) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
    char* text = nullptr;
    if (memory == nullptr || PEM_write_bio_X509(memory.get(), certificate) != 1)
        return {};
    const long size = BIO_get_mem_data(memory.get(), &text);
    return {text, static_cast<std::size_t>(std::max(size, 0L))};
}

}  // namespace

Result<std::shared_ptr<SandboxCa>> SandboxCa::make() {
    const std::shared_ptr<SandboxCa> made(new SandboxCa());
    made->issuer_.key.reset(EVP_EC_gen("P-256"));
    made->leaf_key_.reset(EVP_EC_gen("P-256"));
    if (made->issuer_.key == nullptr || made->leaf_key_ == nullptr)
        return not_made();
    // The key's identifier comes first: that of the issuer's key is taken from it.
    made->issuer_.leaf =
        make_certificate("Atoll sandbox issuer", made->issuer_.key.get(), nullptr, made->issuer_.key.get(),
                         {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                          {NID_key_usage, "critical,keyCertSign"},
                          {NID_subject_key_identifier, "hash"}});
    if (made->issuer_.leaf == nullptr)
        return not_made();
    made->pem_ = pem_of(made->issuer_.leaf.get());
    if (made->pem_.empty())
        return not_made();
    return made;
}

Result<std::shared_ptr<const TlsContext>> SandboxCa::leaf(const std::string& name) {
    const auto known =
        std::find_if(leaves_.begin(), leaves_.end(), [&](const auto& each) { return each.first == name; });
    if (known != leaves_.end()) {
        leaves_.splice(leaves_.begin(), leaves_, known);
        return known->second;
    }
    Certificate shown;
    // The name has letters, digits, '.', '-' and '_' alone: none ends it in this text. It may be too long for
    // a common name.
    shown.leaf =
        make_certificate("Atoll sandbox proxy", leaf_key_.get(), issuer_.leaf.get(), issuer_.key.get(),
                         {{NID_basic_constraints, "critical,CA:FALSE"},
                          {NID_key_usage, "critical,digitalSignature"},
                          {NID_ext_key_usage, "serverAuth"},
                          {NID_subject_key_identifier, "hash"},
                          {NID_authority_key_identifier, "keyid:always"},
                          {NID_subject_alt_name, "DNS:" + name}});
    if (shown.leaf == nullptr || EVP_PKEY_up_ref(leaf_key_.get()) != 1)
        return not_made();
    shown.key.reset(leaf_key_.get());
    auto context = TlsContext::make(shown);
    if (context.has_error())
        return Error(Errc::internal, context.error().detail());
    if (leaves_.size() == k_max_leaves)
        leaves_.pop_back();
    leaves_.emplace_front(name, *context);
    return std::move(*context);
}

}  // namespace atl::http
