// The fields of a conversation that its clients set and the server only keeps and shows, and the table of
// them (core/base/field_table.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "core/base/field_table.hpp"
#include "core/base/limits.hpp"

namespace atl::conversation {

struct ClientFields {
    std::string title;               // empty: none
    std::uint32_t idle_seconds = 0;  // 0: none
};

/// The fields that a request names. An empty text removes it.
struct FieldChanges {
    std::optional<std::string> title;
    std::optional<std::uint32_t> idle_seconds;
};

template <class T>
using Row = base::FieldRow<T, ClientFields, FieldChanges>;
inline constexpr std::string_view k_idle_seconds_means =
    "Seconds without a turn after which it is paused; 0: never.";
inline constexpr std::tuple k_client_fields{
    Row<std::string>{"title", &ClientFields::title, &FieldChanges::title, "Its title; null: it has none.",
                     "A title for lists, at most 512 bytes.",
                     "A new title, at most 512 bytes; null removes it.", base::k_max_title_bytes},
    Row<std::uint32_t>{"idleSeconds", &ClientFields::idle_seconds, &FieldChanges::idle_seconds,
                       k_idle_seconds_means, k_idle_seconds_means, k_idle_seconds_means,
                       base::k_max_named_time.count()},
};

}  // namespace atl::conversation
