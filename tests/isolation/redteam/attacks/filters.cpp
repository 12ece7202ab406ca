// Compiled filters: all filters of a host share one budget (net.core.bpf_jit_limit), which is charged to no
// cgroup.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

constexpr std::size_t k_longest_program = 4095;
// Before Linux 6.8 a longer one exceeds what the options of a socket may take (net.core.optmem_max, 20 KiB).
constexpr std::size_t k_longest_of_socket = 2400;
// Another filter would exceed the kernel's limit for one process (seccomp(2), ENOMEM).
constexpr int k_filters_of_process = 7;

/// Allows everything.
std::vector<sock_filter> program_of(std::size_t instructions) {
    std::vector<sock_filter> code(instructions, BPF_STMT(BPF_LD | BPF_IMM, 0x12345678));
    code.back() = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return code;
}

sock_fprog view_of(std::vector<sock_filter>& code) {
    return {static_cast<unsigned short>(code.size()), code.data()};
}

void socket_filters(const Options& options) {
    std::vector<sock_filter> code = program_of(k_longest_of_socket);
    const sock_fprog program = view_of(code);
    std::uint64_t attached = 0;
    while (attached < options.max_count && !is_late()) {
        const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
            refused("filters");
            break;
        }
        ++attached;
    }
    taken("filters", attached);
    hold();
}

/// Processes that each install a chain of filters for themselves.
void seccomp_filters(const Options& options) {
    std::vector<sock_filter> code = program_of(k_longest_program);
    const sock_fprog program = view_of(code);
    const SharedCounter installed;
    const SharedCounter finished;
    for (std::uint64_t children = 1; installed.value() + k_filters_of_process <= options.max_count;
         ++children) {
        const int made = child([&] {
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            for (int i = 0; i < k_filters_of_process; ++i) {
                if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
                    installed.add(1);
            }
            finished.add(1);
        });
        if (made < 0) {
            refused("processes");
            break;
        }
        while (finished.value() < children && !is_late())
            ::sched_yield();
        if (is_late() || installed.value() < children * k_filters_of_process) {
            refused("filters", EINVAL);
            break;
        }
    }
    taken("filters", installed.value());
    hold();
}

const Registration k_filters{
    {"socket-filters", "--max-count filters, each of 2400 instructions on a socket of its own",
     socket_filters},
    {"seccomp-filters", "--max-count filters, seven in a process", seccomp_filters}};

}  // namespace
}  // namespace atl::attack
