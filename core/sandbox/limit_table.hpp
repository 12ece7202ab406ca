// The limits of a sandbox, and the tables of them and of what enforces them. Forms, views, schemas, rows,
// flags, ceilings and metrics loop over the tables. A new limit is a member of Limits and of LimitChanges, an
// entry of k_limit_table, and the code that enforces it, which names itself in Enforcement.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::sandbox {

/// The limits of a sandbox. Enforcement says whether the host enforces each; nothing assumes it.
struct Limits {
    std::uint32_t memory_mb = 2048;
    std::uint32_t cpu_percent = 100;  // 100 is one core
    std::uint32_t disk_mb = 1024;
    std::uint32_t tmp_mb = 256;  // of /tmp, a tmpfs, which counts as memory, too
    std::uint32_t max_processes = 64;
    std::uint32_t max_sockets = 2048;     // of every family, all processes together
    std::uint32_t max_open_files = 4096;  // of each process, RLIMIT_NOFILE
    bool operator==(const Limits&) const = default;
};

/// The limits that a request names; an empty one stays as it is. Also ceilings; an empty one is none.
struct LimitChanges {
    std::optional<std::uint32_t> memory_mb;
    std::optional<std::uint32_t> cpu_percent;
    std::optional<std::uint32_t> disk_mb;
    std::optional<std::uint32_t> tmp_mb;
    std::optional<std::uint32_t> max_processes;
    std::optional<std::uint32_t> max_sockets;
    std::optional<std::uint32_t> max_open_files;

    Limits applied_to(Limits limits) const noexcept;
    bool operator==(const LimitChanges&) const = default;
};

/// A row of the table of limits.
struct LimitEntry {
    enum class Keys : bool { with_user, all };
    enum class Change : bool { in_place, at_start };

    std::string_view api;   // "memoryMb", in requests and in keys.json
    std::string_view flag;  // "memory-mb", in flags of the server and of `atolld keys add`
    std::uint32_t Limits::*value;
    std::optional<std::uint32_t> LimitChanges::*change;
    std::uint32_t least;
    std::uint32_t most;
    std::uint32_t ceiling;   // the most that a request may ask for, where the operator sets no ceiling
    std::string_view means;  // its description in the OpenAPI document
    Keys ceiling_for = Keys::with_user;
    Change changes = Change::in_place;  // at_start: a sandbox keeps the limit that it was started with
};

// bwrap, the guest and an agent start within the least of each.
inline constexpr std::array k_limit_table{
    LimitEntry{"memoryMb", "memory-mb", &Limits::memory_mb, &LimitChanges::memory_mb, 16, 1'048'576, 8192,
               "Memory of all processes together, in MB of 1,048,576 bytes."},
    LimitEntry{"cpuPercent", "cpu-percent", &Limits::cpu_percent, &LimitChanges::cpu_percent, 1, 6'400, 400,
               "Processor time, in percent of one core: 200 is two cores."},
    LimitEntry{"diskMb", "disk-mb", &Limits::disk_mb, &LimitChanges::disk_mb, 1, 1'048'576, 10'240,
               "The workspace, in MB of 1,048,576 bytes."},
    LimitEntry{
        "tmpMb", "tmp-mb", &Limits::tmp_mb, &LimitChanges::tmp_mb, 1, 1'048'576, 8192,
        "The folder /tmp, in MB of 1,048,576 bytes. What is in it counts as memory, too. A changed limit "
        "counts from the next start; a sandbox without a conversation, which starts once, refuses it.",
        LimitEntry::Keys::with_user, LimitEntry::Change::at_start},
    LimitEntry{"maxProcesses", "processes", &Limits::max_processes, &LimitChanges::max_processes, 1, 65'536,
               1024, "Processes at one time; threads count."},
    LimitEntry{"maxSockets", "sockets", &Limits::max_sockets, &LimitChanges::max_sockets, 16, 1'048'576, 8192,
               "Sockets of every family, of all processes together.", LimitEntry::Keys::all},
    LimitEntry{"maxOpenFiles", "open-files", &Limits::max_open_files, &LimitChanges::max_open_files, 64,
               1'048'576, 65'536, "Open files of each process. A change is as that of tmpMb.",
               LimitEntry::Keys::all, LimitEntry::Change::at_start},
};
static_assert(sizeof(Limits) == k_limit_table.size() * sizeof(std::uint32_t), "each limit has an entry");
static_assert(std::all_of(k_limit_table.begin(), k_limit_table.end(), [](const LimitEntry& limit) {
    const std::uint32_t value = Limits().*limit.value;
    return limit.least <= value && value <= limit.ceiling && limit.ceiling <= limit.most;
}));

/// The ceilings of a server whose operator sets none: those for all keys.
LimitChanges default_ceilings() noexcept;

/// The means by which this host enforces each limit of one sandbox, in the words of the API.
struct Enforcement {
    std::string filesystem = "none";
    std::string network = "none";
    std::string syscalls = "none";
    std::string uid = "shared";
    std::string memory = "none";
    std::string cpu = "none";
    std::string processes = "none";
    std::string sockets = "none";
    std::string disk = "none";
    std::string tmp = "none";
    bool operator==(const Enforcement&) const = default;
};

/// A row of the table of Enforcement.
struct EnforcementEntry {
    std::string_view api;
    std::string Enforcement::*by;
    std::string_view means;     // its description in the OpenAPI document
    std::string_view limits{};  // the word that stands for a limit; empty: any but `none`
};

inline constexpr std::array k_enforcement_table{
    EnforcementEntry{"filesystem", &Enforcement::filesystem,
                     "What keeps it off the host's files: bubblewrap."},
    EnforcementEntry{
        "network", &Enforcement::network,
        "netns: a network of its own. egress: such a one, and the server's proxy as the one way out. "
        "host: the host's.",
        "netns"},
    EnforcementEntry{"syscalls", &Enforcement::syscalls, "What refuses system calls: seccomp."},
    EnforcementEntry{"uid", &Enforcement::uid,
                     "private: a host uid of its own. shared: with the server's other sandboxes.", "private"},
    EnforcementEntry{"memory", &Enforcement::memory, "What limits memory: cgroup2, cgroup1, or none."},
    EnforcementEntry{"cpu", &Enforcement::cpu, "What limits processor time: cgroup2, cgroup1, or none."},
    EnforcementEntry{"processes", &Enforcement::processes,
                     "What limits processes: cgroup2, cgroup1, rlimit, or none."},
    EnforcementEntry{"sockets", &Enforcement::sockets, "count: the server counts them and ends the sandbox."},
    EnforcementEntry{"disk", &Enforcement::disk,
                     "quota: the kernel refuses writes over the limit. check: the server measures.", "quota"},
    EnforcementEntry{"tmp", &Enforcement::tmp,
                     "What limits /tmp: tmpfs, a file system in memory of this size."},
};

}  // namespace atl::sandbox
