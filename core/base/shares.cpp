#include "core/base/shares.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/base/ending_limits.hpp"
#include "core/base/execution_limits.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::base {

Budget::~Budget() {
    assert(used_ == 0 && holders_.empty());
}

std::uint64_t Budget::held_by(const ShareHolder& holder) const {
    const auto found = holders_.find(holder.name());
    return found == holders_.end() ? 0 : found->second.amount;
}

std::uint64_t Budget::most_held(const ShareHolder& beside) const {
    std::uint64_t most = 0;
    for (const auto& [name, held] : holders_)
        most = name == beside.name() ? most : std::max(most, held.amount);
    return most;
}

// The most x with held + x <= P/100 * (total - what others hold), where that is held + free.
std::uint64_t Budget::room_beside(std::uint64_t held, std::uint64_t used) const noexcept {
    const std::uint64_t free = spec_.total - std::min(used, spec_.total);
    const std::uint64_t may_hold = std::max(spec_.floor, (held + free) * user_percent_ / 100);
    return std::min(free, may_hold - std::min(held, may_hold));
}

Error Budget::refusal_beside(std::uint64_t held, std::uint64_t amount) const {
    const bool is_full = amount > spec_.total - std::min(used_, spec_.total);
    std::string detail = is_full ? "The server has no room for this" : "This user has no room for this";
    detail.append(" in the budget `").append(spec_.name).append("`: ");
    detail += is_full ? "all users together have " : "a user may have ";
    if (!is_full)
        detail.append(std::to_string(user_percent_)).append(" % of what the others leave of ");
    detail.append(std::to_string(spec_.total)).append(" ").append(spec_.unit);
    if (!is_full)
        detail.append(", and this one holds ").append(std::to_string(held));
    detail.append(". ").append(spec_.freed_by);
    return Error(is_full ? Errc::capacity : Errc::user_share, std::move(detail), spec_.retry_after)
        .with("budget", "\"" + std::string(spec_.name) + "\"");
}

Result<Share> Budget::take(const ShareHolder& holder, std::uint64_t amount) {
    Share share(*this, *holders_.try_emplace(holder.name()).first);
    if (auto grown = share.grow(amount); !grown)
        return grown.error();
    return share;
}

Share::Share(Budget& budget, Budget::Holders::value_type& holder) : budget_(&budget), holder_(&holder) {
    ++holder_->second.shares;
}

Share::Share(Share&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      holder_(std::exchange(other.holder_, nullptr)),
      amount_(std::exchange(other.amount_, 0)) {}

Share& Share::operator=(Share&& other) noexcept {
    Share taken(std::move(other));
    std::swap(budget_, taken.budget_);
    std::swap(holder_, taken.holder_);
    std::swap(amount_, taken.amount_);
    return *this;
}

Result<void> Share::grow(std::uint64_t amount) {
    if (amount > 0 &&
        (budget_ == nullptr || amount > budget_->room_beside(holder_->second.amount, budget_->used_)))
        return refusal(amount);
    add(amount);
    return {};
}

std::uint64_t Share::grow_up_to(std::uint64_t amount) noexcept {
    const std::uint64_t taken =
        budget_ == nullptr ? 0
                           : std::min(amount, budget_->room_beside(holder_->second.amount, budget_->used_));
    add(taken);
    return taken;
}

void Share::shrink(std::uint64_t amount) noexcept {
    assert(amount <= amount_);
    if (amount == 0)
        return;
    amount_ -= amount;
    holder_->second.amount -= amount;
    budget_->used_ -= amount;
}

Error Share::refusal(std::uint64_t amount) const {
    assert(budget_ != nullptr);
    return budget_->refusal_beside(holder_->second.amount, amount);
}

void Share::add(std::uint64_t amount) noexcept {
    if (amount == 0)
        return;
    amount_ += amount;
    holder_->second.amount += amount;
    budget_->used_ += amount;
}

void Share::release() noexcept {
    shrink(amount_);
    if (holder_ != nullptr && --holder_->second.shares == 0)
        budget_->holders_.erase(budget_->holders_.find(holder_->first));
}

BudgetSpec places_spec(std::size_t max_sandboxes) noexcept {
    return {
        "places",
        "sandboxes",
        "A conversation that is paused or deleted, a sandbox that is deleted and a run that ends give their "
        "place back.",
        max_sandboxes,
        k_places_user_floor,
        {}};
}

BudgetSpec memory_spec(std::uint64_t max_memory_mb) noexcept {
    return {
        "memory",
        "MB",
        "A conversation that is paused or deleted, a sandbox that is deleted and a run that ends give their "
        "memory limit back; a lower `memoryMb` takes less.",
        max_memory_mb,
        k_memory_user_floor_mb,
        {}};
}

Budgets::Budgets(unsigned user_percent, const BudgetTotals& totals)
    : exec({"exec", "bytes", "An exec that has ended gives its input and output back.",
            k_exec_output_budget_bytes, k_exec_user_floor_bytes, std::chrono::seconds(1)},
           user_percent),
      results({"results", "bytes",
               "Results of runs give way to later ones of the same user, those that were read first; what is "
               "left are detached runs that wait or are under way, and other users' results.",
               k_max_kept_execution_bytes, k_execution_user_floor_bytes, std::chrono::seconds(5)},
              user_percent),
      connections(
          {"connections", "bytes", "A client that reads what waits for it, or leaves, gives room back.",
           k_connection_budget_bytes, k_connection_user_floor_bytes, std::chrono::seconds(1)},
          user_percent),
      bodies({"bodies", "bytes", "A body or message that is complete, or is given up, gives room back.",
              totals.bodies, k_max_body_bytes, std::chrono::seconds(1)},
             user_percent),
      log({"log", "bytes", "Deleted conversations give their logs back.", totals.logs,
           std::min(k_log_user_floor_bytes, totals.logs / 16)},
          user_percent),
      removals({"removals", "bytes",
                "The files of a deleted sandbox count until they are removed, which goes on by itself.",
                k_removals_budget_bytes, k_removals_user_floor_bytes, std::chrono::seconds(1)},
               user_percent),
      files({"files", "bytes", "Delete conversations or files.", totals.files,
             std::min(k_files_user_floor_bytes, totals.files / 16)},
            user_percent) {}

}  // namespace atl::base
