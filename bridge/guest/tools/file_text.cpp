#include "bridge/guest/tools/file_text.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_judged_bytes = 8192;

struct Signature {
    std::string_view begin;
    std::string_view mime_type;
    std::string_view inner{};  // at `at`, besides
    std::size_t at = 0;
};

using namespace std::string_view_literals;

constexpr Signature k_signatures[] = {
    {"\x89PNG\r\n\x1a\n"sv, "image/png"},
    {"\xFF\xD8\xFF"sv, "image/jpeg"},
    {"GIF87a"sv, "image/gif"},
    {"GIF89a"sv, "image/gif"},
    {"RIFF"sv, "image/webp", "WEBP"sv, 8},
    {"RIFF"sv, "audio/wav", "WAVE"sv, 8},
    {"%PDF-"sv, "application/pdf"},
    {"PK\x03\x04"sv, "application/zip"},
    {"\x1F\x8B"sv, "application/gzip"},
    {"\x7F"
     "ELF"sv,
     "application/x-executable"},
    {"\0asm"sv, "application/wasm"},
    {"\0\0\x01\0"sv, "image/x-icon"},
    {"II*\0"sv, "image/tiff"},
    {"MM\0*"sv, "image/tiff"},
    {"OggS"sv, "audio/ogg"},
    {"fLaC"sv, "audio/flac"},
    {"ID3"sv, "audio/mpeg"},
    {"wOFF"sv, "font/woff"},
    {"wOF2"sv, "font/woff2"},
    {"SQLite format 3\0"sv, "application/vnd.sqlite3"},
    {""sv, "video/mp4", "ftyp"sv, 4},
};

std::string_view known_type(std::string_view bytes) {
    for (const Signature& known : k_signatures)
        if (bytes.starts_with(known.begin) &&
            (known.inner.empty() || bytes.substr(std::min(known.at, bytes.size())).starts_with(known.inner)))
            return known.mime_type;
    return {};
}

/// How many bytes at the start are ASCII without controls, as far as whole words tell, at least.
std::size_t printable_run(std::string_view bytes) {
    constexpr std::uint64_t k_each = 0x0101010101010101U;
    std::size_t run = 0;
    for (std::uint64_t word = 0; bytes.size() - run >= sizeof word; run += sizeof word) {
        std::memcpy(&word, bytes.data() + run, sizeof word);
        // A byte below 0x20 borrows its high bit.
        if (((word | (word - 0x20 * k_each)) & (0x80 * k_each)) != 0)
            break;
    }
    return run;
}

/// Bytes that no text has: controls, and what is not UTF-8.
std::size_t odd_bytes(std::string_view bytes) {
    std::size_t odd = 0;
    base::Utf8State state;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        // Most of a text.
        if (state.is_between_characters())
            i += printable_run(bytes.substr(i));
        if (i == bytes.size())
            break;
        const auto byte = static_cast<unsigned char>(bytes[i]);
        const bool is_control = byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t' && byte != '\f' &&
                                byte != '\b' && byte != 0x1B;
        const bool fits = state.feed(byte);
        if (!fits)
            state.reset();
        odd += is_control || !fits ? 1 : 0;
    }
    return odd;
}

}  // namespace

Task<FileBytes> async_read_all(Call& call, Found& found, std::size_t limit_bytes) {
    FileBytes result;
    // `found` is a regular file, and it is this very file that is opened. EAGAIN instead of a wait where a
    // program holds a lease on it (fcntl(2), F_SETLEASE).
    const base::UniqueFd file = base::Beneath::reopen(found.fd.get(), O_RDONLY | O_NOCTTY | O_NONBLOCK);
    if (!file || fstat(file.get(), &found.state) != 0) {
        result.error = errno;
        co_return result;
    }
    const auto told_bytes = static_cast<std::size_t>(found.state.st_size);
    if (told_bytes > limit_bytes) {
        result.error = EFBIG;
        co_return result;
    }
    result.bytes.reserve(told_bytes);
    for (std::size_t size = 0; size < told_bytes;) {
        result.bytes.resize(size + std::min(told_bytes - size, k_file_piece_bytes));
        const ssize_t count = read(file.get(), result.bytes.data() + size, result.bytes.size() - size);
        result.bytes.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            result.error = count < 0 ? errno : 0;
            co_return result;
        }
        size = result.bytes.size();
        if (size >= k_file_piece_bytes)
            co_await call.turn();
    }
    co_return result;
}

bool is_binary(std::string_view bytes) {
    const std::string_view judged = bytes.substr(0, k_judged_bytes);
    if (judged.find('\0') != std::string_view::npos)
        return true;
    const std::size_t odd = odd_bytes(judged);
    return 10 * odd > 3 * judged.size() || (odd > 0 && !known_type(bytes).empty());
}

std::string_view mime_type(std::string_view bytes) {
    if (!is_binary(bytes))
        return "text/plain";
    const std::string_view known = known_type(bytes);
    return known.empty() ? "application/octet-stream" : known;
}

std::string base64(std::string_view bytes) {
    static constexpr char k_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            out.push_back(i + k <= bytes.size() ? k_digits[group >> (18 - 6 * k) & 63] : '=');
    }
    return out;
}

std::size_t line_count(std::string_view text) {
    const auto ends = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    return ends + (text.empty() || text.back() == '\n' ? 0 : 1);
}

}  // namespace atl::guest
