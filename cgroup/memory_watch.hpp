// Tells when the members of a group hold much of their memory limit, and when they wait for memory. By the
// kernel's own events, read as they happen:
//
//   v1  a threshold of memory.usage_in_bytes (armed by another process, event_armer.hpp) and
//       memory.pressure_level, "medium"
//   v2  memory.high at the mark; its count in memory.events shows that members reached the mark. The mark is
//       lifted as soon as it is reached, so that no member is throttled; from then on a trigger of
//       memory.pressure, which costs the kernel a thread
//
// Only memory that cannot be reclaimed at once counts: unused cached files are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cgroup/event_armer.hpp"
#include "cgroup/limit_files.hpp"
#include "core/base/clock.hpp"
#include "core/isolation/fd_watch.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

class MemoryWatch {
  public:
    /// `folder` and `armer` outlive this; without an armer the mark of v1 is found only under pressure.
    /// Begins a moment later, off the path of a create. A kernel that cannot tell is left unwatched.
    MemoryWatch(const base::Executor& executor, base::Timers& timers, ControllerFolder folder,
                EventArmer* armer, std::uint64_t limit_bytes, sandbox::MemoryWarning on_warning);
    ~MemoryWatch();
    MemoryWatch(const MemoryWatch&) = delete;
    MemoryWatch& operator=(const MemoryWatch&) = delete;

    void set_limit(std::uint64_t limit_bytes);

  private:
    void begin();
    void watch_mark();
    void watch_pressure();
    void on_mark();
    void drain_mark();
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
    EventArmer* armer_;
    std::uint64_t limit_bytes_;
    sandbox::MemoryWarning on_warning_;
    std::optional<isolation::FdWatch> mark_;      // the threshold's eventfd, or memory.events
    std::optional<isolation::FdWatch> pressure_;  // the level's eventfd, or memory.pressure
    bool awaits_mark_ = false;
    std::uint64_t times_met_ = 0;  // as memory.events counts
    base::TimerId begin_ = 0;
    base::TimerId mark_rest_ = 0;  // until then the mark is not told again
    base::TimerId pressure_rest_ = 0;
};

}  // namespace atl::cgroup
