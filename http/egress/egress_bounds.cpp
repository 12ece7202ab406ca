#include "http/egress/egress_bounds.hpp"

#include <algorithm>
#include <utility>

#include "core/plain/egress_limits.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::chrono::seconds k_bound_retry_after{1};

std::uint64_t rate_number(const std::string& name) {
    return std::hash<std::string>()(name);
}

base::BudgetSpec connections_spec(std::size_t of_server) {
    const std::uint64_t total = of_server / base::k_egress_connections_share;
    return {"egress_connections",
            "connections",
            "A program in a sandbox that closes a connection to its proxy gives room back.",
            total,
            std::min<std::uint64_t>(base::k_egress_connections_user_floor, total / 4),
            k_bound_retry_after};
}

constexpr base::BudgetSpec k_look_ups_spec{"egress_look_ups",
                                           "names",
                                           "A name whose look-up has ended gives its place back.",
                                           base::k_max_egress_look_ups,
                                           base::k_egress_look_ups_user_floor,
                                           k_bound_retry_after};

}  // namespace

EgressBounds::EgressBounds(const base::Executor& executor, const base::Clock& clock, base::Timers& timers,
                           OwnerOf owner_of, Totals totals)
    : executor_(executor),
      clock_(clock),
      timers_(timers),
      owner_of_(std::move(owner_of)),
      of_sandboxes_(base::k_egress_connections_of_sandbox),
      connections_(connections_spec(totals.connections), totals.user_share_percent),
      look_ups_(k_look_ups_spec, totals.user_share_percent) {}

EgressBounds::~EgressBounds() {
    for (const Waiting& waiting : waiting_)
        timers_.cancel(waiting.timer);
}

EgressBounds::Rates EgressBounds::rates() {
    return {{{base::k_egress_interval, base::k_egress_burst_of_sandbox}, base::k_max_egress_rates},
            {{base::k_egress_interval, base::k_egress_burst_of_user}, base::k_max_egress_rates}};
}

void EgressBounds::count(Rates& rates, std::uint64_t sandbox, std::uint64_t user, base::SteadyTime now) {
    rates.sandboxes.charge(sandbox, 1, now);
    rates.users.charge(user, 1, now);
}

base::Millis EgressBounds::pause(const std::string& sandbox_id) const {
    const base::SteadyTime now = clock_.steady_now();
    const auto wait = std::max(arrivals_.sandboxes.wait(rate_number(sandbox_id), now),
                               arrivals_.users.wait(rate_number(owner(sandbox_id).name()), now));
    return std::chrono::ceil<base::Millis>(wait);
}

base::Result<std::shared_ptr<const void>> EgressBounds::enter(const std::string& sandbox_id) {
    struct Held {
        CountLimiter::Lease lease;
        base::Share share;
    };
    const base::ShareHolder user = owner(sandbox_id);
    const std::uint64_t number = rate_number(sandbox_id);
    count(arrivals_, number, rate_number(user.name()), clock_.steady_now());
    auto lease = of_sandboxes_.take(number);
    if (!lease)
        return Error(Errc::capacity,
                     "This sandbox has the " + std::to_string(base::k_egress_connections_of_sandbox) +
                         " connections to its proxy that it may have.",
                     k_bound_retry_after);
    auto share = connections_.take(user, 1);
    if (share.has_error())
        return share.error();
    const auto held = std::make_shared<Held>();
    held->lease = std::move(*lease);
    held->share = std::move(*share);
    return std::shared_ptr<const void>(held);
}

void EgressBounds::await_turn(const std::string& sandbox_id, Turn done) {
    const base::SteadyTime now = clock_.steady_now();
    const std::uint64_t sandbox = rate_number(sandbox_id);
    const std::uint64_t user = rate_number(owner(sandbox_id).name());
    const auto of_sandbox = requests_.sandboxes.wait(sandbox, now);
    const auto of_user = requests_.users.wait(user, now);
    auto wait = std::max(of_sandbox, of_user);
    base::Result<void> outcome;
    if (wait > base::k_egress_turn_time) {
        outcome = Error(of_user > of_sandbox ? Errc::user_share : Errc::capacity,
                        of_user > of_sandbox ? "the sandboxes of this user make too many connections a second"
                                             : "this sandbox makes too many connections a second",
                        k_bound_retry_after);
        // A refusal at once would let a connection ask again without end.
        wait = k_bound_retry_after;
    } else {
        count(requests_, sandbox, user, now);
    }
    if (wait == wait.zero())
        return done(outcome);
    const auto at = waiting_.insert(waiting_.end(), Waiting{std::move(done)});
    at->timer = timers_.arm(std::chrono::ceil<base::Millis>(wait), [this, at, outcome] {
        const Turn turn = std::move(at->done);
        waiting_.erase(at);
        turn(outcome);
    });
}

base::Result<base::Share> EgressBounds::look_up(const std::string& sandbox_id) {
    return look_ups_.take(owner(sandbox_id), 1);
}

std::shared_ptr<RelayTurns> EgressBounds::turns(const std::string& sandbox_id) {
    if (auto known = turns_[sandbox_id].lock())
        return known;
    std::erase_if(turns_, [](const auto& entry) { return entry.second.expired(); });
    auto made = std::make_shared<RelayTurns>(executor_);
    turns_[sandbox_id] = made;
    return made;
}

}  // namespace atl::http
