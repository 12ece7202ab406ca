// DEFLATE data (RFC 1951) by plain calls of zlib, to compare with the server's output and input. Throws
// std::runtime_error if zlib returns an error.
#pragma once

#include <string>
#include <string_view>

namespace atl::test {

struct DeflateOptions {
    int level = 6;
    int window_bits = 15;
    int memory_level = 8;
};

/// The payload of a compressed message (RFC 7692 section 7.2.1).
std::string raw_deflate(std::string_view text, const DeflateOptions& options = {});

/// The message of such a payload, by a reader whose window has 2 to the power of `window_bits` bytes.
std::string raw_inflate(std::string_view payload, int window_bits = 15);

}  // namespace atl::test
