#include "tests/support/raw_deflate.hpp"

#include <zlib.h>

#include <array>
#include <stdexcept>

namespace atl::test {
namespace {

constexpr std::size_t k_tail_bytes = 4;

void give(z_stream& stream, std::string_view input) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
}

// Calls `step` as long as it fills its output buffer.
template <class Step>
std::string drained(z_stream& stream, Step step) {
    std::string out;
    std::array<char, 4096> piece;
    do {
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = static_cast<uInt>(piece.size());
        if (const int status = step(); status != Z_OK && status != Z_BUF_ERROR)
            throw std::runtime_error("zlib: " + std::to_string(status));
        out.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    return out;
}

}  // namespace

std::string raw_deflate(std::string_view text, const DeflateOptions& options) {
    z_stream stream{};
    if (::deflateInit2(&stream, options.level, Z_DEFLATED, -options.window_bits, options.memory_level,
                       Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::runtime_error("deflateInit2");
    give(stream, text);
    std::string out = drained(stream, [&] { return ::deflate(&stream, Z_SYNC_FLUSH); });
    ::deflateEnd(&stream);
    out.resize(out.size() - k_tail_bytes);
    return out;
}

std::string raw_inflate(std::string_view payload, int window_bits) {
    const std::string input = std::string(payload).append("\0\0\xff\xff", k_tail_bytes);
    z_stream stream{};
    if (::inflateInit2(&stream, -window_bits) != Z_OK)
        throw std::runtime_error("inflateInit2");
    give(stream, input);
    try {
        std::string out = drained(stream, [&] { return ::inflate(&stream, Z_SYNC_FLUSH); });
        ::inflateEnd(&stream);
        return out;
    } catch (...) {
        ::inflateEnd(&stream);
        throw;
    }
}

}  // namespace atl::test
