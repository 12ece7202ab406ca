// Conditions on entity tags (RFC 9110 section 13.1): If-Match and If-None-Match, as the text of the field.
// Pure.
#pragma once

#include <string_view>

namespace atl::base {

/// strong: a tag marked `W/` matches nothing.
enum class TagComparison : bool { strong, weak };

/// True where `field`, a list of tags or `*`, names `tag`, which has its quotes and is strong. `*` names
/// every tag, but not an empty one: there is nothing then. Text that is no list of tags names none.
inline bool names_tag(std::string_view field, std::string_view tag, TagComparison comparison) noexcept {
    if (tag.empty())
        return false;
    while (!field.empty()) {
        const std::size_t begin = field.find_first_not_of(" \t,");
        if (begin == std::string_view::npos)
            return false;
        field.remove_prefix(begin);
        if (field.front() == '*')
            return true;
        const bool is_weak = field.starts_with("W/");
        field.remove_prefix(is_weak ? 2 : 0);
        const std::size_t end = field.starts_with('"') ? field.find('"', 1) : std::string_view::npos;
        if (end == std::string_view::npos)
            return false;
        if (field.substr(0, end + 1) == tag && (!is_weak || comparison == TagComparison::weak))
            return true;
        field.remove_prefix(end + 1);
    }
    return false;
}

}  // namespace atl::base
