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
// One more would exceed the kernel's limit on the filters of one process (seccomp(2), ENOMEM).
constexpr int k_filters_of_process = 7;

/// Allows everything, and is as long as a program may be.
const sock_fprog& long_program() {
    static std::vector<sock_filter> code = [] {
        std::vector<sock_filter> made(k_longest_program, BPF_STMT(BPF_LD | BPF_IMM, 0x12345678));
        made.back() = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        return made;
    }();
    static const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    return program;
}

void socket_filters(const Options& options) {
    std::uint64_t attached = 0;
    while (attached < options.max_count && !is_late()) {
        const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 ||
            ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &long_program(), sizeof(sock_fprog)) != 0) {
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
    const SharedCounter installed;
    const SharedCounter finished;
    for (std::uint64_t children = 1; installed.value() + k_filters_of_process <= options.max_count;
         ++children) {
        const int made = child([&] {
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            for (int i = 0; i < k_filters_of_process; ++i) {
                if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &long_program()) == 0)
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
    {"socket-filters", "--max-count filters, each of 4095 instructions on a socket of its own",
     socket_filters},
    {"seccomp-filters", "--max-count filters, seven in a process", seccomp_filters}};

}  // namespace
}  // namespace atl::attack
