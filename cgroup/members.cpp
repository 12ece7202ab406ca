#include "cgroup/members.hpp"

#include <signal.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "cgroup/files.hpp"
#include "core/base/pidfd.hpp"

namespace atl::cgroup {
namespace {

constexpr int k_max_kill_rounds = 64;

// A pid that was read may mean another process by now: it is signalled only if, once a pidfd is held, the
// group still lists it.
void signal_member(int folder, pid_t pid) {
    const auto pidfd = base::open_pidfd(pid);
    const std::string line = std::to_string(pid) + "\n";
    if (pidfd && ("\n" + read_at(folder, "cgroup.procs")).find("\n" + line) != std::string::npos)
        base::send_signal(*pidfd, SIGKILL);
}

/// False if no member is left.
bool signal_all(int folder) {
    const auto members = members_of(folder);
    for (const pid_t pid : members)
        signal_member(folder, pid);
    return !members.empty();
}

}  // namespace

std::vector<pid_t> members_of(int folder) {
    std::vector<pid_t> members;
    const std::string text = read_at(folder, "cgroup.procs");
    const char* at = text.data();
    const char* end = at + text.size();
    while (at < end) {
        pid_t pid = 0;
        const auto parsed = std::from_chars(at, end, pid);
        if (pid > 0)
            members.push_back(pid);
        at = parsed.ptr + 1;
    }
    return members;
}

void kill_members(int folder) {
    if (write_at(folder, "cgroup.kill", "1") == 0)
        return;
    // Frozen members cannot fork, so one round catches all. A frozen process of v1 dies when it is thawed.
    const bool froze = set_frozen(folder, true) == 0;
    for (int round = 0; round < k_max_kill_rounds && signal_all(folder); ++round) {
        if (froze)
            break;
    }
    if (froze)
        set_frozen(folder, false);
}

std::vector<std::uint32_t> uids_of_members(int folder) {
    std::vector<std::uint32_t> uids;
    for (const pid_t pid : members_of(folder)) {
        std::ifstream status("/proc/" + std::to_string(pid) + "/status");
        // Line by line: `Name:` comes first, and the process chooses its value (proc(5)).
        for (std::string line; std::getline(status, line);) {
            constexpr std::string_view k_label = "Uid:\t";
            std::uint32_t uid = 0;
            if (!line.starts_with(k_label))
                continue;
            if (std::from_chars(line.data() + k_label.size(), line.data() + line.size(), uid).ec ==
                std::errc())
                uids.push_back(uid);
            break;
        }
    }
    return uids;
}

bool has_members(int folder) {
    if (const auto populated = keyed_number_at(folder, "cgroup.events", "populated"))
        return *populated != 0;
    return !read_at(folder, "cgroup.procs").empty();
}

int set_frozen(int folder, bool frozen) {
    if (exists_at(folder, "freezer.state"))
        return write_at(folder, "freezer.state", frozen ? "FROZEN" : "THAWED");
    return write_at(folder, "cgroup.freeze", frozen ? "1" : "0");
}

}  // namespace atl::cgroup
