// The status of the probe itself: ids, capabilities, filters, descriptors. And a configured agent that
// reports the same.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr int k_capabilities = 64;  // numbers that a set can hold

/// The lines of /proc/self/status about privileges.
void status(const Arguments&) {
    constexpr std::array<std::string_view, 11> k_wanted = {
        "Uid:",    "Gid:",    "Groups:",     "CapInh:",  "CapPrm:",         "CapEff:",
        "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"};
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(':') + 1;
        if (std::find(k_wanted.begin(), k_wanted.end(), line.substr(0, colon)) == k_wanted.end())
            continue;
        std::string value = line.substr(std::min(line.find_first_not_of(" \t", colon), line.size()));
        std::replace(value.begin(), value.end(), '\t', ',');
        value.erase(std::find(value.begin(), value.end(), ' '), value.end());
        say(line.substr(0, colon - 1), value.empty() ? "none" : value);
    }
    long bounding = 0;
    for (int capability = 0; capability < k_capabilities; ++capability)
        bounding += ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 ? 1 : 0;
    say("bounding-count", std::to_string(bounding));
}

long raise_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    data[0].permitted = data[0].effective = 1U << CAP_SYS_CHROOT | 1U << CAP_NET_RAW;
    return ::syscall(SYS_capset, &header, data);
}

/// Each way to more privilege that a process has of its own.
void gain(const Arguments&) {
    tell_in_child("setuid", [] { return ::syscall(SYS_setuid, 0); });
    tell_in_child("setresuid", [] { return ::syscall(SYS_setresuid, 0, 0, 0); });
    tell_in_child("setgid", [] { return ::syscall(SYS_setgid, 0); });
    tell_in_child("capset", raise_capabilities);
    tell_in_child("chown-root", [] {
        const int fd = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
        return fd < 0 ? -1L : ::fchown(fd, 0, 0);
    });
}

void identity(const Arguments&) {
    say("euid", std::to_string(::geteuid()));
    say("egid", std::to_string(::getegid()));
}

/// Each open descriptor and its target. Queried one by one: listing /proc/self/fd would open one more.
void descriptors(const std::string& prefix) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_max, 1 << 20));
    for (int fd = 0; fd < end; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0)
            continue;
        char target[PATH_MAX];
        const ssize_t size =
            ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target);
        const std::string text(target, size > 0 ? static_cast<std::size_t>(size) : 0);
        say(prefix + std::to_string(fd), text.substr(0, text.find('[')));
    }
}

void own_descriptors(const Arguments&) {
    descriptors("");
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

/// The output of this program run as a child with `words`.
std::string output_of(const std::string& words) {
    FILE* pipe = ::popen(("exec /proc/" + std::to_string(::getpid()) + "/exe " + words).c_str(), "re");
    std::string out;
    std::array<char, 4096> buffer{};
    while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
        out += buffer.data();
    if (pipe == nullptr || ::pclose(pipe) != 0)
        give_up("no child of the agent");
    return out;
}

/// agent: answers each query with the output of `probe descriptors` from a child.
void agent(const Arguments&) {
    std::cout << R"({"ev":"ready","data":{}})" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        if (line.find(R"("cmd":"query")") == std::string::npos)
            continue;
        std::cout << R"({"ev":"text_delta","data":{"delta":")" << escaped(output_of("descriptors"))
                  << R"("}})" << std::endl;
        std::cout << R"({"ev":"turn_complete","data":{"result":"success","exitCode":0}})" << std::endl;
        std::cout << R"({"ev":"done","data":{}})" << std::endl;
    }
}

}  // namespace

std::span<const Command> status_commands() {
    static constexpr Command k_commands[] = {{"status", status},
                                             {"gain", gain},
                                             {"identity", identity},
                                             {"descriptors", own_descriptors},
                                             {"agent", agent}};
    return k_commands;
}

}  // namespace atl::probe
