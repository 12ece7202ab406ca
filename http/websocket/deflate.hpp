// Messages of a WebSocket compressed with permessage-deflate (RFC 7692 section 7.2): each message by itself,
// without a context from earlier messages. A state of zlib serves any number of WebSockets. Every byte of a
// client is hostile. Not here: which events are compressed (http/api/shared_deflate.hpp), the negotiation
// (extensions.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;

namespace atl::http {

/// The compressor looks back so far: 2 to this power, 4 KiB. The largest window saves 1 % more of a long
/// event and nothing of a short one, and does not serve clients that ask for a smaller one.
inline constexpr unsigned k_deflate_window_bits = 12;

class Deflater {
  public:
    /// Throws std::bad_alloc.
    Deflater();
    ~Deflater();
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    /// Replaces the content of `out` by the payload of a compressed message. False, and `out` is unspecified,
    /// if it would be longer than `limit_bytes`.
    bool deflate(std::string_view text, std::size_t limit_bytes, std::string& out);

  private:
    std::unique_ptr<z_stream_s> stream_;
};

class Inflater {
  public:
    /// Throws std::bad_alloc.
    Inflater();
    ~Inflater();
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    enum class Outcome : std::uint8_t {
        done,
        too_long,  // more than the limit; inflation stopped there
        invalid,   // no DEFLATE data, cut short, or in more blocks than any compressor makes
    };
    /// Replaces the content of `out` by the inflated `payload`. Its time is bounded by the two lengths: 2.5
    /// ms for 1 MiB of text, and 13 ms for the worst 1 MiB of payload found.
    Outcome inflate(std::string_view payload, std::size_t limit_bytes, std::string& out);

  private:
    Outcome take(std::string_view input, std::size_t limit_bytes, std::string& out);

    std::unique_ptr<z_stream_s> stream_;
    std::string piece_;  // the output of one call of zlib
    std::size_t blocks_left_ = 0;
    bool is_whole_ = false;  // the input so far ends with a block, at the end of a byte
};

}  // namespace atl::http
