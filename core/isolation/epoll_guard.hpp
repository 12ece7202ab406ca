// Ends the sandbox that uses up the epoll registrations of a uid that it shares with the server (epoll(7),
// fs.epoll.max_user_watches): for a server that is not root. Meanwhile the server lives on
// base::EpollReserve. When the table is full, a process of ours counts the registrations of each sandbox's
// processes. The sandbox with the most is ended with class `oom` if it holds more than a sixteenth of the
// table. Not counted: an epoll set that no process has open because it is in flight through a socket
// (unix(7), SCM_RIGHTS).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/epoll_reserve.hpp"
#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/uid_leases.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/types.hpp"

namespace atl::isolation {

struct EpollGuardPorts {
    /// Each living sandbox, and the host's number of its process 1.
    std::function<std::vector<std::pair<std::string, pid_t>>()> processes;
    std::function<void(const std::string& sandbox_id, sandbox::Exit)> kill;
};

class EpollGuard {
  public:
    /// None where sandboxes have private uids: they then have tables of their own. Else as the constructor.
    static std::unique_ptr<EpollGuard> where_needed(UidMode mode, base::Executor executor,
                                                    base::Timers& timers, std::filesystem::path zygote,
                                                    EpollGuardPorts ports);
    /// `zygote` is atoll-zygote's path. Watches until it is destroyed.
    EpollGuard(base::Executor executor, base::Timers& timers, std::filesystem::path zygote,
               EpollGuardPorts ports);
    ~EpollGuard();
    EpollGuard(const EpollGuard&) = delete;
    EpollGuard& operator=(const EpollGuard&) = delete;

  private:
    struct Count;

    void check();
    void start_count();
    base::Result<Spawned> spawn_counter(const base::UniqueFd& output);
    void take_count();
    void judge(const std::string& text);

    base::Executor executor_;
    base::Timers& timers_;
    std::filesystem::path zygote_;
    EpollGuardPorts ports_;
    base::EpollReserve reserve_;
    std::unique_ptr<Count> count_;  // while a process counts
    base::TimerId timer_ = 0;
    bool was_full_ = false;
};

/// The offender of a count, if there is one: `text` is the output of atoll-zygote epoll-count, `table_size`
/// the value of fs.epoll.max_user_watches.
struct EpollOffender {
    pid_t pid = -1;
    std::uint64_t registrations = 0;
};
std::optional<EpollOffender> epoll_offender(const std::string& text, std::uint64_t table_size);

}  // namespace atl::isolation
