#include "core/isolation/zygote/epoll_count.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace atl::isolation {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t k_sampled_sets = 16;
constexpr std::string_view k_set_name = "anon_inode:[eventpoll]";
constexpr std::string_view k_line_start = "tfd:";  // proc_pid_fdinfo(5)

std::string link_of(const std::string& path) {
    std::array<char, PATH_MAX> target;
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    return {target.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

/// Calls `take` with each name in `folder` that is a number.
template <class Take>
void each_number(const std::string& folder, const Take& take) {
    DIR* dir = ::opendir(folder.c_str());
    if (dir == nullptr)
        return;
    while (const dirent* entry = ::readdir(dir)) {
        if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0 &&
            !take(std::string(entry->d_name)))
            break;
    }
    ::closedir(dir);
}

unsigned long long registrations(const std::string& fdinfo) {
    const int file = ::open(fdinfo.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    static std::array<char, 256UL * 1024> chunk;
    unsigned long long count = 0;
    std::size_t matched = 0;  // of k_line_start, across chunks
    ssize_t size = 0;
    while ((size = ::read(file, chunk.data(), chunk.size())) > 0) {
        for (const char c : std::string_view(chunk.data(), static_cast<std::size_t>(size))) {
            matched = c == k_line_start[matched] ? matched + 1 : (c == k_line_start[0] ? 1 : 0);
            if (matched == k_line_start.size()) {
                ++count;
                matched = 0;
            }
        }
    }
    ::close(file);
    // The kernel writes all lines of a set into one buffer before the first is read.
    return size < 0 ? k_countless : count;
}

using Counts = std::map<std::string, unsigned long long>;  // by pid namespace

/// The sets of epoll that the process has open, as paths of their fdinfo.
std::vector<std::string> sets_of(const std::string& pid) {
    std::vector<std::string> sets;
    each_number("/proc/" + pid + "/fd", [&](const std::string& fd) {
        if (link_of("/proc/" + pid + "/fd/" + fd) == k_set_name)
            sets.push_back("/proc/" + pid + "/fdinfo/" + fd);
        return true;
    });
    return sets;
}

/// Reads at most `most_sets` sets of each process of these namespaces, and extrapolates to its other sets.
void count_all(Counts& counts, std::size_t most_sets, Clock::time_point deadline) {
    each_number("/proc", [&](const std::string& pid) {
        const auto found = counts.find(link_of("/proc/" + pid + "/ns/pid"));
        if (found == counts.end())
            return true;
        const std::vector<std::string> sets = sets_of(pid);
        const std::size_t read = std::min(sets.size(), most_sets);
        unsigned long long sum = 0;
        for (std::size_t i = 0; i < read && Clock::now() < deadline; ++i)
            sum += registrations(sets[i * sets.size() / read]);
        found->second += read > 0 ? sum * sets.size() / read : 0;
        return Clock::now() < deadline;
    });
}

std::string namespace_of(const std::string& pid) {
    return link_of("/proc/" + pid + "/ns/pid");
}

}  // namespace

void count_epoll(unsigned seconds, unsigned long long enough, const std::vector<std::string>& pids) {
    const auto deadline = Clock::now() + std::chrono::seconds(seconds);
    std::pair<std::string, unsigned long long> most;
    // An estimate first: during a full count the kernel goes on refusing registrations of others.
    for (const std::size_t most_sets : {k_sampled_sets, std::numeric_limits<std::size_t>::max()}) {
        Counts counts;
        for (const std::string& pid : pids)
            counts[namespace_of(pid)] = 0;
        counts.erase("");
        count_all(counts, most_sets, deadline);
        for (const std::string& pid : pids) {
            const auto found = counts.find(namespace_of(pid));
            if (found != counts.end() && found->second > most.second)
                most = {pid, found->second};
        }
        if (most.second > enough)
            break;
    }
    if (most.second > 0)
        std::printf("%s %llu\n", most.first.c_str(), most.second);
    std::fflush(stdout);
}

}  // namespace atl::isolation
