#include "app/limits_warning.hpp"

#include <unistd.h>

#include <string_view>

#include "core/base/fix.hpp"
#include "core/isolation/user_namespace.hpp"

namespace atl::app {
namespace {

struct Cure {
    std::string_view how;
    const char* command;
};

constexpr Cure k_cure_of_user{
    "  Cure:   start it where systemd gives it a part of the cgroup hierarchy of its own, or as root, best\n"
    "          as the service in scripts/systemd.\n",
    "systemd-run --user --scope -p Delegate=yes atolld ..."};
constexpr Cure k_cure_of_root{
    "  Cure:   give it a cgroup hierarchy that it may write to, with the controllers memory and cpu:\n"
    "          in a container mount /sys/fs/cgroup writable, on a host start the service in\n"
    "          scripts/systemd.\n",
    "docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw ..."};

const Cure& cure_of(Starter starter) {
    return starter == Starter::root ? k_cure_of_root : k_cure_of_user;
}

}  // namespace

Starter this_starter() {
    return ::geteuid() == 0 && !isolation::is_in_user_namespace() ? Starter::root : Starter::user;
}

std::string limits_fix(Starter starter) {
    return base::fix_line(cure_of(starter).command);
}

std::string limits_warning(const Gaps& gaps, Starter starter) {
    const auto memory = gaps.find("memory");
    const auto cpu = gaps.find("cpu");
    const bool no_memory = memory != gaps.end();
    const bool no_cpu = cpu != gaps.end();
    if (!no_memory && !no_cpu)
        return {};
    const std::string what = no_memory && no_cpu ? "neither memory nor processor time"
                             : no_memory         ? "no memory"
                                                 : "no processor time";
    std::string text = "\nWARNING: this server limits " + what +
                       " of its sandboxes:\n         one of them can take all that the host has.\n";
    if (no_memory && no_cpu && memory->second == cpu->second) {
        text += "  Cause:  " + memory->second + "\n";
    } else {
        if (no_memory)
            text += "  Cause:  memory: " + memory->second + "\n";
        if (no_cpu)
            text += "  Cause:  cpu: " + cpu->second + "\n";
    }
    text.append(cure_of(starter).how);
    return text +
           "          docs/operations/service.md tells more. With --require memory,cpu the server does not\n"
           "          start without them." +
           limits_fix(starter);
}

}  // namespace atl::app
