// Counts the logs of conversations in the budget `log`, in bytes of events and of what clients put into their
// records, and decides if a turn may begin.
// A log in memory has a share of its own. All logs at rest of a user have one share. Those of conversations
// without an owner have one together, since nothing is kept for each of them.
//
// Invariant: a log counts once, however it comes and goes. The logs at rest are counted by the store after
// the start; until then only those count that were in memory. Not here: cutting logs (log_cuts.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/shares.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

class LogShares {
  public:
    /// `reserve_left` gives the free part of the reserve of the database's disk: 1 and above is
    /// all of it, 0 is too little for a turn. It is empty where there is no reserve.
    LogShares(base::Budget& budget, std::function<double()> reserve_left)
        : budget_(budget), reserve_left_(std::move(reserve_left)) {}

    /// The share of a log that comes into memory; it holds the bytes of the record.
    base::Share share_of(const Record& conversation) {
        base::Share share = budget_.take(holder_of(conversation), 0).value();
        share.charge(record_bytes(conversation.metadata));
        return share;
    }
    /// Succeeds if a record with this metadata may be made. Errors: user_share, capacity.
    base::Result<void> room_for_record(const std::optional<std::string>& user_id,
                                       const std::string& metadata) const {
        // A conversation without an owner will be a user of its own.
        const auto holder = base::ShareHolder::owner(user_id, "new");
        const std::uint64_t wanted = record_bytes(metadata);
        return wanted <= budget_.room(holder) ? base::Result<void>() : budget_.refusal(holder, wanted);
    }
    /// A log of the user, or of a conversation without an owner, begins to rest. `bytes`: with its record.
    void on_unloaded(const std::optional<std::string>& user_id, std::uint64_t bytes) {
        add_resting(user_id, static_cast<std::int64_t>(bytes));
    }
    /// The log rests no longer. `counted`: the size that Store::log_sizes() tells.
    void on_loaded(const std::optional<std::string>& user_id, std::uint64_t bytes, std::uint64_t counted) {
        add_resting(user_id, -static_cast<std::int64_t>(is_counted_ ? bytes : counted));
    }
    /// on_unloaded() was called for all logs that the store has.
    void on_counted() noexcept { is_counted_ = true; }

    /// Succeeds if a turn may begin with a message of so many bytes. Errors: user_share; capacity, also while
    /// the disk has less than its reserve. Users whose logs are largest are refused first, users up to the
    /// floor of the budget last.
    base::Result<void> room_for_turn(const Record& conversation, std::uint64_t message_bytes) const;
    double reserve_left() const { return reserve_left_ ? reserve_left_() : 1; }
    const base::Budget& budget() const noexcept { return budget_; }

  private:
    struct Resting {
        std::int64_t bytes = 0;  // below 0 until the store has counted
        base::Share share;
    };

    static base::ShareHolder holder_of(const Record& conversation) {
        return base::ShareHolder::owner(conversation.user_id, conversation.id);
    }

    void add_resting(const std::optional<std::string>& user_id, std::int64_t bytes);

    base::Budget& budget_;
    const std::function<double()> reserve_left_;
    std::unordered_map<std::string, Resting> resting_;  // by the name of the holder
    bool is_counted_ = false;
};

}  // namespace atl::conversation
