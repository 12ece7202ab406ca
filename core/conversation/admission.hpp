// Who may start a sandbox now, and who has to wait until another one has ended for it. A start goes ahead at
// once where there is room; else what can be spared is ended (evicted) and the start waits for that end, in
// the order in which they came; and where nothing can be spared it is refused (capacity). Pure: what room is
// and who can be spared come from outside.
//
// Invariants: every start that is not cancelled is answered once; one start evicts as many as it is worth at
// most, and whatever was only started ahead before that; nothing is evicted while there is room.
// Internal to core/conversation.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

class Admission {
  public:
    /// Success: start it in this call. Errors: capacity, shutting_down.
    using Go = std::function<void(base::Result<void>)>;
    struct Ports {
        std::function<base::Result<void>(const sandbox::Limits&)> room;
        /// Begins to end one that was only started ahead and names it, as evict() does. None: there is none.
        std::function<std::optional<std::string>()> shrink_pool;
        /// How many evictions such a start is worth: 0 where they would not help.
        std::function<std::size_t(const sandbox::Limits&)> worth_evicting;
        /// Begins to end the sandbox that can be spared best and names it; ended() follows. None: nothing can
        /// be spared.
        std::function<std::optional<std::string>()> evict;
        /// Whether shrink_pool() or evict() would find one.
        std::function<bool()> can_evict;
        /// The error for who cannot wait: `why`, perhaps with a time after which to try again.
        std::function<base::Error(const base::Error& why)> refusal;
    };

    explicit Admission(Ports ports) : ports_(std::move(ports)) {}

    /// Whether a start with these limits would go ahead, now or after an eviction. Errors: capacity,
    /// shutting_down.
    base::Result<void> has_place(const sandbox::Limits& limits) const;
    /// Whether a start with these limits would go ahead now, with nobody ended for it or waiting before it.
    /// Errors: capacity, shutting_down.
    base::Result<void> has_capacity(const sandbox::Limits& limits) const;
    /// `go` is called once, possibly from inside this call, unless the start is cancelled. `id` names it.
    void admit(const std::string& id, const sandbox::Limits& limits, Go go);
    /// False if no start of this name waits.
    bool cancel(const std::string& id);
    bool waits(const std::string& id) const;
    bool is_idle() const noexcept { return waiting_.empty(); }
    /// A sandbox has ended, or could not be started: there may be room.
    void ended(const std::string& sandbox_id);

  private:
    struct Waiting {
        std::string id;
        sandbox::Limits limits;
        Go go;
        std::size_t evictions = 0;
    };

    void pump();

    Ports ports_;
    std::deque<Waiting> waiting_;
    std::set<std::string> ending_;  // evicted and not ended yet
    bool pumping_ = false;
};

}  // namespace atl::conversation
