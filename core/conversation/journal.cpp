#include "core/conversation/journal.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::conversation {
namespace {

bool same_turn(const Write& write, const PutTurn& turn) {
    const auto* const other = std::get_if<PutTurn>(&write);
    return other != nullptr && other->record.conversation_key == turn.record.conversation_key &&
           other->record.turn == turn.record.turn;
}

}  // namespace

void Journal::add(Write write) {
    if (auto* const turn = std::get_if<PutTurn>(&write)) {
        // A short turn begins and ends in one batch: its row is written once.
        if (supersede(batch_, *turn))
            return schedule();
        std::erase_if(lazy_, [turn](const Write& lazy) { return same_turn(lazy, *turn); });
    } else if (std::holds_alternative<ForgetTurns>(write) ||
               std::holds_alternative<EraseConversation>(write)) {
        promote_lazy();  // or a row would be written after it was removed
    } else if (const auto* const event = std::get_if<AppendEvent>(&write)) {
        batch_bytes_ += event->event->json.size();
    }
    batch_.push_back(std::move(write));
    schedule();
}

bool Journal::supersede(std::vector<Write>& writes, PutTurn& turn) {
    const auto earlier = std::find_if(writes.rbegin(), writes.rend(),
                                      [&](const Write& write) { return same_turn(write, turn); });
    if (earlier == writes.rend())
        return false;
    *earlier = std::move(turn);
    return true;
}

void Journal::add_lazily(PutTurn turn) {
    if (supersede(batch_, turn) || supersede(lazy_, turn))
        return;
    lazy_.emplace_back(std::move(turn));
    // Left armed when they go earlier: firing once for nothing is cheaper than cancelling every time.
    if (std::exchange(lazy_armed_, true))
        return;
    timers_.arm(k_lazy_interval, [this] {
        lazy_armed_ = false;
        promote_lazy();
        if (!batch_.empty())
            schedule();
    });
}

void Journal::promote_lazy() {
    std::move(lazy_.begin(), lazy_.end(), std::back_inserter(batch_));
    lazy_.clear();
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

void Journal::release() {
    held_ = false;
    if (std::exchange(overdue_, false))
        timers_.defer([this] { commit_or_retry(); });
}

void Journal::commit_or_retry() {
    if (held_) {
        overdue_ = true;
        return;
    }
    if (commit())
        return;
    // scheduled_ stays true: what is added meanwhile joins the batch that is tried again.
    scheduled_ = true;
    timers_.arm(k_retry_interval, [this] { commit_or_retry(); });
    if (refused_)
        refused_();
}

base::Result<void> Journal::flush() {
    promote_lazy();
    return commit();
}

base::Result<void> Journal::commit() {
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
    batch_bytes_ = 0;
    ++batch_number_;
    // A waiter may add writes and waiters of its own: those belong to the next batch.
    const auto waiters = std::exchange(waiters_, {});
    for (const auto& done : waiters)
        done();
    return {};
}

base::Result<void> Journal::usable() const {
    if (auto usable = store_.usable(); !usable)
        return usable;
    if (!healthy_)
        return base::Error(base::Errc::storage_failed, "the database refuses writes; see the server's log");
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
