// Counts the sockets of living sandboxes and reports the first count above a limit. The kernel charges a part
// of a socket's memory to no cgroup, so the count bounds that memory. The pace bounds the growth between two
// counts: while all sandboxes together use little processor time, none can have opened and filled many
// sockets, and the watch reads only that one number. A count that connections of the server can explain,
// which the kernel ends some time after their close, has to be seen twice. Not here: reading a count
// (Process::sockets), ending a sandbox (Manager).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::sandbox {

struct SocketExcess {
    enum class Kind : std::uint8_t { all, netlink };
    Kind kind = Kind::all;
    std::uint32_t count = 0;
    std::uint32_t limit = 0;
};

class SocketWatch {
  public:
    /// Processor time of all sandboxes, as ResourceGroups::cpu_usec().
    using CpuUsec = std::function<std::optional<std::uint64_t>()>;
    using OnExcess = std::function<void(const std::string& id, const SocketExcess& excess)>;

    SocketWatch(base::Timers& timers, CpuUsec cpu_usec, OnExcess on_excess);
    ~SocketWatch();
    SocketWatch(const SocketWatch&) = delete;
    SocketWatch& operator=(const SocketWatch&) = delete;

    /// Until unwatch(), which comes before the end of `process`, or until the excess was told.
    void watch(const std::string& id, const Process& process, std::uint32_t limit);
    /// Ignored if the sandbox is not watched.
    void set_limit(const std::string& id, std::uint32_t limit);
    void unwatch(const std::string& id);
    /// Counts so far, for tests and metrics.
    std::uint64_t counts() const noexcept { return counts_; }

  private:
    struct Entry {
        const Process* process;
        std::uint32_t limit;
        base::TimerId second_count = 0;  // armed while the first count waits for it
    };
    using Entries = std::map<std::string, Entry>;

    void tick();
    bool is_due();
    void walk();
    std::optional<SocketExcess> excess_of(const Entry& entry);
    void count_again(Entries::iterator at);
    void tell(Entries::iterator at, const SocketExcess& excess);

    base::Timers& timers_;
    CpuUsec cpu_usec_;
    OnExcess on_excess_;
    Entries entries_;
    base::TimerId tick_timer_ = 0;
    base::TimerId walk_timer_ = 0;  // while a walk goes on
    std::string walked_to_;
    std::uint64_t cpu_at_walk_ = 0;
    base::Millis since_blind_walk_{0};
    std::uint64_t counts_ = 0;
};

}  // namespace atl::sandbox
