// Trees that calls gave up, removed by the loop one after the other, a piece at a time: the client of a copy
// of a million files may leave, and nobody else waits for their end. What is left when the guest ends has a
// hidden name (new_file.hpp): the next guest's lists remove it. Not here: the removal that a client asks for.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "bridge/guest/loop.hpp"
#include "core/plain/tree_remover.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::guest {

class GivenUpTrees {
  public:
    /// Both must outlive it.
    GivenUpTrees(Loop& loop, const std::string& workspace) : loop_(loop), workspace_(workspace) {}
    /// What was not removed yet stays.
    ~GivenUpTrees() { loop_.cancel(timer_); }
    GivenUpTrees(const GivenUpTrees&) = delete;
    GivenUpTrees& operator=(const GivenUpTrees&) = delete;

    /// Removes the folder `name` in `folder`; the first piece at once, if no other one is at work. It goes to
    /// the workspace's top first, so that who made `folder` for it can take that back. It stays where no
    /// descriptor is left, and where a process goes on filling it.
    void take(int folder, std::string name);
    /// Whether so many wait that a call which may add one has to wait, too. Each keeps a descriptor.
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
    std::size_t left_ = 0;  // entries that it may still remove
    TimerId timer_ = 0;
};

}  // namespace atl::guest
