// Seals values with AES-256-GCM (NIST SP 800-38D): a fresh random nonce of 96 bits, the ciphertext, a tag of
// 128 bits. The tag also covers the associated data, which is not in the sealed text: a value opens only with
// those that it was sealed with. Pure but for OpenSSL's randomness.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/secrets/secure_text.hpp"

namespace atl::secrets {

inline constexpr std::size_t k_key_bytes = 32;
inline constexpr std::size_t k_nonce_bytes = 12;
inline constexpr std::size_t k_tag_bytes = 16;
inline constexpr std::size_t k_sealing_bytes = k_nonce_bytes + k_tag_bytes;  // that a value grows by

class Sealer {
  public:
    /// Precondition: `key` has k_key_bytes.
    explicit Sealer(SecureText key) : key_(std::move(key)) {}

    /// Errors: internal, where OpenSSL has no cipher or no randomness.
    base::Result<std::string> seal(std::string_view value, std::string_view associated) const;
    /// Errors: secret_unusable: sealed with another key or other associated data, or changed since; capacity.
    base::Result<SecureText> open(std::string_view sealed, std::string_view associated) const;

  private:
    SecureText key_;
};

/// A new random key. Errors: capacity.
base::Result<SecureText> new_sealing_key();

}  // namespace atl::secrets
