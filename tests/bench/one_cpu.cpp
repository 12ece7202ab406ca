#include "tests/bench/one_cpu.hpp"

#include <cerrno>
#include <system_error>

namespace atl::bench {

OneCpu::OneCpu(Cpu which) {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0)
        throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &before_))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (which == Cpu::first)
            break;
    }
    if (::sched_setaffinity(0, sizeof one, &one) != 0)
        throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
}

OneCpu::~OneCpu() {
    ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace atl::bench
