// The fields of a conversation that its clients set and the server only keeps and shows, and the tables of
// them. Forms, views, schemas, rows and changes loop over the tables. A new field is a member of ClientFields
// and of FieldChanges, and an entry of a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/limits.hpp"

namespace atl::conversation {

struct ClientFields {
    std::string title;               // empty: none
    std::uint32_t idle_seconds = 0;  // 0: none
};

/// The fields that a request names; one that is not named stays. An empty text removes it.
struct FieldChanges {
    std::optional<std::string> title;
    std::optional<std::uint32_t> idle_seconds;

    void apply_to(ClientFields& fields) const;
};

/// A row of a table of fields. T: std::string, or std::uint32_t of seconds.
template <class T>
struct FieldEntry {
    std::string_view api;  // in requests, resources and rows
    T ClientFields::*value;
    std::optional<T> FieldChanges::*change;
    std::size_t most;           // bytes of a text
    std::string_view means;     // its descriptions in the OpenAPI document: in an answer,
    std::string_view at_make;   // in a request that makes a conversation,
    std::string_view at_patch;  // and in one that changes it
};

inline constexpr std::array k_text_fields{
    FieldEntry<std::string>{"title", &ClientFields::title, &FieldChanges::title, base::k_max_title_bytes,
                            "Its title; null: it has none.", "A title for lists, at most 512 bytes.",
                            "A new title, at most 512 bytes; null removes it."},
};
inline constexpr std::string_view k_idle_seconds_means =
    "Seconds without a turn after which it is paused; 0: never.";
inline constexpr std::array k_seconds_fields{
    FieldEntry<std::uint32_t>{"idleSeconds", &ClientFields::idle_seconds, &FieldChanges::idle_seconds, 0,
                              k_idle_seconds_means, k_idle_seconds_means, k_idle_seconds_means},
};

/// Calls `visit` with each row of both tables.
void each_client_field(auto&& visit) {
    for (const auto& field : k_text_fields)
        visit(field);
    for (const auto& field : k_seconds_fields)
        visit(field);
}

inline void FieldChanges::apply_to(ClientFields& fields) const {
    each_client_field([&](const auto& field) {
        if (const auto& change = this->*field.change)
            fields.*field.value = *change;
    });
}

}  // namespace atl::conversation
