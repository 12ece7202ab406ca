#include "app/required_limits.hpp"

#include <unistd.h>

#include "core/base/fix.hpp"
#include "core/isolation/user_namespace.hpp"
#include "core/sandbox/limit_table.hpp"

namespace atl::app {
namespace {

bool is_enforced(const sandbox::EnforcementEntry& limit, const sandbox::Enforcement& enforcement) {
    const std::string& by = enforcement.*limit.by;
    return limit.limits.empty() ? by != "none" : by == limit.limits;
}

}  // namespace

const std::vector<std::string>& limit_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> found;
        for (const sandbox::EnforcementEntry& limit : sandbox::k_enforcement_table)
            found.emplace_back(limit.api);
        return found;
    }();
    return names;
}

Gaps gaps_of(const sandbox::Enforcement& enforcement, const Gaps& known) {
    Gaps gaps;
    for (const sandbox::EnforcementEntry& limit : sandbox::k_enforcement_table) {
        const std::string name(limit.api);
        const auto reason = known.find(name);
        if (!is_enforced(limit, enforcement))
            gaps[name] = reason == known.end() ? "not on this host" : reason->second;
    }
    return gaps;
}

base::Result<void> check_required(const std::vector<std::string>& required, const Gaps& gaps) {
    std::string missing;
    std::string fix;
    std::string disk_fix;  // of ext4; docs/operations/limits-and-capacity.md has all of it
    for (const auto& name : required) {
        const auto gap = gaps.find(name);
        if (gap == gaps.end())
            continue;
        missing += (missing.empty() ? "" : "; ") + name + " (" + gap->second + ")";
        if (name == "memory" || name == "cpu")
            fix = limits_fix(this_starter());
        if (name == "disk")
            disk_fix = isolation::root_fix_line("tune2fs -O project,quota -Q prjquota DEVICE") +
                       isolation::root_fix_line("mount -o prjquota DEVICE DATA-DIRECTORY");
    }
    if (missing.empty())
        return {};
    return base::Error(base::Errc::host_unsupported,
                       "this host does not enforce what --require asks for: " + missing + fix + disk_fix);
}

Starter this_starter() {
    return ::geteuid() == 0 && !isolation::is_in_user_namespace() ? Starter::root : Starter::user;
}

std::string limits_fix(Starter starter) {
    return base::fix_line(starter == Starter::root
                              ? "docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw ..."
                              : "systemd-run --user --scope -p Delegate=yes atolld ...");
}

}  // namespace atl::app
