// The fields of a sandbox without a conversation that its clients set and the server only keeps and shows,
// and the table of them (core/base/field_table.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/base/field_table.hpp"
#include "core/base/limits.hpp"

namespace atl::sandbox {

struct ClientFields {
    std::uint32_t ttl_seconds = 0;  // from its creation; 0: none
};

/// The fields that a request names.
struct FieldChanges {
    std::optional<std::uint32_t> ttl_seconds;
};

template <class T>
using Row = base::FieldRow<T, ClientFields, FieldChanges>;
inline constexpr std::string_view k_ttl_seconds_asked =
    "Seconds after which it is ended and its workspace removed; 0: never.";
inline constexpr std::tuple k_client_fields{
    Row<std::uint32_t>{"ttlSeconds", &ClientFields::ttl_seconds, &FieldChanges::ttl_seconds,
                       "Seconds from its creation after which it is removed; 0: never.", k_ttl_seconds_asked,
                       k_ttl_seconds_asked, base::k_max_named_time.count()},
};

}  // namespace atl::sandbox
