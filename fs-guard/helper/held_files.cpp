#include "fs-guard/helper/held_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

#include "fs-guard/helper/progress.hpp"

namespace atl::helper {
namespace {

constexpr std::uint64_t k_block_bytes = 512;  // of st_blocks (stat(2))
constexpr std::string_view k_deleted = " (deleted)";

struct FolderCloser {
    void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, FolderCloser>;

bool is_number(const char* name) {
    return *name >= '0' && *name <= '9';
}

/// The names in a folder of /proc that are numbers.
std::vector<std::string> numbers_in(DIR* folder) {
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(folder)) {
        if (is_number(entry->d_name))
            names.emplace_back(entry->d_name);
    }
    return names;
}

pid_t to_pid(const std::string& name) {
    return static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
}

/// The number behind `key` in a text of "key: number" lines; 0 without it.
std::uint64_t number_after(const std::string& path, std::string_view key) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with(key))
            return std::strtoull(line.c_str() + key.size(), nullptr, 10);
    }
    return 0;
}

// kcmp(2); a kernel without it says that they differ, and the table is read twice.
bool share_descriptors(pid_t one, pid_t other) {
    return ::syscall(SYS_kcmp, one, other, KCMP_FILES, 0, 0) == 0;
}

/// The parent by /proc/PID/stat, behind the name, which may hold anything.
pid_t parent_of(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text;
    std::getline(file, text, '\0');
    const auto end = text.rfind(')');
    if (end == std::string::npos || end + 4 >= text.size())
        return 0;
    return static_cast<pid_t>(std::strtol(text.c_str() + end + 4, nullptr, 10));
}

/// A zombie thread holds nothing, even if its files in /proc cannot be read (proc(5), stat).
bool has_ended(const std::string& task) {
    std::ifstream file(task + "/stat");
    std::string text;
    std::getline(file, text, '\0');
    const auto end = text.rfind(')');
    return end == std::string::npos || end + 2 >= text.size() || text[end + 2] == 'Z' || text[end + 2] == 'X';
}

/// Process 1 of a sandbox and processes outside of its pid namespace are our own programs, which hold no file
/// of the sandbox.
bool is_ours(const std::string& task) {
    std::ifstream file(task + "/status");
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with("NSpid:"))
            return line.ends_with("\t1") || std::count(line.begin(), line.end(), '\t') == 1;
    }
    return false;
}

}  // namespace

void HeldFiles::add(pid_t pid) {
    const std::string process = "/proc/" + std::to_string(pid);
    const Folder tasks(::opendir((process + "/task").c_str()));
    if (!tasks)
        return miss(errno);
    written_bytes_ += number_after(process + "/io", "write_bytes: ");
    bool has_mappings = false;
    pid_t read_before = 0;
    for (const auto& tid : numbers_in(tasks.get())) {
        std::string task = process + "/task/";
        task += tid;
        // The first thread may have ended, and then has no table: so the next thread is compared with a
        // thread that was read.
        const bool is_read = read_before != 0 && share_descriptors(read_before, to_pid(tid));
        add_task(task, !is_read);
        if (!is_read)
            read_before = to_pid(tid);
        if (!has_mappings)
            has_mappings = add_mappings(task, tid);
    }
}

void HeldFiles::add_task(const std::string& task, bool with_descriptors) {
    for (const char* link : {"/cwd", "/root", "/exe"}) {
        struct stat status {};
        if (::stat((task + link).c_str(), &status) == 0)
            take(status);
    }
    if (with_descriptors)
        add_descriptors(task);
}

void HeldFiles::add_descriptors(const std::string& task) {
    const Folder folder(::opendir((task + "/fd").c_str()));
    if (!folder) {
        const int error_number = errno;
        if (!has_ended(task) && !is_ours(task))
            miss(error_number);
        return;
    }
    while (const dirent* entry = ::readdir(folder.get())) {
        if (is_number(entry->d_name))
            add_descriptor(::dirfd(folder.get()), task, entry->d_name);
    }
}

void HeldFiles::add_descriptor(int folder, const std::string& task, const char* name) {
    note_progress();
    struct stat status {};
    if (::fstatat(folder, name, &status, 0) != 0)
        return miss(errno);
    if (S_ISSOCK(status.st_mode))
        out_of_sight_ += number_after(task + "/fdinfo/" + name, "scm_fds: ");
    else
        take(status);
}

bool HeldFiles::add_mappings(const std::string& task, const std::string& tid) {
    std::ifstream maps(task + "/maps");
    std::string line;
    bool any = false;
    while (std::getline(maps, line)) {
        any = true;
        if (line.ends_with(k_deleted))
            add_mapping(line, tid);
    }
    return any;
}

// "START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH", all but the inode hexadecimal (proc(5)).
void HeldFiles::add_mapping(const std::string& line, const std::string& tid) {
    note_progress();
    unsigned long start = 0;
    unsigned long end = 0;
    unsigned int high = 0;
    unsigned int low = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*x %x:%x %lu", &start, &end, &high, &low, &inode) != 5)
        return;
    const std::string file = std::to_string(makedev(high, low)) + ":" + std::to_string(inode);
    if (mapped_.size() < k_max_held_files && !mapped_.insert(file).second)
        return;
    char path[96];
    std::snprintf(path, sizeof path, "/proc/%s/map_files/%lx-%lx", tid.c_str(), start, end);
    struct stat status {};
    if (::stat(path, &status) == 0)
        take(status);
    else if (makedev(high, low) == device_)
        miss(errno);
}

void HeldFiles::take(const struct stat& status) {
    if (status.st_dev != device_ || status.st_nlink != 0)
        return;
    if (held_.size() == k_max_held_files)
        ++out_of_sight_;
    else if (held_.insert(status.st_ino).second)
        bytes_ += static_cast<std::uint64_t>(status.st_blocks) * k_block_bytes;
}

// ENOENT and ESRCH: the thread has ended, or has closed the file meanwhile.
void HeldFiles::miss(int error_number) {
    if (error_number != ENOENT && error_number != ESRCH)
        ++out_of_sight_;
}

std::vector<pid_t> family_of(pid_t ancestor) {
    std::vector<pid_t> family{ancestor};
    const Folder processes(::opendir("/proc"));
    if (!processes)
        return family;
    std::multimap<pid_t, pid_t> children;
    for (const auto& name : numbers_in(processes.get()))
        children.emplace(parent_of(name), to_pid(name));
    for (std::size_t at = 0; at < family.size(); ++at) {
        const auto [first, last] = children.equal_range(family[at]);
        for (auto child = first; child != last; ++child)
            family.push_back(child->second);
    }
    return family;
}

}  // namespace atl::helper
