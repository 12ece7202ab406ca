#include "core/conversation/journal.hpp"

#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::conversation {

void Journal::add(Write write) {
    // A short turn begins and ends in one batch: its row is written once.
    if (auto* const turn = std::get_if<PutTurn>(&write); turn != nullptr && supersede(*turn))
        return schedule();
    batch_.push_back(std::move(write));
    schedule();
}

bool Journal::supersede(PutTurn& turn) {
    for (auto at = batch_.rbegin(); at != batch_.rend(); ++at) {
        auto* const earlier = std::get_if<PutTurn>(&*at);
        if (earlier != nullptr && earlier->record.conversation_key == turn.record.conversation_key &&
            earlier->record.turn == turn.record.turn) {
            *earlier = std::move(turn);
            return true;
        }
    }
    return false;
}

void Journal::add_lazily(Write write) {
    batch_.push_back(std::move(write));
    // Left armed when a batch goes earlier: firing once for nothing is cheaper than cancelling every time.
    if (scheduled_ || std::exchange(lazy_armed_, true))
        return;
    timers_.arm(k_lazy_interval, [this] {
        lazy_armed_ = false;
        if (!batch_.empty())
            schedule();
    });
}

void Journal::after_commit(std::function<void()> done) {
    waiters_.push_back(std::move(done));
    schedule();
}

void Journal::schedule() {
    if (scheduled_)
        return;
    scheduled_ = true;
    timers_.defer([this] { commit_or_retry(); });
}

void Journal::commit_or_retry() {
    if (flush())
        return;
    // scheduled_ stays true: what is added meanwhile joins the batch that is tried again.
    scheduled_ = true;
    timers_.arm(k_retry_interval, [this] { commit_or_retry(); });
    if (refused_)
        refused_();
}

base::Result<void> Journal::flush() {
    if (!batch_.empty()) {
        const auto committed = store_.commit(batch_);
        if (!committed) {
            if (healthy_)
                base::LogLine(base::evt::store_failed).quoted("err", committed.error().detail()).error();
            healthy_ = false;
            return committed.error();
        }
    }
    healthy_ = true;
    scheduled_ = false;
    batch_.clear();
    ++batch_number_;
    // A waiter may add writes and waiters of its own: those belong to the next batch.
    const auto waiters = std::exchange(waiters_, {});
    for (const auto& done : waiters)
        done();
    return {};
}

void Journal::purge(std::int64_t key, std::uint64_t below_seq) {
    // After the commit: rows of the same log may still be in the batch.
    after_commit([this, key, below_seq] {
        purges_.push_back({key, below_seq});
        if (std::exchange(purging_, true))
            return;
        timers_.arm(k_purge_interval, [this] { purge_some(); });
    });
}

void Journal::purge_some() {
    const Purge& next = purges_.front();
    const auto removed = store_.purge_events(next.key, next.below_seq, k_purge_rows);
    if (!removed)
        base::LogLine(base::evt::store_failed).quoted("err", removed.error().detail()).warn();
    // On an error the rows stay until the next start finds them.
    if (!removed || *removed < k_purge_rows)
        purges_.pop_front();
    purging_ = !purges_.empty();
    if (purging_)
        timers_.arm(k_purge_interval, [this] { purge_some(); });
}

}  // namespace atl::conversation
