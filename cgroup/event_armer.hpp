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
    /// Has `events` signalled as `file` of the group whose cgroup.event_control is `control` and `argument`
    /// say. 0 or errno, EAGAIN where too many wait to be armed; what the kernel answers is not told. A
    /// process that has died (the kernel may kill it for memory) is replaced; what it had not read is lost.
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
