// Ends what earlier turns and programs left running, when there is no room for another process. A stray is a
// process inside that belongs to nothing which the guest started and which still runs: neither one of those,
// nor of the session of one, nor a descendant of one. So an agent, its tools, the programs of open `exec`
// connections and kept processes stay.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "bridge/guest/children.hpp"
#include "bridge/guest/loop.hpp"
#include "bridge/guest/proc_scan.hpp"

namespace atl::guest {

/// A process that takes longer to die is not waited for.
inline constexpr Millis k_stray_deadline{2000};

class Strays {
  public:
    using Done = std::function<void(std::size_t ended)>;

    /// Both outlive this. `max_processes` as in GuestOptions.
    Strays(Loop& loop, const Children& children, std::uint64_t max_processes)
        : loop_(loop), children_(children), max_processes_(max_processes) {}
    ~Strays() { loop_.cancel(timer_); }
    Strays(const Strays&) = delete;
    Strays& operator=(const Strays&) = delete;

    /// True if at most 1/base::k_crowded_share of the limit is free: a program may soon be refused a process
    /// of its own. False where the server counts processes itself: then a query tells.
    bool is_crowded() const;
    /// Kills every stray, also those that are forked meanwhile. `done` is called once, from the loop, when
    /// all are reaped or after k_stray_deadline, with how many there were. A guest that is not process 1 sees
    /// processes of others and ends none.
    void end(Done done);

  private:
    bool is_stray(const SeenProcesses& seen, pid_t pid) const;
    std::size_t kill_all();
    void look();

    Loop& loop_;
    const Children& children_;
    const std::uint64_t max_processes_;
    std::vector<Done> waiting_;
    std::set<std::pair<pid_t, std::uint64_t>> killed_;
    std::chrono::steady_clock::time_point deadline_{};
    TimerId timer_ = 0;
};

}  // namespace atl::guest
