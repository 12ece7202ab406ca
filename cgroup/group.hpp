// One cgroup v2 group: kill, wait until empty, remove.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.hpp"
#include "core/isolation/fd_watch.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

/// Kills every member of the group whose folder is `group`, also those that fork meanwhile: by cgroup.kill,
/// before Linux 5.14 by signalling until no one is left. Safe to repeat.
void kill_members(int group);

/// True if a process is left in the group or below it (cgroup.events, `populated`).
bool is_populated(int events_fd);

class Group final : public sandbox::ResourceGroup {
  public:
    /// Takes over the group `name` that was just made below `parent`. Errors: sandbox_failed.
    static base::Result<std::unique_ptr<Group>> open(base::Executor executor, base::Timers& timers,
                                                     std::shared_ptr<base::UniqueFd> parent,
                                                     std::string name);
    /// Kills what is left and removes the group if that empties it at once; else the next start does.
    ~Group() override;

    int clone_into_fd() const override { return folder_.get(); }
    std::span<const int> procs_fds() const override { return {}; }
    void kill() override { kill_members(folder_.get()); }
    void remove(std::function<void(base::Result<void>)> done) override;

  private:
    Group(base::Executor executor, base::Timers& timers, std::shared_ptr<base::UniqueFd> parent,
          std::string name, base::UniqueFd folder, base::UniqueFd events);
    void try_remove();
    void await_empty();
    void await_retry();
    void finish(base::Result<void> result);

    base::Timers& timers_;
    std::shared_ptr<base::UniqueFd> parent_;
    std::string name_;
    base::UniqueFd folder_;
    isolation::FdWatch events_;
    std::function<void(base::Result<void>)> done_;
    base::TimerId deadline_ = 0;
    base::TimerId retry_ = 0;
    bool removed_ = false;
};

}  // namespace atl::cgroup
