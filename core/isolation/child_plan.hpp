// The steps of a child between clone and exec. Plain values: the server's child (spawn.hpp) and a zygote
// (zygote.hpp) run the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atl::isolation {

/// How a staged folder is mounted. `bind`: the source itself, which may be a file. `tree`: the source with
/// all mounts below it, which a user namespace does not separate from it (mount_namespaces(7)). `view`: a
/// read-only overlay (the kernel's filesystems/overlayfs) of the source, whose files have the bytes of the
/// host's files but inodes of their own: locks and watches on them do not reach other sandboxes or the host.
/// `ptys`: a fresh devpts, without a source.
enum class StagedKind : std::uint8_t { bind, tree, view, ptys };

/// Something that the child mounts where a uid without a path to the source can reach it.
struct StagedMount {
    StagedKind kind = StagedKind::bind;
    std::string source;
    std::string target;
    std::string options;  // mount(2)'s data, of a view or of ptys
};

/// Priority for processor and I/O. Low: nice 5, last in its I/O class. Background: nice 19, I/O only while no
/// other process does any. Both use SCHED_BATCH (sched(7)): when they wake, they do not preempt others.
enum class Priority : std::uint8_t { normal, low, background };

/// The plan of one child. Descriptors are borrowed.
struct ChildPlan {
    std::vector<int> fds;              // fds[i] becomes descriptor i; all others are closed
    int group_fd = -1;                 // directory of a cgroup v2 group to start in
    std::uint64_t max_file_bytes = 0;  // RLIMIT_FSIZE (getrlimit(2)); 0: as the server's
    std::uint32_t max_open_files = 0;  // RLIMIT_NOFILE, soft 1024 of it at most; 0: as the server's
    int oom_score_adj = 0;             // proc(5); 0: as the server's
    std::uint32_t uid = 0;             // also the gid, without supplementary groups; 0 keeps the server's
    int mount_namespace = -1;          // to start in a copy of
    std::vector<StagedMount> staged;   // with `mount_namespace`, where both sides exist
    std::string cwd = "/";
    Priority priority = Priority::normal;
};

}  // namespace atl::isolation
