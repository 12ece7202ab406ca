// A group: a folder of the same name in each hierarchy that the server uses. Its functions: kill, set limits,
// read counters, wait until it is empty, remove.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/freezer.hpp"
#include "cgroup/memory_watch.hpp"
#include "cgroup/oom_watch.hpp"
#include "cgroup/place.hpp"
#include "cgroup/process_watch.hpp"
#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {
class Zygote;
}

namespace atl::cgroup {

class Group final : public sandbox::ResourceGroup {
  public:
    /// Makes the group `name` in every place. Precondition: at least one place. Errors: sandbox_failed, and
    /// no group remains.
    static base::Result<std::unique_ptr<Group>> make(base::Executor executor, base::Timers& timers,
                                                     const Places& places, std::string name);
    /// The group `name` of an earlier run, where it still is. Errors: sandbox_failed if it is nowhere.
    static base::Result<std::unique_ptr<Group>> open(base::Executor executor, base::Timers& timers,
                                                     const Places& places, std::string name);
    /// Kills the remaining members, and removes the group if it is empty at once; otherwise the next start
    /// removes it.
    ~Group() override;

    int clone_into_fd() const override;
    base::Result<std::shared_ptr<sandbox::PreparedProcess>> take_prepared_process() override;
    void kill() override;
    void freeze(std::function<void(base::Result<void>)> done) override;
    base::Result<void> thaw() override;
    void remove(std::function<void(base::Result<void>)> done) override;
    base::Result<void> set_limits(const sandbox::Limits& limits) override;
    void watch_oom(std::function<void()> on_oom) override;
    void watch_memory(sandbox::MemoryWarning on_warning) override;
    void watch_processes(sandbox::ProcessWarning on_warning) override;
    bool is_crowded() const override { return process_watch_ && process_watch_->is_crowded(); }
    bool is_oom_suspected() const override { return oom_watch_ && oom_watch_->is_suspicious(); }
    std::uint64_t oom_kills() const override;
    sandbox::Usage usage() const override;
    std::vector<pid_t> members() const override;
    std::optional<std::uint64_t> held_bytes() const override;

    /// `cgroup.procs` of each v1 hierarchy, open for writing. Errors: sandbox_failed.
    base::Result<std::vector<base::UniqueFd>> open_procs() const;
    /// Where v1 needs them: starts a zygote of `program` now, and further ones when they are asked for.
    /// Errors: sandbox_failed.
    base::Result<void> start_zygote(std::filesystem::path program);
    bool is_empty() const;
    /// The host uids of its members that belong to sandboxes.
    std::vector<std::uint32_t> host_uids() const;

  private:
    struct Part {
        std::shared_ptr<base::UniqueFd> parent;
        base::UniqueFd folder;
        int version = 2;
    };

    using FreezerFolder = ControllerFolder;

    Group(base::Executor executor, base::Timers& timers, std::string name);
    base::Result<void> add_part(const Place& place);
    bool open_part(const Place& place);
    FreezerFolder find_freezer() const;
    void try_remove();
    void await_empty();
    void await_retry();
    bool remove_parts();
    void finish(base::Result<void> result);

    base::Executor executor_;
    base::Timers& timers_;
    std::string name_;
    std::vector<Part> parts_;  // the first counts and kills members
    ControllerFolders controllers_;
    std::filesystem::path zygote_program_;  // empty: none is needed
    std::shared_ptr<isolation::Zygote> zygote_;
    std::optional<OomWatch> oom_watch_;
    std::optional<MemoryWatch> memory_watch_;
    std::optional<ProcessWatch> process_watch_;
    std::optional<Freezer> freezer_;
    std::uint64_t memory_bytes_ = 0;       // the limit
    std::optional<base::FdWatch> events_;  // cgroup.events of v2
    std::function<void(base::Result<void>)> done_;
    base::TimerId deadline_ = 0;
    base::TimerId retry_ = 0;
    base::Millis retry_pause_{};
};

}  // namespace atl::cgroup
