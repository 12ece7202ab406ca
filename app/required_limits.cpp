#include "app/required_limits.hpp"

#include <unistd.h>

#include <utility>

#include "core/base/fix.hpp"
#include "core/isolation/user_namespace.hpp"

namespace atl::app {
namespace {

/// Each limit and whether `enforcement` enforces it.
std::vector<std::pair<std::string, bool>> enforced(const sandbox::Enforcement& enforcement) {
    const auto is_set = [](const std::string& by) { return by != "none"; };
    return {{"memory", is_set(enforcement.memory)},         {"cpu", is_set(enforcement.cpu)},
            {"processes", is_set(enforcement.processes)},   {"disk", enforcement.disk == "quota"},
            {"filesystem", is_set(enforcement.filesystem)}, {"network", enforcement.network == "netns"},
            {"syscalls", is_set(enforcement.syscalls)},     {"uid", enforcement.uid == "private"},
            {"sockets", is_set(enforcement.sockets)}};
}

}  // namespace

const std::vector<std::string>& limit_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> found;
        for (const auto& [name, is_enforced] : enforced({}))
            found.push_back(name);
        return found;
    }();
    return names;
}

Gaps gaps_of(const sandbox::Enforcement& enforcement, const Gaps& known) {
    Gaps gaps;
    for (const auto& [name, is_enforced] : enforced(enforcement)) {
        const auto reason = known.find(name);
        if (!is_enforced)
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
