#include "core/secrets/sealer.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "core/base/ids.hpp"

namespace atl::secrets {
namespace {

using base::Errc;
using base::Error;
using base::Result;

struct FreeCipher {
    void operator()(EVP_CIPHER_CTX* context) const noexcept { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

const unsigned char* bytes_of(std::string_view text) noexcept {
    return reinterpret_cast<const unsigned char*>(text.data());
}

Error no_cipher() {
    return Error(Errc::internal, "OpenSSL has no AES-256-GCM or no randomness here.");
}

}  // namespace

Result<SecureText> new_sealing_key() {
    auto key = SecureText::make(k_key_bytes);
    // OpenSSL's generator would cost 1.6 MB of memory at each first start, with or without secrets.
    if (key)
        base::fill_random({key->data(), key->size()});
    return key;
}

Result<std::string> Sealer::seal(std::string_view value, std::string_view associated) const {
    std::string sealed(k_sealing_bytes + value.size(), '\0');
    auto* const nonce = reinterpret_cast<unsigned char*>(sealed.data());
    auto* const text = nonce + k_nonce_bytes;
    auto* const tag = text + value.size();
    const Cipher cipher(EVP_CIPHER_CTX_new());
    int done = 0;
    if (!cipher || RAND_bytes(nonce, k_nonce_bytes) != 1 ||
        EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key_.data(), nonce) != 1 ||
        EVP_EncryptUpdate(cipher.get(), nullptr, &done, bytes_of(associated),
                          static_cast<int>(associated.size())) != 1 ||
        EVP_EncryptUpdate(cipher.get(), text, &done, bytes_of(value), static_cast<int>(value.size())) != 1 ||
        EVP_EncryptFinal_ex(cipher.get(), tag, &done) != 1 ||
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, k_tag_bytes, tag) != 1)
        return no_cipher();
    return sealed;
}

Result<SecureText> Sealer::open(std::string_view sealed, std::string_view associated) const {
    const Error refused(Errc::secret_unusable);
    if (sealed.size() < k_sealing_bytes)
        return refused;
    auto value = SecureText::make(sealed.size() - k_sealing_bytes);
    if (!value)
        return value.error();
    const auto text = sealed.substr(k_nonce_bytes, value->size());
    std::string tag(sealed.substr(k_nonce_bytes + value->size()));
    const Cipher cipher(EVP_CIPHER_CTX_new());
    int done = 0;
    if (!cipher ||
        EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key_.data(), bytes_of(sealed)) != 1)
        return no_cipher();
    unsigned char nothing = 0;
    // The text is the value only once the tag is found right: until then nobody sees it.
    if (EVP_DecryptUpdate(cipher.get(), nullptr, &done, bytes_of(associated),
                          static_cast<int>(associated.size())) != 1 ||
        EVP_DecryptUpdate(cipher.get(), value->size() == 0 ? &nothing : value->data(), &done, bytes_of(text),
                          static_cast<int>(text.size())) != 1 ||
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, k_tag_bytes, tag.data()) != 1 ||
        EVP_DecryptFinal_ex(cipher.get(), &nothing, &done) != 1)
        return refused;
    return value;
}

}  // namespace atl::secrets
