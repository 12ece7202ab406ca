// Asks the kernel to tell of events of a cgroup v1 memory group (cgroup-v1/memory.rst, section 9), by a
// process of our own: a write to cgroup.event_control that names a threshold waits for a grace period of RCU,
// 7 to 12 ms, too long for the loop. The eventfd stays the caller's; the other process only makes the write.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "core/base/unique_fd.hpp"
#include "core/isolation/waiting_process.hpp"

namespace atl::cgroup {

class EventArmer {
  public:
    /// `program` is atoll-zygote. Errors: sandbox_failed.
    static base::Result<EventArmer> start(const base::Executor& executor,
                                          const std::filesystem::path& program);
    /// Registers `events` for notifications of `file`, with `argument`, at the group whose
    /// cgroup.event_control is `control`. Returns 0 or errno: EAGAIN if too many requests wait. The kernel's
    /// answer is not reported. A dead armer process (the kernel may kill it for memory) is replaced; requests
    /// that it had not read are lost.
    int arm(int events, int file, int control, std::string_view argument);

  private:
    EventArmer(const base::Executor& executor, std::filesystem::path program,
               isolation::WaitingProcess process)
        : executor_(executor), program_(std::move(program)), process_(std::move(process)) {}

    base::Executor executor_;
    std::filesystem::path program_;
    std::optional<isolation::WaitingProcess> process_;  // none: it died and could not be replaced
};

}  // namespace atl::cgroup
