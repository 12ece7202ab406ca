#include "http/websocket/deflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace atl::http {
namespace {

// RFC 7692 section 7.2.1: an empty stored block ends the data of a message; its last four bytes are not sent.
constexpr std::string_view k_tail("\0\0\xff\xff", 4);
// zlib's own name for a stream without its header and checksum is a negative size of the window.
constexpr int k_largest_window_bits = 15;
constexpr int k_memory_level = 8;
constexpr std::size_t k_deflate_piece_bytes = 16UL * 1024;
// zlib.h, inflate(): data_type after a return.
constexpr int k_unused_bits = 7;
constexpr int k_after_block = 128;
// The header of a block costs far more time than its bytes. zlib's smallest blocks have 128 symbols, which is
// more than this in bytes; a sender that flushes often may make some smaller ones.
constexpr std::size_t k_free_blocks = 1024;
constexpr std::size_t k_bytes_a_block = 64;

// zlib only reads its input but takes a pointer to mutable bytes.
void give(z_stream& stream, std::string_view input) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
}

}  // namespace

Deflater::Deflater() : stream_(std::make_unique<z_stream>()) {
    if (::deflateInit2(stream_.get(), Z_BEST_SPEED, Z_DEFLATED, -static_cast<int>(k_deflate_window_bits),
                       k_memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc();
}

Deflater::~Deflater() {
    ::deflateEnd(stream_.get());
}

bool Deflater::deflate(std::string_view text, std::size_t limit_bytes, std::string& out) {
    ::deflateReset(stream_.get());
    give(*stream_, text);
    // A flush is over when it leaves room (zlib.h, deflate()).
    out.resize(limit_bytes + k_tail.size() + 1);
    stream_->next_out = reinterpret_cast<Bytef*>(out.data());
    stream_->avail_out = static_cast<uInt>(out.size());
    if (::deflate(stream_.get(), Z_SYNC_FLUSH) != Z_OK || stream_->avail_out == 0)
        return false;
    out.resize(out.size() - stream_->avail_out - k_tail.size());
    return true;
}

Inflater::Inflater() : stream_(std::make_unique<z_stream>()), piece_(k_deflate_piece_bytes, '\0') {
    if (::inflateInit2(stream_.get(), -k_largest_window_bits) != Z_OK)
        throw std::bad_alloc();
}

Inflater::~Inflater() {
    ::inflateEnd(stream_.get());
}

Inflater::Outcome Inflater::inflate(std::string_view payload, std::size_t limit_bytes, std::string& out) {
    out.clear();
    ::inflateReset(stream_.get());
    blocks_left_ = k_free_blocks + payload.size() / k_bytes_a_block;
    auto outcome = take(payload, limit_bytes, out);
    if (outcome != Outcome::done)
        return outcome;
    const std::size_t said_bytes = out.size();
    outcome = take(k_tail, limit_bytes, out);
    // Where a payload is cut short, the tail can pass for the missing codes; it must add nothing.
    return outcome == Outcome::done && is_whole_ && out.size() == said_bytes ? outcome : Outcome::invalid;
}

Inflater::Outcome Inflater::take(std::string_view input, std::size_t limit_bytes, std::string& out) {
    give(*stream_, input);
    for (;;) {
        // One byte beyond the limit tells a message that is too long.
        const std::size_t room = std::min(piece_.size(), limit_bytes - out.size() + 1);
        stream_->next_out = reinterpret_cast<Bytef*>(piece_.data());
        stream_->avail_out = static_cast<uInt>(room);
        // Returns at the end of each block.
        const int status = ::inflate(stream_.get(), Z_BLOCK);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            return Outcome::invalid;
        const std::size_t made = room - stream_->avail_out;
        if (made > limit_bytes - out.size())
            return Outcome::too_long;
        out.append(piece_, 0, made);
        const int state = stream_->data_type;
        is_whole_ = status == Z_STREAM_END || ((state & k_after_block) != 0 && (state & k_unused_bits) == 0);
        // Section 7.2.3.4: more blocks may follow a block that is marked as the last.
        if (status == Z_STREAM_END)
            ::inflateReset(stream_.get());
        if (stream_->avail_out == 0)
            continue;
        if (stream_->avail_in == 0)
            return Outcome::done;
        if (blocks_left_-- == 0)
            return Outcome::invalid;
    }
}

}  // namespace atl::http
