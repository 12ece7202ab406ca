// How deep JSON text is nested, told before a parser reads it. Header only. Not a check that it is JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

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

}  // namespace atl::execution
