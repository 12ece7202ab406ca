// Groups of processes by cgroup v2, v1, or both (cgroups(7)): each generation of a sandbox has one group,
// which limits it, accounts it and ends all of it at once. Layout: PLACE/atoll-INSTANCE/NAME in each
// hierarchy (place.hpp). Where v1 is needed a group is made ahead with a zygote in it, since joining is slow;
// its name is a number then. Invariants: only groups that this server made are touched; a group is removed
// only when it is empty; a limit that is not enforced is reported. Not here: the choice of members (the
// launcher starts its child in the group).
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/group.hpp"
#include "cgroup/hierarchy.hpp"
#include "cgroup/place.hpp"
#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/base/task.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::cgroup {

struct GroupsConfig {
    std::string instance_id;
    std::filesystem::path zygote;  // atoll-zygote
    std::size_t made_ahead = base::k_groups_made_ahead;
};

class Groups final : public sandbox::ResourceGroups {
  public:
    /// Makes this server's own folders, and ends and removes the groups that an earlier run left there.
    /// take_leftovers() has the groups that do not end within base::k_kill_deadline. A host without a place
    /// is no error: create() then returns null pointers. `timers` outlives this and all its groups.
    static base::Result<std::unique_ptr<Groups>> open(base::Executor executor, base::Timers& timers,
                                                      GroupsConfig config,
                                                      const Layout& layout = find_layout());
    /// Not from inside the loop: it waits, within a bound, until the zygotes of prepared groups have ended.
    ~Groups() override;

    /// `name` is a file name. Errors: sandbox_failed.
    base::Result<std::unique_ptr<sandbox::ResourceGroup>> create(const std::string& name,
                                                                 const sandbox::Limits& limits) override;
    std::vector<sandbox::StaleGroup> take_leftovers() override { return std::move(leftovers_); }
    std::span<const sandbox::StaleGroup> leftovers() const override { return leftovers_; }
    void describe(sandbox::Enforcement& enforcement) const override;
    std::string_view freezer() const override { return freezer_; }
    std::optional<std::uint64_t> cpu_usec() const override;
    const Places& places() const noexcept { return places_; }
    /// Starts to make groups ahead, where that is needed. Call when the server is ready to serve.
    void make_ahead();

  private:
    Groups(base::Executor executor, base::Timers& timers, GroupsConfig config, Places places);
    bool needs_zygotes() const;
    base::Result<std::unique_ptr<Group>> make_with_zygote();
    void find_leftovers();
    void give_up(std::unique_ptr<Group> group);

    base::Executor executor_;
    base::Timers& timers_;
    GroupsConfig config_;
    Places places_;
    std::string_view freezer_ = "none";
    std::deque<std::unique_ptr<Group>> ahead_;
    std::vector<sandbox::StaleGroup> leftovers_;
    std::map<std::uint64_t, std::unique_ptr<Group>> given_up_;  // of creates that failed, while they end
    std::vector<std::uint64_t> ended_;                          // of given_up_, to be forgotten
    std::uint64_t last_given_up_ = 0;
    std::uint64_t last_number_ = 0;
    base::TimerId refill_ = 0;
};

}  // namespace atl::cgroup
