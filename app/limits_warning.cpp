#include "app/limits_warning.hpp"

#include <string_view>

namespace atl::app {
namespace {

constexpr std::string_view k_cure_of_user =
    "  Cure:   start it where systemd gives it a part of the cgroup hierarchy of its own, or as root, best\n"
    "          as the service in scripts/systemd.\n";
constexpr std::string_view k_cure_of_root =
    "  Cure:   give it a cgroup hierarchy that it may write to, with the controllers memory and cpu:\n"
    "          in a container mount /sys/fs/cgroup writable, on a host start the service in\n"
    "          scripts/systemd.\n";

}  // namespace

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
    text += starter == Starter::root ? k_cure_of_root : k_cure_of_user;
    return text +
           "          docs/operations/service.md tells more. With --require memory,cpu the server does not\n"
           "          start without them." +
           limits_fix(starter);
}

}  // namespace atl::app
