// atoll-guest: process 1 of every sandbox. Started by the launcher with the bridge's listening socket as
// fd 3.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "bridge/guest/guest.hpp"
#include "bridge/guest/spawn.hpp"
#include "core/plain/guest_limits.hpp"

namespace {

// Where the server has no group that counts processes. For all below: threads count, too, and so does the
// guest. Returns how many there may be; 0: not limited here.
rlim_t limit_processes() {
    const char* const text = getenv(atl::base::k_max_processes_variable);
    if (text == nullptr)
        return 0;
    rlimit limit{};
    const rlim_t most = strtoul(text, nullptr, 10) + 1;
    // A lower limit that is there already stays: it could not be raised.
    bool is_set = getrlimit(RLIMIT_NPROC, &limit) == 0;
    limit.rlim_cur = limit.rlim_max = std::min(most, limit.rlim_max);
    is_set = is_set && setrlimit(RLIMIT_NPROC, &limit) == 0;
    if (!is_set) {
        // Without it nothing would be limited that the server says is.
        perror("atoll-guest: RLIMIT_NPROC");
        _exit(1);
    }
    unsetenv(atl::base::k_max_processes_variable);
    return limit.rlim_cur;
}

}  // namespace

int main() {
    // First of all: from here on nobody inside may trace it, read its memory or open its descriptors.
    prctl(PR_SET_DUMPABLE, 0);
    // Small fixed bounds send memory back to the kernel when it is freed (mallopt(3)).
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    mallopt(M_TRIM_THRESHOLD, 32 * 1024);
    mallopt(M_TOP_PAD, 4 * 1024);
    atl::guest::GuestOptions options;
    options.max_processes = limit_processes();
    options.workspace = atl::guest::workspace_directory();
    atl::guest::Guest guest(std::move(options));
    _exit(guest.run());
}
