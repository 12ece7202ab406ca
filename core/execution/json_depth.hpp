// How JSON text is nested, told without a parser. Header only. Not a check that it is JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/base/json_text.hpp"

namespace atl::execution {

/// The greatest number of arrays and objects open at once in `text`. Linear, without recursion.
inline std::size_t json_depth(std::string_view text) noexcept {
    std::size_t open = 0;
    std::size_t deepest = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char byte = text[i];
        if (in_string) {
            if (byte == '\\')
                ++i;
            else if (byte == '"')
                in_string = false;
        } else if (byte == '"') {
            in_string = true;
        } else if (byte == '[' || byte == '{') {
            deepest = std::max(deepest, ++open);
        } else if ((byte == ']' || byte == '}') && open > 0) {
            --open;
        }
    }
    return deepest;
}

/// Whether the object that `text` begins with ends where `text` does, if it is JSON at all: as a member of
/// other text it then adds no members to that. Up to 2 ms a MiB.
inline bool is_one_object(std::string_view text) noexcept {
    std::size_t open = 0;
    bool in_string = false;
    if (!text.starts_with('{'))
        return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (in_string)
            i += base::plain_run(text.substr(i));
        if (i >= text.size())
            return false;
        const char byte = text[i];
        if (in_string) {
            if (byte == '\\')
                ++i;
            else if (byte == '"')
                in_string = false;
        } else if (byte == '"') {
            in_string = true;
        } else if (byte == '[' || byte == '{') {
            ++open;
        } else if ((byte == ']' || byte == '}') && --open == 0) {
            return i + 1 == text.size();
        }
    }
    return false;
}

}  // namespace atl::execution
