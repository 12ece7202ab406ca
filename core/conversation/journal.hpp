// Group commit: writes of one turn of the loop go to the store together, and their waiters are called after
// the commit. Nothing that depends on a write happens before. One batch is at the store at a time; writes
// that are added meanwhile are the next one. When the store refuses, the same batch is tried again until it
// goes through. Meanwhile healthy() is false and callers refuse new work, so that the next batch stays small.
// A fenced store is never asked again. An agent's events wait outside while a batch is full (congested()).
// The journal also removes the events and turns of cut and deleted logs, a few rows at a time, and counts its
// commits for /metrics.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/counts_by.hpp"
#include "core/base/histogram.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

struct JournalStats {
    base::CountsBy<EventType> events;                       // committed
    std::uint64_t event_bytes = 0;                          // the bytes of their text
    std::uint64_t refused_commits = 0;                      // and fenced ones
    base::Histogram commit_duration{base::k_stall_bounds};  // from the call to the end of a durable one
};

class Journal {
  public:
    Journal(Store& store, base::Timers& timers)
        : store_(store), timers_(timers), self_(std::make_shared<Journal*>(this)) {}
    ~Journal() { *self_ = nullptr; }
    base::Timers& timers() const noexcept { return timers_; }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    /// Says when a batch is committed that has to wait for nothing else.
    enum class When : std::uint8_t {
        soon,    // at the end of this turn of the loop
        lazily,  // with others, after k_lazy_interval at the latest
    };

    /// Adds a write to the batch that is being filled.
    void add(Write write, When when = When::soon);
    /// Adds the record of a turn whose loss does no harm, since its events tell the same. It goes with others
    /// after k_lazy_interval. A later record of the same turn replaces a record that is still to be written.
    void add_lazily(PutTurn turn);
    /// Calls `done` when all that was added so far is committed.
    void after_commit(std::function<void()> done, When when = When::soon);
    /// Does the same for the answer to a request, which must not wait for a disk that stays full. `late` is
    /// called, once, when the store has refused for up to k_answer_deadline. `done` still follows with the
    /// commit.
    void answer_after_commit(std::function<void()> done, std::function<void()> late, When when = When::soon);
    static constexpr base::Millis k_answer_deadline{5'000};
    /// Commits all that was added without waiting for the end of the loop's turn; for the start and the end
    /// of a server. Calls `done` once, possibly from inside the call; on an error the batch stays in place.
    void flush(std::function<void(base::Result<void>)> done);
    /// Between hold() and release() nothing is given to the store but by flush(), and nothing is purged;
    /// writes that are added wait for release().
    void hold() noexcept { held_ = true; }
    void release();
    /// `refused` is called each time the store refuses a batch.
    void on_refusal(std::function<void()> refused) { refused_ = std::move(refused); }
    /// The number of the batch that add() adds to.
    std::uint64_t batch_number() const noexcept { return batch_number_; }
    bool is_committed(std::uint64_t batch) const noexcept { return batch <= committed_; }
    /// Every batch up to this number is committed.
    std::uint64_t committed() const noexcept { return committed_; }
    /// True while the batch holds all that one commit should: a commit is a handler of the loop. Callers that
    /// can should let writes wait until it is false; all others may still add.
    bool congested() const noexcept {
        return batch_.size() >= k_batch_writes || batch_bytes_ >= k_batch_bytes;
    }
    /// An error while the store refuses, or would. Errors: storage_failed.
    base::Result<void> usable() const;
    bool healthy() const { return usable().has_value(); }
    /// True if another server has taken over: nothing more is committed, and waiters for a commit are never
    /// called.
    bool is_fenced() const noexcept { return fenced_; }

    /// Removes the events of `key` below `below_seq` in the background, and the turns that Store::purge_log()
    /// removes with them. A removal that the store refuses is tried again a minute later. `held`: the share
    /// of what is removed, which is given back at the end.
    void purge(std::int64_t key, std::uint64_t below_seq = k_whole_log,
               const std::shared_ptr<const base::Share>& held = nullptr);
    static constexpr std::uint64_t k_whole_log = std::numeric_limits<std::uint64_t>::max();
    bool is_purging() const noexcept { return !purges_.empty(); }
    /// The number of writes that are still to be committed.
    std::size_t pending() const noexcept {
        return batch_.size() + lazy_.size() + (at_store_ ? at_store_->writes.size() : 0);
    }
    const JournalStats& stats() const noexcept { return stats_; }
    bool idle() const noexcept { return batch_.empty() && lazy_.empty() && waiters_.empty() && !at_store_; }

  private:
    struct Purge {
        std::int64_t key;
        std::uint64_t below_seq;
        std::shared_ptr<const base::Share> held;
    };

    struct Waiter {
        std::function<void()> done;
        std::function<void()> late;  // may be empty
    };

    static bool supersede(std::vector<Write>& writes, PutTurn& turn);
    void promote_lazy();
    void arm_lazy();
    void schedule(When when);
    void commit_or_retry();
    void commit();
    void on_end(CommitEnd end, const base::Error& why);
    void on_durable();
    void count(const WriteBatch& batch);
    void tell_flushers();
    void arm_late();
    void tell_late();
    void purge_some();
    void go_on_purging();
    void purge_later(const Purge& purge);

    // This many writes take SQLite a few tenths of a millisecond.
    static constexpr std::size_t k_batch_writes = 128;
    static constexpr std::size_t k_batch_bytes = 256UL * 1024;
    static constexpr base::Millis k_lazy_interval{2};
    static constexpr base::Millis k_retry_interval{500};
    static constexpr base::Millis k_purge_interval{5};
    static constexpr base::Millis k_purge_retry{60'000};           // the pause after a refused purge
    static constexpr PurgeBound k_purge_bound{64, k_batch_bytes};  // a purge is a handler of the loop, too

    Store& store_;
    base::Timers& timers_;
    std::vector<Write> batch_;
    std::size_t batch_bytes_ = 0;  // the bytes of its events
    std::vector<Write> lazy_;      // turns only
    std::uint64_t batch_number_ = 1;
    std::vector<Waiter> waiters_;  // for the batch that is being filled
    WriteBatchPtr at_store_;       // being committed, or to be tried again
    std::vector<Waiter> at_store_waiters_;
    std::uint64_t committed_ = 0;  // every batch up to this number is committed
    std::vector<std::function<void(base::Result<void>)>> flushers_;
    std::function<void()> refused_;
    std::deque<Purge> purges_;
    std::vector<Purge> unpurged_;  // refused, and tried again with the next timer
    bool scheduled_ = false;
    bool lazy_armed_ = false;
    bool held_ = false;
    bool overdue_ = false;  // a commit came up while held
    bool purging_ = false;
    std::shared_ptr<Journal*> self_;  // null inside once it is destroyed
    base::TimerId retry_timer_ = 0;
    base::TimerId late_timer_ = 0;
    bool busy_ = false;  // the store has at_store_ and has not answered
    bool fenced_ = false;
    base::Result<void> last_end_;      // the store's last answer
    base::SteadyTime commit_began_{};  // the begin for the batch at the store
    JournalStats stats_;
};

}  // namespace atl::conversation
