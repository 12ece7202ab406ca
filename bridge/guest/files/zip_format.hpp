// The numbers of the zip format that its writer and its reader share (PKWARE's APPNOTE.TXT; sections are its
// own).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::guest::zip {

// Signatures: 4.3.7, 4.3.9, 4.3.12, 4.3.14 to 4.3.16.
inline constexpr std::uint32_t k_local = 0x04034b50;
inline constexpr std::uint32_t k_descriptor = 0x08074b50;
inline constexpr std::uint32_t k_central = 0x02014b50;
inline constexpr std::uint32_t k_end64 = 0x06064b50;
inline constexpr std::uint32_t k_locator64 = 0x07064b50;
inline constexpr std::uint32_t k_end = 0x06054b50;
// Sizes of the records without what is of any length.
inline constexpr std::size_t k_local_bytes = 30;
inline constexpr std::size_t k_central_bytes = 46;
inline constexpr std::size_t k_end64_bytes = 56;
inline constexpr std::size_t k_locator64_bytes = 20;
inline constexpr std::size_t k_end_bytes = 22;
// A field that has this value, of 16 or 32 bits, has its number in a record of zip64.
inline constexpr std::uint64_t k_elsewhere16 = 0xffff;
inline constexpr std::uint64_t k_elsewhere32 = 0xffffffff;
// Methods, 4.4.5.
inline constexpr std::uint16_t k_stored = 0;
inline constexpr std::uint16_t k_deflated = 8;
// Flags, 4.4.4.
inline constexpr std::uint16_t k_encrypted_flags = 1 | 1 << 6 | 1 << 13;
inline constexpr std::uint16_t k_descriptor_flag = 1 << 3;
inline constexpr std::uint16_t k_utf8_flag = 1 << 11;
// Extra fields: 4.5.3, and Info-ZIP's "extended timestamp", whose flags say that it has the time of the
// content.
inline constexpr std::uint16_t k_extra64 = 0x0001;
inline constexpr std::uint16_t k_extra_time = 0x5455;
inline constexpr std::uint8_t k_has_mtime = 1;
// Systems that an entry was made by, 4.4.2.
inline constexpr std::uint8_t k_fat = 0;
inline constexpr std::uint8_t k_unix = 3;
inline constexpr std::uint8_t k_macos = 19;
inline constexpr std::uint32_t k_dos_directory = 0x10;

/// Appends a number as all of the format is: the low byte first.
inline void put(std::string& out, std::uint64_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8)
        out.push_back(static_cast<char>(value & 0xff));
}

/// The number at `at`, which `from` holds.
inline std::uint64_t number(std::string_view from, std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | static_cast<unsigned char>(from[at + bytes]);
    return value;
}

}  // namespace atl::guest::zip
