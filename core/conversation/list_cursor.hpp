// A place in a list of conversations as the text that a client pages with.
#pragma once

#include <charconv>
#include <optional>
#include <string>

#include "core/conversation/store.hpp"

namespace atl::conversation {

inline std::string list_cursor_text(const ListPlace& place) {
    return std::to_string(place.created_at.time_since_epoch().count()) + '-' + std::to_string(place.key);
}

/// The place; none for a text that no list has given.
inline std::optional<ListPlace> parse_list_cursor(const std::string& cursor) {
    const char* const end = cursor.data() + cursor.size();
    std::int64_t created_at = 0;
    ListPlace place;
    const auto time = std::from_chars(cursor.data(), end, created_at);
    if (time.ec != std::errc() || time.ptr == end || *time.ptr != '-')
        return std::nullopt;
    const auto key = std::from_chars(time.ptr + 1, end, place.key);
    if (key.ec != std::errc() || key.ptr != end || place.key <= 0)
        return std::nullopt;
    place.created_at = base::WallTime{base::Millis{created_at}};
    return place;
}

}  // namespace atl::conversation
