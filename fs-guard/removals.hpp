// Removes the trees in the trash. Users take turns, a slice of time for each, and so do the trees of one
// user: nobody's tree waits for the whole of a neighbour's, which may have a million folders. A tree counts
// against its user until it is gone.
// Not here: the move into the trash (workspaces.hpp), the removal itself (core/plain/tree_remover.hpp).
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "core/base/ending_limits.hpp"
#include "core/base/error.hpp"
#include "core/base/fair_queue.hpp"
#include "core/base/shares.hpp"
#include "fs-guard/helper_client.hpp"

namespace atl::fs_guard {

class Removals {
  public:
    using Done = std::function<void(base::Result<void>)>;

    /// `remover` and `budget` outlive this.
    Removals(HelperClient& remover, base::Budget& budget, base::Millis slice = base::k_removal_slice)
        : remover_(remover), budget_(budget), slice_(slice) {}

    /// `path` as for HelperClient::remove(), of a tree that is taken for `bytes`. `done` is called when the
    /// last byte of the tree is freed. Errors: storage_failed; then a part of it may be left.
    void add(const base::ShareHolder& user, std::uint64_t bytes, std::string path, Done done);
    /// Errors: user_share, capacity, while trees of this user, or of all, fill their part of the budget.
    base::Result<void> room_for(const base::ShareHolder& user) const;

  private:
    using Run = base::FairQueue::Run;
    struct Tree {
        base::ShareHolder user;
        std::string path;
        Done done;
        base::Share share;
    };

    void enter(Run run);
    void remove_next();
    void on_slice(Run run, const base::Result<bool>& is_gone);

    HelperClient& remover_;
    base::Budget& budget_;
    const base::Millis slice_;
    base::FairQueue queue_{{.running = 1, .running_per_user = 1, .waiting_per_user = SIZE_MAX}};
    std::unordered_map<Run, Tree> trees_;
    Run last_ = 0;
};

}  // namespace atl::fs_guard
