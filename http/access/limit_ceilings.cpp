#include "http/access/limit_ceilings.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/limits.hpp"
#include "http/access/limit_ranges.hpp"

namespace atl::http {
namespace {

using sandbox::Limits;

constexpr std::array k_names{
    LimitName{"memoryMb", "memory-mb", k_memory_mb_range, &Limits::memory_mb, &LimitChanges::memory_mb,
              base::k_user_memory_mb},
    LimitName{"cpuPercent", "cpu-percent", k_cpu_percent_range, &Limits::cpu_percent,
              &LimitChanges::cpu_percent, base::k_user_cpu_percent},
    LimitName{"diskMb", "disk-mb", k_disk_mb_range, &Limits::disk_mb, &LimitChanges::disk_mb,
              base::k_user_disk_mb},
    LimitName{"tmpMb", "tmp-mb", k_tmp_mb_range, &Limits::tmp_mb, &LimitChanges::tmp_mb, base::k_user_tmp_mb},
    LimitName{"maxProcesses", "processes", k_max_processes_range, &Limits::max_processes,
              &LimitChanges::max_processes, base::k_user_max_processes},
    LimitName{"maxSockets", "sockets", k_max_sockets_range, &Limits::max_sockets, &LimitChanges::max_sockets,
              base::k_most_named_sockets},
    LimitName{"maxOpenFiles", "open-files", k_max_open_files_range, &Limits::max_open_files,
              &LimitChanges::max_open_files, base::k_most_named_open_files},
};

}  // namespace

std::span<const LimitName> limit_names() noexcept {
    return k_names;
}

LimitChanges ceilings_for(const Principal& principal, const LimitChanges& of_server) noexcept {
    LimitChanges ceilings;
    for (const LimitName& limit : k_names) {
        const auto server = of_server.*limit.change;
        auto& ceiling = ceilings.*limit.change;
        ceiling = principal.ceilings.*limit.change;
        if (server)
            ceiling = std::min(ceiling.value_or(*server), *server);
        else if (!ceiling && principal.user_id)
            ceiling = limit.user_ceiling;
    }
    return ceilings;
}

base::Result<void> check_ceilings(const LimitChanges& asked, const LimitChanges& ceilings,
                                  std::string_view member) {
    const std::string within(member);
    for (const LimitName& limit : k_names) {
        const auto value = asked.*limit.change;
        const auto ceiling = ceilings.*limit.change;
        if (value && ceiling && *value > *ceiling)
            return base::Error(base::Errc::limit_not_allowed,
                               '`' + (member.empty() ? "" : within + ".") + std::string(limit.api) + "` is " +
                                   std::to_string(*value) + "; the ceiling for this key is " +
                                   std::to_string(*ceiling) + ".")
                .at((member.empty() ? "" : "/" + within) + "/" + std::string(limit.api));
    }
    return {};
}

sandbox::Limits lowered_to(const LimitChanges& ceilings, sandbox::Limits limits) noexcept {
    for (const LimitName& limit : k_names)
        limits.*limit.value = std::min(limits.*limit.value, (ceilings.*limit.change).value_or(UINT32_MAX));
    return limits;
}

}  // namespace atl::http
