// Copies of directories that calls abandoned. The loop removes them one after the other, a piece at a time:
// the client of a copy of a million files may leave, and other calls do not wait for the removal. A copy that
// is left when the guest ends has a hidden name (new_file.hpp): the next guest's lists remove it. Not here:
// the removal that a client asks for.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "bridge/guest/loop.hpp"
#include "core/plain/tree_remover.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::guest {

class AbandonedCopies {
  public:
    /// Both must outlive it.
    AbandonedCopies(Loop& loop, const std::string& workspace) : loop_(loop), workspace_(workspace) {}
    /// A copy that was not removed yet stays.
    ~AbandonedCopies() { loop_.cancel(timer_); }
    AbandonedCopies(const AbandonedCopies&) = delete;
    AbandonedCopies& operator=(const AbandonedCopies&) = delete;

    /// Removes the folder `name` in `folder`; the first piece at once, if no other one is at work. It is
    /// moved to the workspace's top first, so that the caller can remove a `folder` that it made for it. It
    /// stays where no descriptor is left, and where a process goes on filling it.
    void take(int folder, std::string name);
    /// True while so many wait that a call which may add one has to wait, too. Each keeps a descriptor.
    bool is_full() const noexcept;

  private:
    struct Tree {
        base::UniqueFd folder;
        std::string name;
    };

    void step();

    Loop& loop_;
    const std::string& workspace_;
    std::deque<Tree> trees_;  // the first one is at work
    std::optional<base::TreeRemover> remover_;
    std::size_t left_ = 0;  // entries that the remover may still remove
    TimerId timer_ = 0;
};

}  // namespace atl::guest
