// Bounds for the ways out of sandboxes, over all listeners of a sandbox together: connections at a time, for
// a sandbox and for a user, since each of them is two connections of the server; connections a second; names
// that are looked up at a time; bytes in a turn of the loop. A rate delays requests; it refuses
// one, after a delay, only if that would wait for too long. Not here: the deadlines of one connection
// (core/plain/egress_limits.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/base/task.hpp"
#include "http/access/count_limiter.hpp"
#include "http/access/rate_limiter.hpp"
#include "http/proxy/tunnel.hpp"

namespace atl::http {

class EgressBounds {
  public:
    /// Whose shares a sandbox takes.
    using OwnerOf = std::function<base::ShareHolder(const std::string& sandbox_id)>;
    struct Totals {
        std::size_t connections;  // of the server
        unsigned user_share_percent = base::k_default_user_share_percent;
    };
    using Turn = std::function<void(base::Result<void>)>;

    /// The references, and what `owner_of` refers to, must outlive it.
    EgressBounds(const base::Executor& executor, const base::Clock& clock, base::Timers& timers,
                 OwnerOf owner_of, Totals totals);
    /// Drops the requests that wait, without an answer.
    ~EgressBounds();
    EgressBounds(const EgressBounds&) = delete;
    EgressBounds& operator=(const EgressBounds&) = delete;

    /// How long the next connection of the sandbox has to wait to be accepted.
    base::Millis pause(const std::string& sandbox_id) const;
    /// Counts a connection of the sandbox as long as the result lives. Errors: capacity; user_share.
    base::Result<std::shared_ptr<const void>> enter(const std::string& sandbox_id);
    /// Calls `done`, from inside the call or later, when the sandbox may look up one more name, connect to an
    /// upstream and make a handshake with it. Errors: capacity, user_share: its turn would come too late.
    void await_turn(const std::string& sandbox_id, Turn done);
    /// A place for a name that is looked up. Errors: capacity; user_share.
    base::Result<base::Share> look_up(const std::string& sandbox_id);
    /// The turns of all relays of the sandbox: the same object as long as one of them has it.
    std::shared_ptr<RelayTurns> turns(const std::string& sandbox_id);
    base::ShareHolder owner(const std::string& sandbox_id) const { return owner_of_(sandbox_id); }

    /// The budgets, for the table of all.
    const base::Budget& connections() const noexcept { return connections_; }
    const base::Budget& look_ups() const noexcept { return look_ups_; }

  private:
    /// Actions a second of sandboxes and of users.
    struct Rates {
        RateLimiter sandboxes;
        RateLimiter users;
    };
    struct Waiting {
        Turn done;
        base::TimerId timer = 0;
    };
    static Rates rates();
    static void count(Rates& rates, std::uint64_t sandbox, std::uint64_t user, base::SteadyTime now);

    base::Executor executor_;
    const base::Clock& clock_;
    base::Timers& timers_;
    const OwnerOf owner_of_;
    CountLimiter of_sandboxes_;
    base::Budget connections_;
    base::Budget look_ups_;
    Rates arrivals_ = rates();
    Rates requests_ = rates();
    std::list<Waiting> waiting_;
    std::map<std::string, std::weak_ptr<RelayTurns>> turns_;
};

}  // namespace atl::http
