// How JSON text is nested, told without a parser. Header only. Not a check that it is JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/plain/json_text.hpp"

namespace atl::execution {

/// Calls `visit` with the place of each bracket of arrays and objects, until it returns false. Linear,
/// without recursion.
template <class Visit>
void each_bracket(std::string_view text, Visit visit) {
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (in_string)
            i += base::plain_run(text.substr(i));
        if (i >= text.size())
            return;
        const char byte = text[i];
        if (in_string && byte == '\\')
            ++i;
        else if (byte == '"')
            in_string = !in_string;
        else if (!in_string && (byte == '[' || byte == '{' || byte == ']' || byte == '}') && !visit(i))
            return;
    }
}

/// The greatest number of arrays and objects open at once in `text`.
inline std::size_t json_depth(std::string_view text) {
    std::size_t open = 0;
    std::size_t deepest = 0;
    each_bracket(text, [&](std::size_t at) {
        if (text[at] == '[' || text[at] == '{')
            deepest = std::max(deepest, ++open);
        else if (open > 0)
            --open;
        return true;
    });
    return deepest;
}

/// True if the object that `text` begins with ends where `text` does, provided that it is JSON at all: as a
/// member of other text it then adds no members to that. Takes up to 2 ms a MiB.
inline bool is_one_object(std::string_view text) {
    if (!text.starts_with('{'))
        return false;
    std::size_t open = 0;
    bool is_whole = false;
    each_bracket(text, [&](std::size_t at) {
        if (text[at] == '[' || text[at] == '{')
            ++open;
        else if (--open == 0)
            is_whole = at + 1 == text.size();
        return open > 0;
    });
    return is_whole;
}

}  // namespace atl::execution
