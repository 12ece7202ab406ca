#include "tests/isolation/redteam/host_meter.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <sstream>

#include "core/plain/unique_fd.hpp"
#include "tests/isolation/lab.hpp"

namespace atl::test {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::int64_t k_kb_per_mb = 1024;

void add_memory(HostSample& sample) {
    const std::map<std::string, std::string> names = {{"MemAvailable:", "available_mb"},
                                                      {"SUnreclaim:", "unreclaimable_mb"},
                                                      {"VmallocUsed:", "vmalloc_mb"}};
    std::istringstream lines(read_host_file("/proc/meminfo"));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        std::int64_t kb = 0;
        words >> name >> kb;
        if (const auto found = names.find(name); found != names.end())
            sample[found->second] = kb / k_kb_per_mb;
    }
}

/// The first number of a file whose text may begin with words.
void add_first_number(HostSample& sample, const std::string& name, const fs::path& path) {
    const std::string text = read_host_file(path);
    const auto digit = text.find_first_of("0123456789");
    if (digit != std::string::npos)
        sample[name] = std::stoll(text.substr(digit));
}

void add_groups(HostSample& sample) {
    std::istringstream lines(read_host_file("/proc/cgroups"));
    std::int64_t largest = 0;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        std::int64_t hierarchy = 0, groups = 0;
        if (words >> name >> hierarchy >> groups)
            largest = std::max(largest, groups);
    }
    sample["groups"] = largest;
}

/// Only root reads addresses and slabs (proc(5)).
void add_kernel_tables(HostSample& sample) {
    const std::string areas = read_host_file("/proc/vmallocinfo");
    if (!areas.empty()) {
        std::int64_t bytes = 0;
        std::istringstream lines(areas);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string range;
            std::int64_t size = 0;
            if (line.find("bpf_") != std::string::npos && words >> range >> size)
                bytes += size;
        }
        sample["jit_kb"] = bytes / 1024;
    }
    std::istringstream lines(read_host_file("/proc/slabinfo"));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        std::int64_t active = 0;
        if (words >> name >> active && name == "sock_inode_cache")
            sample["socket_slabs"] = active;
    }
}

/// The kernel frees memory in the background (RCU, work queues), without a notification.
void wait_for_next_look() {
    const base::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    itimerspec when{};
    when.it_value.tv_nsec = 50'000'000;
    std::uint64_t fired = 0;
    if (::timerfd_settime(timer.get(), 0, &when, nullptr) == 0)
        static_cast<void>(::read(timer.get(), &fired, sizeof fired));
}

std::string compare(const HostSample& before, const HostSample& now, const HostSample& slack) {
    std::string missing;
    for (const auto& [name, allowed] : slack) {
        const auto then = before.find(name);
        const auto found = now.find(name);
        if (then == before.end() || found == now.end())
            continue;
        const std::int64_t more =
            name == "available_mb" ? then->second - found->second : found->second - then->second;
        if (more > allowed)
            missing += name + ": " + std::to_string(then->second) + " before, " +
                       std::to_string(found->second) + " now; ";
    }
    return missing;
}

}  // namespace

HostSample measure_host() {
    HostSample sample;
    add_memory(sample);
    add_first_number(sample, "sockets", "/proc/net/sockstat");
    add_first_number(sample, "ptys", "/proc/sys/kernel/pty/nr");
    add_first_number(sample, "aio", "/proc/sys/fs/aio-nr");
    add_first_number(sample, "files", "/proc/sys/fs/file-nr");
    add_groups(sample);
    sample["processes"] = static_cast<std::int64_t>(descendants(::getpid()).size());
    add_kernel_tables(sample);
    return sample;
}

const HostSample& default_slack() {
    // Other programs of the host open files and fill caches meanwhile; an attack takes many times that.
    static const HostSample slack = {{"available_mb", 1024},
                                     {"unreclaimable_mb", 64},
                                     {"vmalloc_mb", 32},
                                     {"sockets", 50},
                                     {"ptys", 8},
                                     {"aio", 64},
                                     {"files", 1000},
                                     {"groups", 8},
                                     {"processes", 4},
                                     {"jit_kb", 1024},
                                     {"socket_slabs", 500}};
    return slack;
}

std::string still_taken(const HostSample& before, std::chrono::milliseconds deadline,
                        const HostSample& slack) {
    const auto until = Clock::now() + deadline;
    while (true) {
        const std::string missing = compare(before, measure_host(), slack);
        if (missing.empty() || Clock::now() > until)
            return missing;
        wait_for_next_look();
    }
}

}  // namespace atl::test
