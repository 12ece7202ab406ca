// atoll-guest: process 1 of every sandbox. Started by the launcher with the bridge's listening socket as
// fd 3.
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bridge/guest/guest.hpp"
#include "bridge/guest/spawn.hpp"
#include "core/base/own_priority.hpp"

int main() {
    // First of all: from here on nobody inside may trace it, read its memory or open its descriptors.
    prctl(PR_SET_DUMPABLE, 0);
    // Small fixed bounds send memory back to the kernel when it is freed (mallopt(3)).
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    mallopt(M_TRIM_THRESHOLD, 32 * 1024);
    mallopt(M_TOP_PAD, 4 * 1024);
    // Its messages do not wait for what the agent, or another sandbox, computes.
    atl::base::set_own_priority(atl::base::own_nice());
    atl::guest::GuestOptions options;
    options.workspace = atl::guest::workspace_directory();
    atl::guest::Guest guest(std::move(options));
    _exit(guest.run());
}
