#include "app/memory_privacy.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/user_namespace.hpp"
#include "core/secrets/secure_text.hpp"

namespace atl::app {
namespace {

void tell_exposed(const char* why) {
    base::LogLine(base::evt::memory_exposed).quoted("err", why).warn();
}

}  // namespace

void keep_memory_private() {
    rlimit limit{};
    // Sandboxes get the limit 1 themselves, for which the hard limit has to stay.
    const bool is_known = ::getrlimit(RLIMIT_CORE, &limit) == 0;
    limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
    if (!is_known || ::setrlimit(RLIMIT_CORE, &limit) != 0)
        tell_exposed("the limit of core dumps (RLIMIT_CORE) cannot be set: a crash may leave one");
    if (::geteuid() == 0 && !isolation::is_in_user_namespace() && ::prctl(PR_SET_DUMPABLE, 0) != 0)
        tell_exposed("the process stays dumpable (PR_SET_DUMPABLE)");
    // No warning: many hosts lock little memory, and few swap.
    if (!secrets::prepare_secure_heap())
        base::LogLine(base::evt::memory_exposed)
            .field("err", "memory for secrets may be swapped out: RLIMIT_MEMLOCK is below 4 MiB")
            .info();
}

}  // namespace atl::app
