// The bits of a WebSocket frame's head: RFC 6455 section 5.2.
#pragma once

#include <cstddef>

namespace atl::http {

// In the first byte.
inline constexpr unsigned char k_opcode = 0x0f;
// In the second byte; the length, or that it follows in 2 or 8 bytes.
inline constexpr unsigned char k_masked = 0x80;
inline constexpr unsigned char k_length = 0x7f;
inline constexpr unsigned char k_length_in_2 = 126;
inline constexpr unsigned char k_length_in_8 = 127;

inline constexpr std::size_t k_mask_bytes = 4;

}  // namespace atl::http
