// Native asynchronous I/O, whose contexts all count towards fs.aio-max-nr, and pressure triggers, whose
// removal delays the end of a process; and memberships of multicast groups, which are left one by one, under
// a lock of the whole kernel.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

constexpr unsigned k_events_of_context = 128;

void aio_contexts(const Options& options) {
    std::uint64_t made = 0;
    for (; made < options.max_count && !is_late(); ++made) {
        aio_context_t context = 0;
        if (::syscall(SYS_io_setup, k_events_of_context, &context) != 0) {
            refused("contexts");
            break;
        }
    }
    taken("contexts", made);
    hold();
}

void pressure_triggers(const Options& options) {
    constexpr char k_trigger[] = "some 500000 2000000";
    std::uint64_t made = 0;
    for (; made < options.max_count && !is_late(); ++made) {
        const int fd = ::open("/proc/pressure/memory", O_RDWR | O_CLOEXEC);
        if (fd < 0 || ::write(fd, k_trigger, sizeof k_trigger) < 0) {
            refused("triggers");
            break;
        }
    }
    taken("triggers", made);
    hold();
}

// So many to a socket as igmp_max_memberships lets it have.
constexpr std::uint32_t k_groups_of_socket = 20;

void memberships(const Options& options) {
    constexpr std::uint32_t k_first_group = 0xef00'0001;  // 239.0.0.1
    int fd = -1;
    std::uint64_t made = 0;
    for (; made < options.max_count && !is_late(); ++made) {
        if (made % k_groups_of_socket == 0)
            fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ip_mreqn group{};
        group.imr_multiaddr.s_addr = htonl(k_first_group + static_cast<std::uint32_t>(made));
        group.imr_ifindex = 1;  // the loopback
        if (fd < 0 || ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
            refused("memberships");
            break;
        }
    }
    taken("memberships", made);
    hold();
}

const Registration k_kernel_tables{
    {"memberships", "--max-count memberships of IPv4 multicast groups", memberships},
    {"aio", "--max-count contexts of 128 events", aio_contexts},
    {"pressure-triggers", "--max-count triggers for a shortage of memory", pressure_triggers}};

}  // namespace
}  // namespace atl::attack
