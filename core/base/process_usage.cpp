#include "core/base/process_usage.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::base {
namespace {

constexpr std::size_t k_file_bytes = 4096;

/// The beginning of a file of /proc; empty if it cannot be read.
std::string_view read_proc(const char* path, std::array<char, k_file_bytes>& into) {
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file)
        return {};
    const ssize_t count = ::read(file.get(), into.data(), into.size());
    return {into.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

/// The decimal number at the front, after blanks, which is taken off; 0 if there is none.
std::uint64_t take_number(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::uint64_t number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

std::chrono::microseconds duration_of(const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

/// How many descriptors the process's table has room for: none beyond is open.
std::uint64_t table_size() {
    std::array<char, k_file_bytes> space;
    std::string_view text = read_proc("/proc/self/status", space);
    constexpr std::string_view k_field = "\nFDSize:";
    const auto at = text.find(k_field);
    if (at == std::string_view::npos)
        return 0;
    text.remove_prefix(at + k_field.size());
    return take_number(text);
}

}  // namespace

ProcessUsage process_usage() {
    ProcessUsage usage;
    std::array<char, k_file_bytes> space;
    std::string_view pages = read_proc("/proc/self/statm", space);
    const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    usage.virtual_bytes = take_number(pages) * page_bytes;
    usage.resident_bytes = take_number(pages) * page_bytes;
    rusage times{};
    if (::getrusage(RUSAGE_SELF, &times) == 0)
        usage.cpu = duration_of(times.ru_utime) + duration_of(times.ru_stime);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
        usage.max_fds = limit.rlim_cur;
    return usage;
}

std::uint64_t count_open_fds() {
    struct stat folder {};
    // The size of the folder is the number of its entries (proc_pid_fd(5)).
    if (::stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return static_cast<std::uint64_t>(folder.st_size);
    return count_open_fds_by_poll();
}

std::uint64_t count_open_fds_by_poll() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    // poll(2) takes no more than the limit, beyond which none is opened.
    std::vector<pollfd> all(std::min<std::uint64_t>(table_size(), limit.rlim_cur));
    for (std::size_t number = 0; number < all.size(); ++number)
        all[number].fd = static_cast<int>(number);
    if (all.empty() || ::poll(all.data(), all.size(), 0) < 0)
        return 0;
    return static_cast<std::uint64_t>(
        std::ranges::count_if(all, [](const pollfd& one) { return (one.revents & POLLNVAL) == 0; }));
}

}  // namespace atl::base
