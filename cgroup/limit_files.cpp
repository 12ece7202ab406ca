#include "cgroup/limit_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "cgroup/files.hpp"
#include "core/base/limits.hpp"

namespace atl::cgroup {
namespace {

constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
constexpr std::uint64_t k_cpu_period_usec = 100'000;
constexpr std::uint64_t k_nanoseconds_per_usec = 1000;
// bwrap's process outside the sandbox, and the guest.
constexpr std::uint32_t k_own_processes = 2;

std::uint32_t without_own(std::uint64_t count) {
    return static_cast<std::uint32_t>(count - std::min<std::uint64_t>(count, k_own_processes));
}

const ControllerFolder* find(const ControllerFolders& folders, Controller controller) {
    const auto found = folders.find(controller);
    return found == folders.end() ? nullptr : &found->second;
}

base::Result<void> write(int folder, const char* name, const std::string& text) {
    const int error_number = write_at(folder, name, text);
    if (error_number == 0)
        return {};
    return base::Error(base::Errc::sandbox_failed,
                       "writing " + text + " to " + name + ": " + std::strerror(error_number));
}

/// Does what write() does, but nothing on a kernel without the file.
base::Result<void> write_if_there(int folder, const char* name, const std::string& text) {
    return exists_at(folder, name) ? write(folder, name, text) : base::Result<void>();
}

base::Result<void> write_memory_v2(int folder, const std::string& bytes) {
    if (auto ok = write_if_there(folder, "memory.swap.max", "0"); !ok)
        return ok;
    if (auto ok = write_if_there(folder, "memory.oom.group", "1"); !ok)
        return ok;
    return write(folder, "memory.max", bytes);
}

/// Buffers of TCP and UDP sockets, which v1 counts apart from memory (Documentation/admin-guide/cgroup-v1/
/// memory.rst, 2.7.1). A sandbox with less memory gets less of them.
base::Result<void> write_socket_buffers_v1(int folder, std::uint32_t memory_mb) {
    const std::uint64_t bytes = std::min(memory_mb, base::k_socket_buffer_mb) * k_bytes_per_mb;
    return write_if_there(folder, "memory.kmem.tcp.limit_in_bytes", std::to_string(bytes));
}

// Memory and swap together may never be below memory alone: which of the two is first depends on the
// direction.
base::Result<void> write_memory_v1(int folder, const std::string& bytes) {
    const char* const both = "memory.memsw.limit_in_bytes";
    const char* const memory = "memory.limit_in_bytes";
    if (!exists_at(folder, both)) {
        (void)write_at(folder, "memory.swappiness", "0");
        return write(folder, memory, bytes);
    }
    const bool grows = number_at(folder, memory).value_or(0) < std::stoull(bytes);
    if (auto ok = write(folder, grows ? both : memory, bytes); !ok)
        return ok;
    return write(folder, grows ? memory : both, bytes);
}

base::Result<void> write_cpu(const ControllerFolder& at, std::uint32_t percent) {
    const std::string period = std::to_string(k_cpu_period_usec);
    const std::string quota = std::to_string(k_cpu_period_usec * percent / 100);
    if (at.version == 2)
        return write(at.folder, "cpu.max", quota + " " + period);
    if (auto ok = write(at.folder, "cpu.cfs_period_us", period); !ok)
        return ok;
    return write(at.folder, "cpu.cfs_quota_us", quota);
}

}  // namespace

base::Result<void> write_limits(const ControllerFolders& folders, const sandbox::Limits& limits) {
    base::Result<void> first_error;
    const auto note = [&first_error](const base::Result<void>& result) {
        if (first_error && !result)
            first_error = result;
    };
    if (const auto* at = find(folders, Controller::cpu))
        note(write_cpu(*at, limits.cpu_percent));
    if (const auto* at = find(folders, Controller::pids))
        note(write(at->folder, "pids.max", std::to_string(limits.max_processes + k_own_processes)));
    if (const auto* at = find(folders, Controller::memory)) {
        const std::string bytes = std::to_string(limits.memory_mb * k_bytes_per_mb);
        note(at->version == 2 ? write_memory_v2(at->folder, bytes) : write_memory_v1(at->folder, bytes));
        if (at->version == 1)
            note(write_socket_buffers_v1(at->folder, limits.memory_mb));
    }
    return first_error;
}

sandbox::Usage read_usage(const ControllerFolders& folders) {
    sandbox::Usage usage;
    if (const auto* at = find(folders, Controller::memory)) {
        const bool is_v2 = at->version == 2;
        usage.memory_bytes = number_at(at->folder, is_v2 ? "memory.current" : "memory.usage_in_bytes");
        usage.memory_peak_bytes = number_at(at->folder, is_v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    }
    usage.cpu_usec = read_cpu_usec(folders);
    if (const auto* at = find(folders, Controller::pids))
        usage.processes = without_own(number_at(at->folder, "pids.current").value_or(0));
    return usage;
}

ProcessCount read_process_count(const ControllerFolder& pids) {
    const std::uint32_t limit = without_own(number_at(pids.folder, "pids.max").value_or(0));
    return {std::min(without_own(number_at(pids.folder, "pids.current").value_or(0)), limit), limit};
}

std::optional<std::uint64_t> read_cpu_usec(const ControllerFolders& folders) {
    const auto* cpu = find(folders, Controller::cpu);
    if (cpu != nullptr && cpu->version == 2)
        return keyed_number_at(cpu->folder, "cpu.stat", "usage_usec");
    const auto* cpuacct = find(folders, Controller::cpuacct);
    const auto nanoseconds = cpuacct == nullptr ? std::nullopt : number_at(cpuacct->folder, "cpuacct.usage");
    return nanoseconds ? std::optional(*nanoseconds / k_nanoseconds_per_usec) : std::nullopt;
}

std::optional<std::uint64_t> read_held_bytes(const ControllerFolder& memory) {
    const bool is_v2 = memory.version == 2;
    const auto used = number_at(memory.folder, is_v2 ? "memory.current" : "memory.usage_in_bytes");
    const auto spare =
        keyed_number_at(memory.folder, "memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
    return used ? std::optional(*used - std::min(*used, spare.value_or(0))) : std::nullopt;
}

std::uint64_t read_oom_kills(const ControllerFolders& folders) {
    const auto* at = find(folders, Controller::memory);
    if (at == nullptr)
        return 0;
    const char* const name = at->version == 2 ? "memory.events" : "memory.oom_control";
    return keyed_number_at(at->folder, name, "oom_kill").value_or(0);
}

}  // namespace atl::cgroup
