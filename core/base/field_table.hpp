// Tables of fields that clients set and that the server only keeps and shows. Forms, views, schemas, rows and
// changes loop over a table, so that a new field is a member of its record and of its changes, and a row.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>

namespace atl::base {

/// T: std::string, or std::uint32_t of seconds.
template <class T, class Record, class Changes>
struct FieldRow {
    using Value = T;

    std::string_view api;  // in requests, resources and rows
    T Record::*value;
    std::optional<T> Changes::*change;
    std::string_view means;     // its descriptions in the OpenAPI document: in an answer,
    std::string_view at_make;   // in a request that makes the resource,
    std::string_view at_patch;  // and in one that changes it
    std::size_t most;           // bytes of a text, or seconds
};

/// Calls `visit` with each row of a table, which is a tuple of rows.
void each_row(const auto& table, auto&& visit) {
    std::apply([&](const auto&... row) { (visit(row), ...); }, table);
}

/// A field that is not named in `changes` stays.
void change_fields(const auto& table, auto& record, const auto& changes) {
    each_row(table, [&](const auto& row) {
        if (const auto& change = changes.*row.change)
            record.*row.value = *change;
    });
}

}  // namespace atl::base
