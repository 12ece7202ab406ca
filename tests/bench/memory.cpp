#include "tests/bench/memory.hpp"

#include <poll.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr int k_look_every_ms = 100;
constexpr int k_looks = 60;
constexpr int k_still_looks = 10;
constexpr double k_still_kb = 512;
constexpr std::string_view k_helper = "atoll-helper";

/// The number after `name` in a file of lines like "Pss:   310 kB".
double field_kb(const fs::path& file, std::string_view name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name))
            return std::stod(line.substr(name.size()));
    }
    throw std::runtime_error("no " + std::string(name) + " in " + file.string() + ": root can read it");
}

pid_t parent_of(const fs::path& process) {
    std::ifstream stat(process / "stat");
    std::string text;
    std::getline(stat, text);
    // The name in parentheses may hold anything; after it come the state and the parent.
    const std::size_t end = text.rfind(')');
    return end == std::string::npos ? 0 : std::atoi(text.c_str() + end + 4);
}

std::string program_of(pid_t pid) {
    std::error_code error;
    return fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
}

}  // namespace

double settled_mem_available_kb() {
    // The kernel frees namespaces and groups in the background: still means still for a while.
    double last = field_kb("/proc/meminfo", "MemAvailable:");
    int still = 0;
    for (int look = 0; look < k_looks && still < k_still_looks; ++look) {
        ::poll(nullptr, 0, k_look_every_ms);
        const double now = field_kb("/proc/meminfo", "MemAvailable:");
        still = std::abs(now - last) <= k_still_kb ? still + 1 : 0;
        last = now;
    }
    return last;
}

double rss_kb(pid_t pid) {
    return field_kb("/proc/" + std::to_string(pid) + "/status", "VmRSS:");
}

std::vector<pid_t> sandbox_processes(pid_t server) {
    std::multimap<pid_t, pid_t> children;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        pid_t pid = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc())
            children.emplace(parent_of(entry.path()), pid);
    }
    const std::string server_program = program_of(server);
    std::vector<pid_t> found;
    std::vector<pid_t> queue{server};
    while (!queue.empty()) {
        const pid_t parent = queue.back();
        queue.pop_back();
        const auto [first, last] = children.equal_range(parent);
        for (auto child = first; child != last; ++child) {
            const std::string program = program_of(child->second);
            if (fs::path(program).filename() == k_helper)
                continue;
            queue.push_back(child->second);
            if (program.empty() || program != server_program)
                found.push_back(child->second);
        }
    }
    return found;
}

double pss_kb(const std::vector<pid_t>& processes) {
    double sum = 0;
    for (const pid_t pid : processes)
        sum += field_kb("/proc/" + std::to_string(pid) + "/smaps_rollup", "Pss:");
    return sum;
}

}  // namespace atl::bench
