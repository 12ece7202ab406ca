// Tells when the members of a group hold much of their memory limit, and when they wait for memory.
//
// v1: memory.usage_in_bytes, looked at once a second, and the kernel's event of memory.pressure_level,
// "medium". The kernel has an event for the mark, too, but to ask for it waits for a grace period of RCU.
//
// v2: memory.high at the mark, which is lifted as soon as it is met, so that nobody is slowed down: its count
// in memory.events tells. From then on a trigger of memory.pressure, which costs the kernel a thread.
//
// Only memory that cannot be reclaimed at once counts: unused cached files are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cgroup/limit_files.hpp"
#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

class MemoryWatch {
  public:
    /// `folder` outlives this. Begins a moment later, off the path of a create. A kernel that cannot tell is
    /// left unwatched.
    MemoryWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                std::uint64_t limit_bytes, sandbox::MemoryWarning on_warning);
    ~MemoryWatch();
    MemoryWatch(const MemoryWatch&) = delete;
    MemoryWatch& operator=(const MemoryWatch&) = delete;

    void set_limit(std::uint64_t limit_bytes);

  private:
    void begin();
    void watch_mark();
    void watch_usage();
    void watch_pressure();
    void on_mark();
    void on_pressure();
    void look();
    void await_mark();
    void await_pressure();
    void rest(base::TimerId& timer, base::Millis how_long, std::function<void()> then);
    bool set_mark() const;
    bool mark_was_met();
    void rest_of_mark();
    std::uint64_t mark_bytes() const;
    std::uint64_t held_bytes() const;
    void tell(std::string_view resource, std::uint64_t used_bytes);

    base::Executor executor_;
    base::Timers& timers_;
    ControllerFolder folder_;
    std::uint64_t limit_bytes_;
    sandbox::MemoryWarning on_warning_;
    std::optional<base::FdWatch> mark_;      // memory.events of v2
    std::optional<base::FdWatch> pressure_;  // the level's eventfd, or memory.pressure
    bool awaits_mark_ = false;
    std::uint64_t times_met_ = 0;  // as memory.events counts
    base::TimerId begin_ = 0;
    base::TimerId usage_rest_ = 0;  // of v1, until the next look
    base::TimerId mark_rest_ = 0;   // until then the mark is not told again
    base::TimerId pressure_rest_ = 0;
};

}  // namespace atl::cgroup
