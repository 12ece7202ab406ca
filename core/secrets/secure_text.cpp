#include "core/secrets/secure_text.hpp"

#include <openssl/crypto.h>

#include <utility>

namespace atl::secrets {
namespace {

constexpr std::size_t k_least_block_bytes = 32;

}  // namespace

bool prepare_secure_heap() {
    return CRYPTO_secure_malloc_init(k_secure_heap_bytes, k_least_block_bytes) == 1;
}

base::Result<SecureText> SecureText::make(std::size_t bytes) {
    SecureText made;
    if (bytes == 0)
        return made;
    const bool is_full =
        CRYPTO_secure_malloc_initialized() == 1 && CRYPTO_secure_used() + bytes > k_secure_heap_bytes / 2;
    if (!is_full)
        made.data_ = static_cast<char*>(OPENSSL_secure_zalloc(bytes));
    if (made.data_ == nullptr)
        return base::Error(base::Errc::capacity, "Too many secrets are in use at once; try again.",
                           std::chrono::seconds(1));
    made.size_ = bytes;
    return made;
}

SecureText::SecureText(SecureText&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SecureText& SecureText::operator=(SecureText&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

SecureText::~SecureText() {
    OPENSSL_secure_clear_free(data_, size_);
}

}  // namespace atl::secrets
