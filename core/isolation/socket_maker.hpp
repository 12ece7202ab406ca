// Sockets in the net namespace of a sandbox for a server that may not come back from there (one that is not
// root, with subordinate ids or without). The user namespace of the sandbox is this server's own, or its
// user's, so a process of ours for each sandbox may join it: `atoll-zygote sockets`, which makes sockets and
// passes them (unix(7), SCM_RIGHTS). Some are kept ahead, so that a connection does not wait for it. No
// program of the sandbox sees that process: it is in another pid namespace. Nothing that a program inside has
// made comes this way.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/fd_watch.hpp"
#include "core/isolation/waiting_process.hpp"

namespace atl::isolation {

class SocketMaker {
  public:
    /// `program` is atoll-zygote, `net` the net namespace of a sandbox (namespaces(7)). `kept` counts the
    /// sockets that wait here. `timers` outlives this. Errors: sandbox_failed.
    static base::Result<std::unique_ptr<SocketMaker>> start(const base::Executor& executor,
                                                            base::Timers& timers,
                                                            const std::filesystem::path& program,
                                                            const base::UniqueFd& net,
                                                            std::shared_ptr<std::uint32_t> kept);
    /// Who waits is told, later and from the loop.
    ~SocketMaker();
    SocketMaker(const SocketMaker&) = delete;
    SocketMaker& operator=(const SocketMaker&) = delete;

    /// True if take() has a socket of each family that the host has, or never will have one again.
    bool is_ready() const noexcept { return broken_ || (!ipv4_.empty() && (!ipv6_.empty() || lacks_ipv6_)); }
    /// Calls `ready` once, from the loop, when it is worth to ask is_ready() again.
    void await(std::function<void()> ready) { waiters_.push_back(std::move(ready)); }
    /// True if the helper said so: the kernel does not let it into the namespace. One that was killed says
    /// nothing.
    bool could_not_join() const noexcept { return could_not_join_; }
    /// A TCP socket of AF_INET or AF_INET6, non-blocking. Errors: capacity, for the moment; host_unsupported.
    base::Result<base::UniqueFd> take(int family);

  private:
    SocketMaker(const base::Executor& executor, base::Timers& timers, WaitingProcess process,
                base::UniqueFd socket, std::shared_ptr<std::uint32_t> kept);

    void ask();
    void on_answer();
    bool read_answer();
    void end_wait();

    base::Executor executor_;
    base::Timers& timers_;
    WaitingProcess process_;
    base::FdWatch socket_;
    std::shared_ptr<std::uint32_t> kept_;
    std::vector<base::UniqueFd> ipv4_;
    std::vector<base::UniqueFd> ipv6_;
    std::vector<std::function<void()>> waiters_;
    base::TimerId deadline_ = 0;  // 0: nothing is asked for
    bool lacks_ipv6_ = false;     // the helper could make none: the host has no IPv6, or a filter forbids it
    bool broken_ = false;
    bool could_not_join_ = false;
};

}  // namespace atl::isolation
