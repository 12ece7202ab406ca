// Base64 with padding (RFC 4648 section 4), for bytes that JSON cannot carry as text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::base {

inline constexpr std::string_view k_base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` to `out`. Pieces of one text may be appended one by one where all but the last are
/// multiples of three bytes long.
inline void append_base64(std::string& out, std::string_view bytes) {
    const auto byte = [bytes](std::size_t i) {
        return i < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[i])} : 0U;
    };
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::uint32_t group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
        const std::array<char, 4> digits = {k_base64_digits[group >> 18U],
                                            k_base64_digits[group >> 12U & 63U],
                                            i + 1 < bytes.size() ? k_base64_digits[group >> 6U & 63U] : '=',
                                            i + 2 < bytes.size() ? k_base64_digits[group & 63U] : '='};
        out.append(digits.data(), digits.size());
    }
}

/// The bytes that `text` stands for; nothing for any text that append_base64() does not make.
inline std::optional<std::string> decode_base64(std::string_view text) {
    static constexpr auto k_values = [] {
        std::array<std::int8_t, 256> values{};
        values.fill(-1);
        for (std::size_t i = 0; i < k_base64_digits.size(); ++i)
            values[static_cast<unsigned char>(k_base64_digits[i])] = static_cast<std::int8_t>(i);
        return values;
    }();
    if (text.size() % 4 != 0)
        return std::nullopt;
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
        ++padding;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool is_padding = i >= text.size() - padding;
        const int value = is_padding ? 0 : k_values[static_cast<unsigned char>(text[i])];
        if (value < 0)
            return std::nullopt;
        group = group << 6U | static_cast<std::uint32_t>(value);
        if (i % 4 != 3)
            continue;
        for (const unsigned shift : {16U, 8U, 0U})
            out.push_back(static_cast<char>(group >> shift & 255U));
        group = 0;
    }
    // Bits behind the last byte are zero: one text for the same bytes.
    const std::string_view cut(out.data() + out.size() - padding, padding);
    if (cut.find_first_not_of('\0') != std::string_view::npos)
        return std::nullopt;
    out.resize(out.size() - padding);
    return out;
}

}  // namespace atl::base
