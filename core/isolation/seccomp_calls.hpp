// The lists behind the first filter of seccomp.hpp: names of system calls by topic. A name that an
// architecture or libseccomp does not know is skipped: the call is then ENOSYS.
#pragma once

#include <array>

namespace atl::isolation {

// clang-format off

/// Allowed with any argument that the second filter does not refuse. Left out although container engines
/// allow it: native asynchronous I/O (io_setup(2)), since fs.aio-max-nr counts all contexts of the host;
/// cachestat(2), which shows which files others read; and landlock_add_rule(2) with its companions, since a
/// rule keeps the inode of a deleted file without a descriptor or a mapping, where no look at the disk finds
/// it. Programs take ENOSYS of these calls as a sign of an old kernel.
inline constexpr std::array k_allowed_calls = {
    // Files and folders.
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2",
    "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2",
    "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr",
    "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64",
    "getxattr", "ioctl", "lchown", "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lremovexattr",
    "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat",
    "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
    "readlink", "readlinkat", "readv", "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile",
    "setxattr", "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range",
    "syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
    "write", "writev",
    // Memory.
    "brk", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap",
    "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
    "pkey_mprotect", "process_mrelease", "remap_file_pages", "map_shadow_stack",
    // Processes and threads.
    "alarm", "arch_prctl", "capget", "capset", "clone", "execve", "execveat", "exit", "exit_group", "fork",
    "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list",
    "get_thread_area", "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid",
    "getppid", "getpriority", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid",
    "ioprio_get", "ioprio_set", "kill", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64",
    "process_vm_readv", "process_vm_writev", "ptrace", "restart_syscall", "rseq", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
    "sched_yield", "seccomp", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid",
    "setgid", "setgroups", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setuid", "sysinfo", "tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid",
    // Signals, events, time.
    "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2",
    "getitimer", "getrandom", "gettimeofday", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "nanosleep", "pause", "poll", "ppoll", "pselect6", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_tgsigqueueinfo", "select", "setitimer", "sigaltstack", "signalfd", "signalfd4", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
    "timerfd_settime",
    // Pipes, sockets, System V and POSIX messages.
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "pipe",
    "pipe2", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "socket", "socketpair",
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
    "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt",
    "shmget",
};

/// Known and refused: EPERM says "not allowed here" to programs that would take ENOSYS for an old kernel.
inline constexpr std::array k_refused_calls = {
    // Mounts and namespaces.
    "mount", "umount", "umount2", "pivot_root", "chroot", "setns", "unshare", "fsopen", "fsconfig", "fsmount",
    "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr", "name_to_handle_at",
    "open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "fanotify_init", "fanotify_mark",
    // Large attack surface of the kernel.
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "add_key", "request_key", "keyctl", "kcmp", "lookup_dcookie", "vmsplice",
    // Other processes' descriptors and memory; ptrace is held to this sandbox in the same way, but has users.
    "pidfd_getfd", "process_madvise",
    // The machine.
    "acct", "adjtimex", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
    "get_kernel_syms", "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "modify_ldt",
    "nfsservctl", "query_module", "reboot", "setdomainname", "sethostname", "settimeofday", "stime", "syslog",
    "sysfs", "_sysctl", "uselib", "ustat", "vhangup", "vm86", "vm86old",
    // Placement on NUMA nodes: programs try these calls and work without them.
    "get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node",
};

// clang-format on

}  // namespace atl::isolation
