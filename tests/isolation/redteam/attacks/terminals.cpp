// Pseudo terminals: a table that all of a host's devpts mounts share (kernel.pty.max).
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

/// Opens terminals up to the process's bound of descriptors; true while there may be more.
bool open_terminals(const SharedCounter& opened, const Options& options) {
    while (!is_late()) {
        if (opened.add(1) >= options.max_count) {
            opened.add(~std::uint64_t{0});
            return false;
        }
        if (::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0) {
            opened.add(~std::uint64_t{0});
            if (errno == EMFILE)
                return true;
            refused("ptys");
            return false;
        }
    }
    return false;
}

void terminals(const Options& options) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const SharedCounter opened;
    const SharedCounter finished;
    bool more = true;
    for (std::uint64_t children = 1; more && !is_late(); ++children) {
        const int made = child([&] { finished.add(open_terminals(opened, options) ? 1 : 1'000'000); });
        if (made < 0) {
            refused("processes");
            break;
        }
        while (finished.value() < children && !is_late())
            ::sched_yield();
        more = finished.value() < 1'000'000;
    }
    taken("ptys", opened.value());
    hold();
}

const Registration k_terminals{
    {"ptys", "--max-count terminals, in as many processes as it takes", terminals}};

}  // namespace
}  // namespace atl::attack
