// Messages between the server and its checker: a little-endian u32, which is the length of the rest; then the
// fields, each a u32 length and so many bytes. Pure, header-only: both ends include it. The meaning of the
// fields is in worker.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::bridge::checker {

inline constexpr std::size_t k_length_bytes = 4;
// The text of a request of the API or a frame of a runner (4 MiB), with the names of their parts.
inline constexpr std::size_t k_message_bytes = 6UL * 1024 * 1024;

inline void append_length(std::string& out, std::size_t length) {
    for (const unsigned shift : {0U, 8U, 16U, 24U})
        out.push_back(static_cast<char>(length >> shift & 0xFF));
}

/// Precondition: k_length_bytes are there.
inline std::size_t length_at(std::string_view bytes) noexcept {
    std::size_t length = 0;
    for (std::size_t at = 0; at < k_length_bytes; ++at)
        length |= std::size_t{static_cast<unsigned char>(bytes[at])} << (8 * at);
    return length;
}

inline void append_field(std::string& out, std::string_view field) {
    append_length(out, field.size());
    out.append(field);
}

/// The fields of a message, without its length; they point into it. Nothing: it is not made of fields.
inline std::optional<std::vector<std::string_view>> split_fields(std::string_view message) {
    std::vector<std::string_view> fields;
    while (!message.empty()) {
        if (message.size() < k_length_bytes)
            return std::nullopt;
        const std::size_t length = length_at(message);
        message.remove_prefix(k_length_bytes);
        if (length > message.size())
            return std::nullopt;
        fields.push_back(message.substr(0, length));
        message.remove_prefix(length);
    }
    return fields;
}

}  // namespace atl::bridge::checker
