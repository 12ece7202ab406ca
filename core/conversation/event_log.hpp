// The log of a conversation as its writer sees it. It numbers events from 1 and hands them to the journal,
// and to the readers' window once they are committed. Its size is bounded: whole finished turns are cut off
// at the front when it grows past its bound, and first_seq says where it begins. Not here: readers
// (live_window.hpp).
//
// Invariants: seq grows by one; an event reaches the window only when it is committed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/live_window.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

class EventLog : public std::enable_shared_from_this<EventLog> {
  public:
    EventLog(Journal& journal, Store& store, const base::Clock& clock, std::int64_t key,
             std::size_t bound_bytes, std::string epoch = {}, base::Share share = {});

    /// Takes over a log that the store holds.
    void restore(std::uint64_t first_seq, std::uint64_t last_seq);
    /// Takes over a finished turn that the store holds. Call it in the order of the turns.
    void restore_turn(std::uint64_t last_seq, std::uint64_t bytes);

    /// Makes a reader of the events behind `after`; 0: all, whatever the epoch. Errors: log_replaced for a
    /// cursor of another epoch or beyond the end, with the members `logEpoch` and `firstSeq`; seq_expired if
    /// it lies before the log's beginning.
    base::Result<std::unique_ptr<Subscription>> subscribe(const Cursor& after,
                                                          base::ShareHolder owner = {}) const;

    /// The number of bytes of the events behind the last of them.
    void restore_open(std::uint64_t bytes) {
        open_bytes_ += bytes;
        share_.charge(bytes);
    }

    /// Adds an event; `data` is the text of a JSON object. It is visible after its commit; `when` says when
    /// that comes.
    EventPtr append(EventType type, std::uint64_t turn, std::string_view data,
                    Journal::When when = Journal::When::soon);
    /// The turn whose `done` was appended last is over: the log may be cut behind it from now on.
    /// Returns the bytes since the turn before ended.
    std::uint64_t close_turn();
    /// Removes finished turns from the front, the newest one too, until no more than this is left.
    void cut_to(std::uint64_t bytes);
    std::uint64_t bytes() const noexcept { return total_bytes_ + open_bytes_; }
    /// The bytes of the conversation's record, which its share has, too, have changed. Errors: user_share,
    /// capacity.
    base::Result<void> change_record(std::uint64_t before, std::uint64_t after) {
        if (after > before)
            return share_.grow(after - before);
        share_.shrink(std::min(before - after, share_.amount()));
        return {};
    }
    /// Its share, of a log that is to be removed: it counts for as long as the result lives.
    base::Share take_share() noexcept { return std::exchange(share_, base::Share()); }
    /// True if its share has room for so much more.
    bool has_room(std::uint64_t bytes) const noexcept { return share_.has_room(bytes); }
    /// The conversation is gone.
    void close();

    std::uint64_t first_seq() const noexcept { return window_->first_seq(); }
    std::uint64_t last_seq() const noexcept { return last_seq_; }
    std::uint64_t committed_seq() const noexcept { return window_->committed_seq(); }
    /// The window that readers subscribe to.
    const std::shared_ptr<LiveWindow>& window() const noexcept { return window_; }
    bool is_followed() const noexcept { return window_->is_followed(); }
    /// Every event is committed and visible.
    bool is_published() const noexcept { return pending_.empty() && !publish_scheduled_; }
    /// True if an agent's next events should wait (Journal::congested()).
    bool congested() const noexcept { return journal_.congested(); }

    /// Neighbouring finished turns, and what was logged before each.
    struct TurnRange {
        std::uint64_t after = 0;     // its events come after this seq
        std::uint64_t last_seq = 0;  // 0: there are none
        std::uint64_t bytes = 0;
    };
    /// The last stretches that end at `last_seq` or before it: `limit_bytes` of them at most, but one at
    /// least.
    TurnRange finished_before(std::uint64_t last_seq, std::uint64_t limit_bytes) const;

  private:
    struct TurnSpan {
        std::uint64_t last_seq;
        std::uint64_t bytes;
    };
    struct Pending {
        EventPtr event;
        std::uint64_t batch;  // the journal's batch with it
    };

    void schedule_publish(Journal::When when);
    void publish();
    void cut(std::uint64_t bound_bytes, std::size_t kept_turns);

    Journal& journal_;
    const base::Clock& clock_;
    std::int64_t key_;
    std::size_t bound_bytes_;
    std::shared_ptr<LiveWindow> window_;
    base::Share share_;  // the share for the bytes that bytes() tells, and for the record
    std::uint64_t last_seq_ = 0;
    std::uint64_t open_bytes_ = 0;
    bool turn_open_ = false;         // an event of it was appended
    std::uint64_t total_bytes_ = 0;  // the bytes of finished turns
    std::deque<TurnSpan> turns_;
    std::deque<Pending> pending_;  // appended, not yet published
    bool publish_scheduled_ = false;
};

}  // namespace atl::conversation
