// Bounds for all in which each user has a share. A budget has a total. A user may hold a percentage of what
// the others leave of it (`--user-share`): with 50 %, a user who is alone one half, two users a third each, n
// users 1/(n+1) each, so that the next user finds as much as they have; with 100 %, all. Up to the floor of
// a budget only its total counts. No take exceeds the total, so a floor is no promise; charge() does, for
// what is there already.
//
// Invariants: the shares of a budget are all that is used of it; a share gives back exactly what it took,
// once; a take never waits, so nothing can deadlock. Not here: the queue for those who wait instead
// (body_budget).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/limits.hpp"

namespace atl::base {

/// A user as budgets know one: a user of the API, or a key, or a conversation or sandbox that has no owner,
/// or all visitors of a preview, or all who ask without a credential.
class ShareHolder {
  public:
    /// The server's own key.
    ShareHolder() : ShareHolder(key("")) {}
    static ShareHolder user(std::string_view user_id) { return ShareHolder("user ", user_id); }
    /// `label` of the key; empty: the server's own.
    static ShareHolder key(std::string_view label) { return ShareHolder("key ", label); }
    static ShareHolder thing(std::string_view id) { return ShareHolder("thing ", id); }
    /// The visitors of a sandbox's preview.
    static ShareHolder preview(std::string_view sandbox_id) { return ShareHolder("preview ", sandbox_id); }
    static ShareHolder strangers() { return ShareHolder("strangers", ""); }
    /// The owner of a thing, or the thing for itself.
    static ShareHolder owner(const std::optional<std::string>& user_id, std::string_view thing_id) {
        return user_id ? user(*user_id) : thing(thing_id);
    }
    /// The holder that has this name.
    static ShareHolder named(std::string_view name) { return ShareHolder(name, ""); }
    const std::string& name() const noexcept { return name_; }
    bool is_user() const noexcept { return name_.starts_with("user "); }
    bool operator==(const ShareHolder&) const = default;

  private:
    ShareHolder(std::string_view kind, std::string_view name) : name_(std::string(kind).append(name)) {}
    std::string name_;
};

struct BudgetSpec {
    std::string_view name;  // of static storage, as all text here; clients see it in `budget`
    std::string_view unit;
    std::string_view freed_by;  // a sentence for people
    std::uint64_t total = 0;
    std::uint64_t floor = 0;
    std::chrono::seconds retry_after{0};  // 0: waiting does not help
};

class Share;

class Budget {
  public:
    /// 1 <= `user_percent` <= 100.
    explicit Budget(const BudgetSpec& spec, unsigned user_percent = k_default_user_share_percent)
        : spec_(spec), user_percent_(user_percent) {}
    /// No share of it is left.
    ~Budget();
    Budget(const Budget&) = delete;
    Budget& operator=(const Budget&) = delete;

    /// Errors: user_share; capacity, where no user could have so much now.
    Result<Share> take(const ShareHolder& holder, std::uint64_t amount);
    /// How much this user could take now, or after it gave `given_back` of its own back.
    std::uint64_t room(const ShareHolder& holder, std::uint64_t given_back = 0) const {
        return room_beside(held_by(holder) - given_back, used_ - given_back);
    }
    /// The error for a user who cannot take `amount`; with 0 that of a user who has too much: user_share.
    Error refusal(const ShareHolder& holder, std::uint64_t amount) const {
        return refusal_beside(held_by(holder), amount);
    }

    const BudgetSpec& spec() const noexcept { return spec_; }
    /// Where the total changes with what is left of the thing itself.
    void set_total(std::uint64_t total) noexcept { spec_.total = total; }
    unsigned user_percent() const noexcept { return user_percent_; }
    std::uint64_t used() const noexcept { return used_; }
    std::uint64_t held_by(const ShareHolder& holder) const;
    /// By one holder, without `beside`. Takes linear time.
    std::uint64_t most_held(const ShareHolder& beside) const;

  private:
    friend class Share;
    struct Held {
        std::uint64_t amount = 0;
        std::size_t shares = 0;
    };
    using Holders = std::unordered_map<std::string, Held>;

    std::uint64_t room_beside(std::uint64_t held, std::uint64_t used) const noexcept;
    Error refusal_beside(std::uint64_t held, std::uint64_t amount) const;

    BudgetSpec spec_;
    const unsigned user_percent_;
    std::uint64_t used_ = 0;
    Holders holders_;  // those with a share, and no others
};

/// The part of a budget that a user holds for one thing, until this is destroyed. The budget outlives it.
class Share {
  public:
    /// Holds nothing.
    Share() = default;
    Share(Share&& other) noexcept;
    Share& operator=(Share&& other) noexcept;
    ~Share() { release(); }

    /// All of `amount` or nothing. Errors: as Budget::take().
    Result<void> grow(std::uint64_t amount);
    /// Takes as much of `amount` as there is room for, and returns that.
    std::uint64_t grow_up_to(std::uint64_t amount) noexcept;
    /// Takes an amount that cannot be refused, even beyond the user's share and the total. A share of no
    /// budget takes nothing.
    void charge(std::uint64_t amount) noexcept {
        if (budget_ != nullptr)
            add(amount);
    }
    /// True if grow() would take it. A share of no budget has room for all.
    bool has_room(std::uint64_t amount) const noexcept {
        return budget_ == nullptr || amount <= budget_->room_beside(holder_->second.amount, budget_->used_);
    }
    /// Precondition: `amount` <= amount().
    void shrink(std::uint64_t amount) noexcept;
    std::uint64_t amount() const noexcept { return amount_; }
    /// The error for what grow_up_to() did not take. Precondition: it is a share of a budget.
    Error refusal(std::uint64_t amount) const;

  private:
    friend class Budget;
    Share(Budget& budget, Budget::Holders::value_type& holder);
    void add(std::uint64_t amount) noexcept;
    void release() noexcept;

    Budget* budget_ = nullptr;
    Budget::Holders::value_type* holder_ = nullptr;  // lasts as long as one share names it
    std::uint64_t amount_ = 0;
};

/// The budget of places for living sandboxes, which sandbox::Manager owns.
BudgetSpec places_spec(std::size_t max_sandboxes) noexcept;
/// The budget of their memory limits. `max_memory_mb` of 0: there is none.
BudgetSpec memory_spec(std::uint64_t max_memory_mb) noexcept;

/// Totals that the operator sets, in bytes.
struct BudgetTotals {
    std::uint64_t bodies = k_body_budget_bytes;
    std::uint64_t logs = k_default_log_budget_bytes;
    std::uint64_t files = k_default_files_budget_bytes;  // at the start; then the meter of the disk sets it
};

/// The table of all budgets: docs/operations/limits-and-capacity.md and /v1/system show it.
struct Budgets {
    explicit Budgets(unsigned user_percent = k_default_user_share_percent, const BudgetTotals& totals = {});

    Budget exec;
    Budget results;
    Budget connections;
    Budget bodies;
    Budget log;
    Budget removals;
    Budget files;
    // With those that others own.
    std::vector<const Budget*> all{&exec, &results, &connections, &bodies, &log, &removals, &files};
};

}  // namespace atl::base
