// The difference of two texts as a unified diff: shortest where that is cheap to find, else one block of all
// that lies between the equal beginning and the equal end. Bounded in time, memory and size. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::guest {

struct TextDiff {
    std::string text;  // empty: no difference
    bool is_cut = false;
};

/// `name` is that of the file; `from` is "/dev/null" for one that is new, else the same.
TextDiff unified_diff(std::string_view from, std::string_view name, std::string_view before,
                      std::string_view after, std::size_t limit_bytes);

}  // namespace atl::guest
