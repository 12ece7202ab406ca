#include "bridge/guest/files/deflate.hpp"

#include <new>

namespace atl::guest {
namespace {

constexpr std::size_t k_deflate_piece_bytes = 64UL * 1024;
// zlib.h: 16 more is gzip, less than 0 no form at all.
constexpr int k_window_bits = 15;
constexpr int k_gzip_bits = 16;
constexpr int k_deflate_memory_level = 8;

int bits_of(DeflateForm form) {
    return form == DeflateForm::gzip ? k_window_bits + k_gzip_bits : -k_window_bits;
}

void give_input(z_stream& stream, std::string_view bytes) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
}

}  // namespace

std::uint32_t crc_of(std::uint32_t crc, std::string_view bytes) {
    // For a null pointer zlib gives the CRC of nothing.
    return bytes.empty() ? crc
                         : static_cast<std::uint32_t>(crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()),
                                                            static_cast<uInt>(bytes.size())));
}

Deflater::Deflater(DeflateForm form) {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits_of(form), k_deflate_memory_level,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc();
}

void Deflater::run(std::string& out, std::string_view bytes, int flush) {
    char buffer[16UL * 1024];
    give_input(stream_, bytes);
    // It has given all that it can where it leaves room.
    do {
        stream_.next_out = reinterpret_cast<Bytef*>(buffer);
        stream_.avail_out = sizeof buffer;
        deflate(&stream_, flush);
        out.append(buffer, sizeof buffer - stream_.avail_out);
    } while (stream_.avail_out == 0);
}

void Deflater::finish(std::string& out) {
    run(out, {}, Z_FINISH);
    deflateReset(&stream_);
}

Inflater::Inflater(DeflateForm form)
    : buffer_(std::make_unique_for_overwrite<char[]>(k_deflate_piece_bytes)) {
    if (inflateInit2(&stream_, bits_of(form)) != Z_OK)
        throw std::bad_alloc();
}

Inflater::Found Inflater::next(std::string_view& from) {
    give_input(stream_, from);
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.get());
    stream_.avail_out = k_deflate_piece_bytes;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    from.remove_prefix(from.size() - stream_.avail_in);
    bytes_ = {buffer_.get(), k_deflate_piece_bytes - stream_.avail_out};
    if (result == Z_MEM_ERROR)
        throw std::bad_alloc();
    if (result == Z_STREAM_END)
        return Found::end;
    // Z_BUF_ERROR: there was nothing to take, or no more to give.
    return result == Z_OK || result == Z_BUF_ERROR ? Found::bytes : Found::refused;
}

}  // namespace atl::guest
