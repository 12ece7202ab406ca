// A process of ours, atoll-zygote, that waits on a socket for its task and the descriptors of that task.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/spawn.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

class WaitingProcess {
  public:
    /// Starts `program` with `args`, `more_fds` from descriptor 3 on, in the v2 group `group_fd` if that is
    /// not negative. Errors: sandbox_failed.
    static base::Result<WaitingProcess> start(const std::filesystem::path& program,
                                              const std::vector<std::string>& args,
                                              const std::vector<int>& more_fds = {}, int group_fd = -1);
    WaitingProcess(WaitingProcess&&) noexcept = default;
    WaitingProcess& operator=(WaitingProcess&&) = delete;
    /// Kills it, unless it was released, and does not wait: its death may come a moment later.
    ~WaitingProcess();

    /// Sends a message (unix(7), SCM_RIGHTS). Returns 0 or errno, EAGAIN where too many wait to be read.
    /// Precondition: `fds` are one at least and k_max_zygote_fds at most.
    int send(std::string_view text, std::span<const int> fds) const;
    /// A socket of whole messages; its other end is the process's descriptor 0.
    int socket() const noexcept { return socket_.get(); }
    pid_t pid() const noexcept { return spawned_.pid; }
    /// It is its caller's from now on.
    Spawned release() { return std::move(spawned_); }

  private:
    WaitingProcess(Spawned spawned, base::UniqueFd socket)
        : spawned_(std::move(spawned)), socket_(std::move(socket)) {}

    Spawned spawned_;
    base::UniqueFd socket_;
};

}  // namespace atl::isolation
