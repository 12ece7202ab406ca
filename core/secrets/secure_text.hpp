// Bytes in OpenSSL's secure heap (OPENSSL_secure_malloc(3)): in no core dump, not swapped out where the
// kernel lets the server lock them, and wiped when they are freed. Before prepare_secure_heap(), and where
// the heap cannot be made, they are ordinary memory, and wiped all the same. Not here: what is copied
// elsewhere.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::secrets {

// OpenSSL keeps 32 to 128 bytes here for each connection with TLS 1.3, as long as it lives, and its
// handshakes fail where the heap is full: half of this is enough for all connections
// (base::k_max_connections).
inline constexpr std::size_t k_secure_heap_bytes = 4UL * 1024 * 1024;

/// Makes the heap, once, at the start. OpenSSL keeps private keys there, too, from then on. False: the heap
/// is not locked in memory, or there is none.
bool prepare_secure_heap();

class SecureText {
  public:
    SecureText() = default;
    /// Zeros. Errors: capacity: others have half of the heap, and the rest is for keys of TLS.
    static base::Result<SecureText> make(std::size_t bytes);
    SecureText(SecureText&& other) noexcept;
    SecureText& operator=(SecureText&& other) noexcept;
    ~SecureText();

    std::string_view text() const noexcept { return {data_, size_}; }
    unsigned char* data() noexcept { return reinterpret_cast<unsigned char*>(data_); }
    const unsigned char* data() const noexcept { return reinterpret_cast<const unsigned char*>(data_); }
    std::size_t size() const noexcept { return size_; }

  private:
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace atl::secrets
