// The workspaces on disk: `DATA/workspaces/ID`, mode 0700, owned by the sandbox's uid. A removed workspace is
// first renamed into `DATA/trash`, out of reach at once, and then deleted by the helper process
// (removals.hpp). Where the file system has project quotas, a workspace is a project whose number is the
// sandbox's uid: leased host-wide, not used again until its last file is gone, and stored in the folder
// itself. So no other record is needed. The limit is cleared at the move into the trash; after a crash the
// next start clears it. A workspace that the store may not have yet has a mark, the empty file
// `DATA/unclaimed/ID`: it is made before the workspace and removed after the commit of the sandbox's record.
// The marks are not in the database, because a database from a backup would call workspaces unclaimed that
// were claimed later. Invariants: host code never opens a file in a workspace; a start empties the trash and
// removes marked workspaces that the store does not know; it keeps all other unknown workspaces
// (orphans.hpp). Not here: when a workspace is measured, and the judgement of its size (disk_meter.hpp).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/clock.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/ports.hpp"
#include "fs-guard/disk_meter.hpp"
#include "fs-guard/helper_client.hpp"
#include "fs-guard/orphans.hpp"
#include "fs-guard/project_quota.hpp"
#include "fs-guard/removals.hpp"

namespace atl::fs_guard {

class Workspaces final : public sandbox::DiskGuard {
  public:
    /// Makes the folders where they are missing. `data_dir` is the working directory of `remover`; all
    /// outlive this. `removals`: the budget of trees in the trash. Errors: storage_failed.
    static base::Result<std::unique_ptr<Workspaces>> open(const std::filesystem::path& data_dir,
                                                          HelperClient& remover, DiskMeter& meter,
                                                          base::Timers& timers, base::Budget& removals);

    base::Result<std::filesystem::path> provision(const std::string& sandbox_id,
                                                  std::uint32_t host_uid) override;
    void claim(const std::string& sandbox_id) override { unmark(sandbox_id); }
    bool has_workspace(const std::string& sandbox_id) const override { return owner(sandbox_id).has_value(); }
    std::filesystem::path workspace(const std::string& sandbox_id) const override;
    void watch(const std::string& sandbox_id, const base::ShareHolder& user, std::uint32_t limit_mb,
               std::function<void(sandbox::Exit)> on_excess,
               std::function<void(std::uint64_t, std::uint64_t)> on_warning) override;
    void set_limit(const std::string& sandbox_id, std::uint32_t limit_mb) override;
    void unwatch(const std::string& sandbox_id) override;
    base::Result<void> may_start(const std::string& sandbox_id, std::uint32_t limit_mb) const override;
    std::optional<sandbox::DiskUsage> usage(const std::string& sandbox_id) const override;
    void check_room(const std::string& sandbox_id, std::optional<std::uint64_t> bytes,
                    std::function<void(base::Result<void>)> done) override;
    base::Result<void> remove(const std::string& sandbox_id, const base::ShareHolder& user,
                              std::function<void(base::Result<void>)> done) override;
    base::Result<void> room_for(const base::ShareHolder& user) const override;
    base::Result<void> room_to_write(const base::ShareHolder& user) const override {
        return meter_.room_for(user);
    }
    void set_user(const std::string& sandbox_id, const base::ShareHolder& user) override {
        meter_.set_user(sandbox_id, user);
    }
    void measure_at_rest(const std::string& sandbox_id, const base::ShareHolder& user) override {
        meter_.measure_at_rest(sandbox_id, user);
    }
    bool is_busy_at_rest() const override { return meter_.is_busy_at_rest(); }
    bool is_short() const override { return meter_.is_short(); }
    void describe(sandbox::Enforcement& enforcement, const std::string& sandbox_id) const override;

    using Sweep = sandbox::Sweep;
    base::Result<Sweep> sweep(sandbox::SweepCalls calls) override;
    base::Result<void> each_workspace(
        const std::function<base::Result<void>(const std::string& sandbox_id)>& visit) const override;
    std::optional<std::uint32_t> owner(const std::string& sandbox_id) const override;
    base::Result<void> give_to(const std::string& sandbox_id, std::uint32_t host_uid) override;
    base::Result<std::vector<std::string>> owned_by(
        const std::vector<std::uint32_t>& host_uids) const override;

    /// The size as the quota counts it, at once; none for a workspace without a quota, which has to be
    /// walked.
    std::optional<TreeSize> counted(const std::string& sandbox_id) const;
    /// The size as the quota counts it, or else as `measurer` finds it. Answers later. Errors:
    /// storage_failed.
    void measure(const std::string& sandbox_id, HelperClient& measurer,
                 std::function<void(base::Result<TreeSize>)> done) const;

    /// Where the workspace is below the data directory.
    static std::string folder_name(const std::string& sandbox_id);

  private:
    struct Folders {
        base::UniqueFd workspaces;
        base::UniqueFd trash;
        base::UniqueFd unclaimed;
        Orphans orphans;
    };

    Workspaces(std::filesystem::path data_dir, HelperClient& remover, DiskMeter& meter, base::Timers& timers,
               base::Budget& removals, Folders folders);
    base::Result<void> make_workspace(const std::string& sandbox_id, std::uint32_t host_uid);
    base::Result<void> mark(const std::string& sandbox_id);
    void unmark(const std::string& sandbox_id);
    struct Marked;
    base::Result<void> sort_out(const sandbox::SweepCalls& calls, Sweep& sweep);
    base::Result<void> keep(const sandbox::SweepCalls& calls, const std::string& name, Sweep& sweep);
    void put_aside(const std::string& name, Marked& marked, Sweep& sweep);
    base::Result<void> give_back(const sandbox::SweepCalls& calls, Sweep& sweep);
    std::vector<std::uint32_t> empty_trash(std::function<void(base::Result<void>)> done);
    /// False with errno.
    bool move_to_trash(const std::string& name, std::string& trash_name);
    void open_quota();
    base::Result<void> join_project(const std::string& sandbox_id, std::uint32_t project);
    /// The project that the folder has. None for a workspace from before the quotas, and without a workspace.
    std::optional<std::uint32_t> stored_project(const std::string& sandbox_id) const;
    /// The same from memory for one that is watched; none if the workspace is measured.
    std::optional<std::uint32_t> project(const std::string& sandbox_id) const;
    bool set_quota(const std::string& sandbox_id, std::uint64_t limit_bytes);
    void clear_quota(std::uint32_t project);

    std::filesystem::path data_dir_;
    Removals removals_;
    DiskMeter& meter_;
    base::Timers& timers_;
    base::UniqueFd workspaces_;
    base::UniqueFd trash_;
    base::UniqueFd marks_;
    Orphans orphans_;
    std::unordered_set<std::string> unclaimed_;                // marks of this run
    std::optional<ProjectQuota> quota_;                        // none: all are measured
    std::unordered_map<std::string, std::uint32_t> projects_;  // of the watched workspaces with a project
    std::unordered_set<std::string> measured_;  // workspaces without a project, where there are quotas
};

}  // namespace atl::fs_guard
