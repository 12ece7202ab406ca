// Reaps every process that ends inside the sandbox: the guest's own children and the orphans that the kernel
// hands to process 1 (pid_namespaces(7)). Who started a process learns how it ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace atl::guest {

/// How a process ended, as waitid(2) tells it.
struct Ending {
    bool signalled;
    int code;  // exit status or signal number

    /// The exit status as a shell tells it: 128 + signal number for signals.
    int exit_code() const noexcept { return signalled ? 128 + code : code; }
};

/// "exited with status 3", "was killed by SIGKILL".
std::string describe(const Ending& ending);
/// "SIGKILL"; "SIG64" for a signal without a name.
std::string signal_name(int signal_number);

class Children {
  public:
    using OnEnd = std::function<void(const Ending&)>;

    /// Calls `on_end` once from reap_all(), while `pid` is still a zombie: until it returns, the number can
    /// name no other process and no other process group.
    void watch(pid_t pid, OnEnd on_end) { watched_.emplace_back(pid, std::move(on_end)); }
    /// The callback is dropped; the process is reaped all the same.
    void forget(pid_t pid);
    /// True if somebody waits for the end of `pid`, which then runs or is a zombie.
    bool watches(pid_t pid) const;
    /// True if there is a child, running or a zombie. To process 1 every other one is a child, or below one.
    bool any() const;
    /// After SIGCHLD. Signals coalesce, so this takes all there is.
    void reap_all();

  private:
    std::vector<std::pair<pid_t, OnEnd>> watched_;
};

}  // namespace atl::guest
