#include "http/wire/certificate.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "core/plain/unique_fd.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr std::size_t k_max_pem_bytes = 1024UL * 1024;

using BioPtr = std::unique_ptr<BIO, Certificate::Free<&BIO_free>>;

/// The content of a file, wiped when it goes: it may hold a key.
struct Secret {
    Secret() = default;
    Secret(Secret&& other) noexcept : text(std::move(other.text)), open_to_others(other.open_to_others) {}
    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;
    ~Secret() { OPENSSL_cleanse(text.data(), text.size()); }

    BioPtr bio() const { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

    std::vector<char> text;
    bool open_to_others = false;
};

Error unreadable(const std::filesystem::path& path, int error_number) {
    return Error(Errc::storage_failed, base::errno_text("cannot read " + path.string(), error_number));
}

Error malformed(const std::filesystem::path& path, const std::string& what) {
    ERR_clear_error();
    return Error(Errc::invalid_field, path.string() + ' ' + what);
}

Result<Secret> read_file(const std::filesystem::path& path) {
    // Not blocking: a FIFO must not hold up the open (fifo(7)).
    const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0)
        return unreadable(path, errno);
    if (!S_ISREG(status.st_mode))
        return malformed(path, "is no regular file");
    if (status.st_size <= 0 || static_cast<std::size_t>(status.st_size) > k_max_pem_bytes)
        return malformed(path, "has to have 1 to " + std::to_string(k_max_pem_bytes) + " bytes to be PEM");
    Secret secret;
    secret.open_to_others = (status.st_mode & S_IRWXO) != 0;
    // Its final size at once: a vector that grows leaves copies behind.
    secret.text.resize(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    while (done < secret.text.size()) {
        const ssize_t got = ::read(fd.get(), secret.text.data() + done, secret.text.size() - done);
        if (got < 0)
            return unreadable(path, errno);
        if (got == 0)
            return malformed(path, "changed while it was read");
        done += static_cast<std::size_t>(got);
    }
    return secret;
}

// Without it OpenSSL asks for the passphrase on the terminal and waits.
int no_passphrase(char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
}

Result<void> read_chain(const std::filesystem::path& path, const Secret& file, Certificate& into) {
    const BioPtr bio = file.bio();
    ERR_clear_error();
    into.leaf.reset(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
    if (!into.leaf)
        return malformed(path, "holds no certificate in PEM form (`-----BEGIN CERTIFICATE-----`)");
    while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
        into.chain.emplace_back(next);
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return malformed(
            path, "holds a broken certificate after " + std::to_string(1 + into.chain.size()) + " good ones");
    ERR_clear_error();
    return {};
}

Result<void> read_private_key(const std::filesystem::path& path, const Secret& file, Certificate& into) {
    const BioPtr bio = file.bio();
    bool asked = false;
    ERR_clear_error();
    into.key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &asked));
    if (into.key)
        return {};
    if (asked)
        return malformed(path, "is encrypted: store the key without a passphrase (openssl pkey), mode 0600");
    return malformed(path, "holds no private key in PEM form (`-----BEGIN PRIVATE KEY-----`)");
}

std::string time_text(const ASN1_TIME* time) {
    std::tm broken_down{};
    if (ASN1_TIME_to_tm(time, &broken_down) != 1)
        return "?";
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &broken_down)};
}

void judge(const CertificateFiles& files, const Secret& key_file, Certificate& certificate) {
    const ASN1_TIME* begins = X509_get0_notBefore(certificate.leaf.get());
    const ASN1_TIME* ends = X509_get0_notAfter(certificate.leaf.get());
    certificate.expires = time_text(ends);
    const std::string name = files.certificate.string();
    if (X509_cmp_current_time(ends) < 0)
        certificate.warnings.push_back(name + " expired at " + certificate.expires +
                                       ": clients will refuse it");
    if (X509_cmp_current_time(begins) > 0)
        certificate.warnings.push_back(name + " is not valid before " + time_text(begins) +
                                       ": clients will refuse it");
    if (key_file.open_to_others)
        certificate.warnings.push_back(files.key.string() +
                                       " can be read by every user of this host: set its mode to 0600");
}

}  // namespace

Result<Certificate> read_certificate(const CertificateFiles& files) {
    auto chain_file = read_file(files.certificate);
    if (chain_file.has_error())
        return chain_file.error();
    auto key_file = read_file(files.key);
    if (key_file.has_error())
        return key_file.error();
    Certificate certificate;
    if (auto ok = read_chain(files.certificate, *chain_file, certificate); ok.has_error())
        return ok.error();
    if (auto ok = read_private_key(files.key, *key_file, certificate); ok.has_error())
        return ok.error();
    if (X509_check_private_key(certificate.leaf.get(), certificate.key.get()) != 1)
        return malformed(files.key,
                         "is not the key of the first certificate in " + files.certificate.string());
    judge(files, *key_file, certificate);
    return certificate;
}

}  // namespace atl::http
