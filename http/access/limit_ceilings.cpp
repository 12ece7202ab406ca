#include "http/access/limit_ceilings.hpp"

#include <algorithm>
#include <string>

namespace atl::http {

sandbox::LimitChanges read_limit_changes(ObjectReader& reader) {
    sandbox::LimitChanges limits;
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        if (const auto value = reader.integer(limit.api, {limit.least, limit.most}))
            limits.*limit.change = static_cast<std::uint32_t>(*value);
    return limits;
}

sandbox::LimitChanges ceilings_for(const Principal& principal,
                                   const sandbox::LimitChanges& of_server) noexcept {
    sandbox::LimitChanges ceilings;
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        const auto server = of_server.*limit.change;
        auto& ceiling = ceilings.*limit.change;
        ceiling = principal.ceilings.*limit.change;
        if (server)
            ceiling = std::min(ceiling.value_or(*server), *server);
        else if (!ceiling && principal.user_id)
            ceiling = limit.ceiling;
    }
    return ceilings;
}

base::Result<void> check_ceilings(const sandbox::LimitChanges& asked, const sandbox::LimitChanges& ceilings,
                                  std::string_view member) {
    const std::string within(member);
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
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

sandbox::Limits lowered_to(const sandbox::LimitChanges& ceilings, sandbox::Limits limits) noexcept {
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        limits.*limit.value = std::min(limits.*limit.value, (ceilings.*limit.change).value_or(UINT32_MAX));
    return limits;
}

}  // namespace atl::http
