// Decides which start of a sandbox goes ahead now, and which one waits until another sandbox has ended for
// it. A start goes ahead at once where there is room. Otherwise sandboxes that can be spared are ended
// (evicted), and the start waits for these ends; starts go ahead in the order in which they came. Where
// nothing can be spared the start is refused (capacity). A start beyond the share of its user evicts that
// user's sandboxes alone, and none where too few can be evicted; then it is refused (user_share). No start of
// another user waits behind it. Pure: the room and the victims come from outside.
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

/// The sandboxes that can be evicted. `of`: only those of this user; null: anybody's.
class Victims {
  public:
    virtual ~Victims() = default;
    struct Outlook {
        bool is_possible = false;                  // enough can be evicted for the start
        std::optional<base::Millis> soonest = {};  // until the next one can be; none: not known
    };
    /// For `of` null one sandbox is enough; for a user it takes what brings the start within the share.
    virtual Outlook look(const sandbox::Demand& demand, const base::ShareHolder* of) const = 0;
    /// Begins to end the best victim and names its sandbox: for `of` null one of the user who holds most.
    /// Returns nothing where there is no victim.
    virtual std::optional<std::string> evict(const base::ShareHolder* of) = 0;
};

class Admission {
  public:
    /// Success: start it in this call. Errors: user_share, capacity, shutting_down.
    using Go = std::function<void(base::Result<void>)>;
    struct Ports {
        std::function<base::Result<void>(const sandbox::Demand&)> room;
        /// Begins to end a sandbox that was only started ahead and names it; ended() follows. Returns
        /// nothing where there is none.
        std::function<std::optional<std::string>()> shrink_pool;
        std::function<bool()> can_shrink_pool;
        /// The number of evictions that such a start is worth: 0 where they would not help.
        std::function<std::size_t(const sandbox::Limits&)> worth_evicting;
        Victims& victims;
    };

    explicit Admission(Ports ports) : ports_(std::move(ports)) {}

    /// Succeeds if a start would go ahead, now or after an eviction. Errors: user_share, capacity,
    /// shutting_down.
    base::Result<void> check_capacity(const sandbox::Demand& demand) const;
    /// Succeeds if a start would go ahead now, with no eviction and no other start before it. Errors: those
    /// of check_capacity().
    base::Result<void> has_capacity(const sandbox::Demand& demand) const;
    /// `go` is called once, possibly from inside this call, unless the start is cancelled. `id` names it.
    void admit(const std::string& id, const sandbox::Demand& demand, Go go);
    /// False if no start of this name waits.
    bool cancel(const std::string& id);
    bool waits(const std::string& id) const;
    bool is_idle() const noexcept { return waiting_.empty(); }
    /// A sandbox has ended, or could not be started: there may be room.
    void ended(const std::string& sandbox_id);

  private:
    struct Waiting {
        std::string id;
        sandbox::Demand demand;
        Go go;
        std::size_t evictions = 0;
        std::string own{};  // evicted for it, of the same user; empty: none
    };

    void pump();
    bool pump_once();
    enum class Whose : std::uint8_t { own, any };
    /// Evicts for a start that finds no room. Returns false where nobody can be evicted, or enough end
    /// already.
    bool evict_for(Waiting& waiting, Whose whose);
    /// The error for a start that cannot wait: `why`, perhaps with a time after which to try again.
    base::Error refusal_of(const sandbox::Demand& demand, const base::Error& why) const;

    Ports ports_;
    std::deque<Waiting> waiting_;
    std::set<std::string> ending_;  // evicted and not ended yet
    bool pumping_ = false;
};

}  // namespace atl::conversation
