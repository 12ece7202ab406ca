// Compression of archives: DEFLATE (RFC 1951), bare as in a zip or in the form of gzip (RFC 1952), by zlib.
// Memory: 256 KiB to compress, 108 KiB to decompress. Errors: std::bad_alloc where there is none.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace atl::guest {

/// The CRC-32 of what has `crc` so far, 0 at the beginning, and `bytes` behind it.
std::uint32_t crc_of(std::uint32_t crc, std::string_view bytes);

enum class DeflateForm : std::uint8_t { bare, gzip };

class Deflater {
  public:
    explicit Deflater(DeflateForm form);
    ~Deflater() { deflateEnd(&stream_); }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    /// Appends what has become of `bytes` so far.
    void add(std::string& out, std::string_view bytes) { run(out, bytes, Z_NO_FLUSH); }
    /// Appends the rest of the stream. The next one begins with add().
    void finish(std::string& out);

  private:
    void run(std::string& out, std::string_view bytes, int flush);

    z_stream stream_{};
};

/// Decompresses a stream that is hostile: a step gives a bounded number of bytes.
class Inflater {
  public:
    enum class Found : std::uint8_t { bytes, end, refused };

    explicit Inflater(DeflateForm form);
    ~Inflater() { inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    /// Takes the front of `from`. Found::bytes without any: all was taken, and more is needed. At the end the
    /// checksum of gzip was checked, and `from` holds what stands behind the stream.
    Found next(std::string_view& from);
    /// The bytes that the last step gave, at the end too.
    std::string_view bytes() const noexcept { return bytes_; }
    /// Begins a new stream.
    void restart() { inflateReset(&stream_); }

  private:
    z_stream stream_{};
    std::unique_ptr<char[]> buffer_;
    std::string_view bytes_;
};

}  // namespace atl::guest
