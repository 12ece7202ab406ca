// Confines this process and what it starts meanwhile, or another process, to one CPU.
#pragma once

#include <sched.h>
#include <sys/types.h>

namespace atl::bench {

enum class Cpu { first, last };  // of those that this process may use; the same one where there is no other

/// From construction to destruction; see sched_setaffinity(2). Throws std::system_error.
class OneCpu {
  public:
    explicit OneCpu(Cpu which = Cpu::first);
    OneCpu(const OneCpu&) = delete;
    OneCpu& operator=(const OneCpu&) = delete;
    ~OneCpu();

  private:
    cpu_set_t before_;
};

/// Confines the thread `pid` for good. Throws std::system_error.
void pin(pid_t pid, Cpu which);

}  // namespace atl::bench
