#include "tests/bench/one_cpu.hpp"

#include <cerrno>
#include <system_error>

namespace atl::bench {
namespace {

cpu_set_t affinity_of(pid_t pid) {
    cpu_set_t cpus;
    if (::sched_getaffinity(pid, sizeof cpus, &cpus) != 0)
        throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
    return cpus;
}

void confine(pid_t pid, const cpu_set_t& all, Cpu which) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (which == Cpu::first)
            break;
    }
    if (::sched_setaffinity(pid, sizeof one, &one) != 0)
        throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
}

// The CPUs that this program was started with. It may give them to others while it is confined itself.
const cpu_set_t k_all = affinity_of(0);

}  // namespace

void pin(pid_t pid, Cpu which) {
    confine(pid, k_all, which);
}

OneCpu::OneCpu(Cpu which) : before_(affinity_of(0)) {
    confine(0, before_, which);
}

OneCpu::~OneCpu() {
    ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace atl::bench
