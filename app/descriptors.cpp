#include "app/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::app {

DescriptorShares share_descriptors(std::size_t limit, const DescriptorShares& asked) noexcept {
    DescriptorShares given;
    given.connections = std::min(asked.connections, limit / 8 * 5);
    const std::size_t taken = given.connections + base::k_own_descriptors;
    const std::size_t left = limit > taken ? limit - taken : 0;
    given.sandboxes = std::min(asked.sandboxes, left / base::k_descriptors_per_sandbox);
    const std::size_t spare = left - given.sandboxes * base::k_descriptors_per_sandbox;
    given.preview_doors =
        std::min(asked.preview_doors, given.sandboxes + spare / base::k_descriptors_per_preview_door);
    return given;
}

std::size_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t soft = std::exchange(limit.rlim_cur, limit.rlim_max);
    return soft < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &limit) != 0 ? soft : limit.rlim_max;
}

base::Result<DescriptorShares> bound_sandboxes(std::size_t limit, std::size_t max_sandboxes) {
    const auto shares = share_descriptors(limit, {base::k_max_connections, max_sandboxes});
    if (shares.sandboxes == 0)
        return base::Error(base::Errc::host_unsupported,
                           "the process may have " + std::to_string(limit) +
                               " descriptors, too few for one sandbox; raise the limit "
                               "(ulimit -n, LimitNOFILE= of systemd)");
    if (shares.sandboxes < max_sandboxes) {
        const bool is_asked_for = max_sandboxes != base::k_default_max_sandboxes;
        base::LogLine line(base::evt::sandboxes_bounded);
        if (is_asked_for)
            line.field("asked", static_cast<std::int64_t>(max_sandboxes));
        line.field("max", static_cast<std::int64_t>(shares.sandboxes))
            .field("descriptors", static_cast<std::int64_t>(limit));
        is_asked_for ? line.warn() : line.info();
    }
    return shares;
}

}  // namespace atl::app
