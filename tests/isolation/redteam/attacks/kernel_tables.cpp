// Native asynchronous I/O, whose contexts all count towards fs.aio-max-nr, and pressure triggers, whose
// removal delays the end of a process.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
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

const Registration k_kernel_tables{
    {"aio", "--max-count contexts of 128 events", aio_contexts},
    {"pressure-triggers", "--max-count triggers for a shortage of memory", pressure_triggers}};

}  // namespace
}  // namespace atl::attack
