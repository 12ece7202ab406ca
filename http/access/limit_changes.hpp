// Limits of a sandbox by name, each of which may be absent: the limits in a request, or their ceilings.
#pragma once

#include <cstdint>
#include <optional>

#include "core/sandbox/types.hpp"

namespace atl::http {

struct LimitChanges {
    std::optional<std::uint32_t> memory_mb;
    std::optional<std::uint32_t> cpu_percent;
    std::optional<std::uint32_t> disk_mb;
    std::optional<std::uint32_t> tmp_mb;
    std::optional<std::uint32_t> max_processes;
    std::optional<std::uint32_t> max_sockets;
    std::optional<std::uint32_t> max_open_files;

    sandbox::Limits applied_to(sandbox::Limits limits) const noexcept;
    bool operator==(const LimitChanges&) const = default;
};

}  // namespace atl::http
