#include "core/conversation/digest.hpp"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace atl::conversation {

std::string digest(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    if (EVP_Digest(text.data(), text.size(), raw.data(), &size, EVP_sha256(), nullptr) != 1)
        throw std::runtime_error("SHA-256 is not available in this OpenSSL");
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (unsigned int at = 0; at < size; ++at) {
        out += digits[raw[at] >> 4U];
        out += digits[raw[at] & 15U];
    }
    return out;
}

}  // namespace atl::conversation
