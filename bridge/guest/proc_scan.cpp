#include "bridge/guest/proc_scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {
namespace {

// A process that forks is seen by the next pass, and a killed one forks no more (fork(2) fails while a signal
// is pending).
constexpr int k_most_passes = 16;

std::optional<long> number_of(std::string_view text) {
    long number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
        return std::nullopt;
    return number;
}

// Indexes of fields in the result of fields_of().
constexpr std::size_t k_parent = 1;
constexpr std::size_t k_group_field = 2;
constexpr std::size_t k_session = 3;
constexpr std::size_t k_threads = 17;
constexpr std::size_t k_started = 19;

/// The fields of /proc/PID/stat from the third on (proc(5)). The second is the name, in parentheses, which
/// its process may choose.
std::vector<std::string_view> fields_of(std::string_view stat) {
    std::vector<std::string_view> fields;
    stat.remove_prefix(std::min(stat.rfind(')'), stat.size()));
    while (!stat.empty()) {
        const std::size_t begin = stat.find_first_not_of(") \n");
        if (begin == std::string_view::npos)
            break;
        stat.remove_prefix(begin);
        const std::size_t end = std::min(stat.find_first_of(" \n"), stat.size());
        fields.push_back(stat.substr(0, end));
        stat.remove_prefix(end);
    }
    return fields;
}

base::UniqueFd open_process(pid_t pid) {
    return base::UniqueFd(open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

std::optional<SeenProcess> read_process(int folder) {
    const base::UniqueFd file(openat(folder, "stat", O_RDONLY | O_CLOEXEC));
    char text[1024];
    const ssize_t size = file ? read(file.get(), text, sizeof text) : -1;
    const auto fields = fields_of({text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
    if (fields.size() <= k_started)
        return std::nullopt;
    const auto number = [&fields](std::size_t at) { return number_of(fields[at]).value_or(0); };
    SeenProcess process;
    process.parent = static_cast<pid_t>(number(k_parent));
    process.group = static_cast<pid_t>(number(k_group_field));
    process.session = static_cast<pid_t>(number(k_session));
    process.threads = static_cast<std::uint64_t>(number(k_threads));
    process.started = static_cast<std::uint64_t>(number(k_started));
    return process;
}

/// Sends the signal once to each process that `is_meant`, until a look finds no other one.
template <class Test>
void signal_each(int number, Test is_meant) {
    std::set<std::pair<pid_t, std::uint64_t>> told;
    for (int pass = 0; pass < k_most_passes; ++pass) {
        const SeenProcesses seen = see_processes();
        bool is_new = false;
        for (const auto& [pid, process] : seen) {
            if (!is_meant(seen, pid) || !told.emplace(pid, process.started).second)
                continue;
            is_new = true;
            signal_seen(pid, process, number);
        }
        if (!is_new)
            return;
    }
}

bool shows_own_processes() {
    char target[32];
    const ssize_t size = readlink("/proc/self", target, sizeof target);
    return size > 0 && number_of({target, static_cast<std::size_t>(size)}) == getpid();
}

}  // namespace

SeenProcesses see_processes() {
    SeenProcesses seen;
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
    if (!proc || !shows_own_processes())
        return seen;
    while (const dirent* entry = readdir(proc.get())) {
        const auto pid = number_of(entry->d_name);
        if (!pid)
            continue;
        const base::UniqueFd folder = open_process(static_cast<pid_t>(*pid));
        if (const auto process = folder ? read_process(folder.get()) : std::nullopt)
            seen.emplace(static_cast<pid_t>(*pid), *process);
    }
    return seen;
}

// The folder stands for this process even if it ends now and its number is given to another
// (pidfd_send_signal(2)).
void signal_seen(pid_t pid, const SeenProcess& process, int number) {
    const base::UniqueFd folder = open_process(pid);
    const auto now = folder ? read_process(folder.get()) : std::nullopt;
    if (now && now->started == process.started)
        syscall(SYS_pidfd_send_signal, folder.get(), number, nullptr, 0);
}

void signal_session(pid_t session, pid_t other, int number) {
    signal_each(number, [session, other](const SeenProcesses& seen, pid_t pid) {
        const SeenProcess& process = seen.at(pid);
        return process.session == session && process.group != session && process.group != other;
    });
}

void signal_descendants(pid_t root, int number) {
    signal_each(number, [root](const SeenProcesses& seen, pid_t pid) {
        // A process that moved while it was looked at may seem to be its own ancestor.
        for (std::size_t steps = 0; steps < seen.size(); ++steps) {
            const auto found = seen.find(pid);
            if (found == seen.end() || found->second.parent == root)
                return found != seen.end();
            pid = found->second.parent;
        }
        return false;
    });
}

}  // namespace atl::guest
