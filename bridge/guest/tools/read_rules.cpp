#include "bridge/guest/tools/read_rules.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace atl::guest {
namespace {

constexpr std::uint64_t k_reading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t k_running = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;

bool allow(int ruleset, int place, std::uint64_t access) {
    const landlock_path_beneath_attr rule{access, place};
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

}  // namespace

base::UniqueFd read_rules(int workspace) {
    const landlock_ruleset_attr handled{k_reading | k_running};
    base::UniqueFd ruleset(
        static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0)));
    if (!ruleset || !allow(ruleset.get(), workspace, k_reading))
        return {};
    // Where these are links into /usr, as mostly, they are the same once more.
    for (const char* const path : {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}) {
        const base::UniqueFd place(open(path, O_PATH | O_CLOEXEC));
        const bool is_file = place && faccessat(place.get(), ".", F_OK, 0) != 0;
        if (place && !allow(ruleset.get(), place.get(), is_file ? LANDLOCK_ACCESS_FS_READ_FILE : k_running))
            return {};
    }
    return ruleset;
}

}  // namespace atl::guest
