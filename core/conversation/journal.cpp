#include "core/conversation/journal.hpp"

#include <algorithm>
#include <chrono>
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

void Journal::add(Write write, When when) {
    if (auto* const turn = std::get_if<PutTurn>(&write)) {
        // A short turn begins and ends in one batch: its row is written once.
        if (supersede(batch_, *turn))
            return schedule(when);
        std::erase_if(lazy_, [turn](const Write& lazy) { return same_turn(lazy, *turn); });
    } else if (std::holds_alternative<EraseConversation>(write)) {
        promote_lazy();  // or a row would be written after it was removed
    } else if (const auto* const event = std::get_if<AppendEvent>(&write)) {
        batch_bytes_ += event->event->json.size();
    }
    batch_.push_back(std::move(write));
    schedule(when);
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
    arm_lazy();
}

void Journal::arm_lazy() {
    // The timer stays armed when they go earlier: firing once for nothing is cheaper than cancelling every
    // time.
    if (std::exchange(lazy_armed_, true))
        return;
    timers_.arm(k_lazy_interval, [this] {
        lazy_armed_ = false;
        promote_lazy();
        if (!batch_.empty() || !waiters_.empty())
            schedule(When::soon);
    });
}

void Journal::promote_lazy() {
    std::move(lazy_.begin(), lazy_.end(), std::back_inserter(batch_));
    lazy_.clear();
}

void Journal::after_commit(std::function<void()> done, When when) {
    waiters_.push_back({std::move(done), nullptr});
    schedule(when);
}

void Journal::answer_after_commit(std::function<void()> done, std::function<void()> late, When when) {
    waiters_.push_back({std::move(done), std::move(late)});
    schedule(when);
    if (at_store_)
        arm_late();
}

// The timer runs while a batch is at the store, or waits to be tried again.
void Journal::arm_late() {
    if (late_timer_ == 0)
        late_timer_ = timers_.arm(k_answer_deadline, [this] { tell_late(); });
}

void Journal::tell_late() {
    late_timer_ = 0;
    std::vector<std::function<void()>> late;
    for (auto* const waiters : {&at_store_waiters_, &waiters_}) {
        for (Waiter& waiter : *waiters) {
            if (waiter.late)
                late.push_back(std::exchange(waiter.late, nullptr));
        }
    }
    // The waiters may add writes and waiters.
    for (const auto& tell : late)
        tell();
}

void Journal::schedule(When when) {
    // A batch that is at the store, or waits to be tried again, goes first; on_durable() goes on.
    if (scheduled_ || at_store_)
        return;
    if (when == When::lazily)
        return arm_lazy();
    scheduled_ = true;
    timers_.defer([this] { commit_or_retry(); });
}

void Journal::release() {
    held_ = false;
    if (std::exchange(overdue_, false))
        timers_.defer([this] { commit_or_retry(); });
    go_on_purging();
}

void Journal::commit_or_retry() {
    if (held_)
        overdue_ = true;
    else
        commit();
}

void Journal::flush(std::function<void(base::Result<void>)> done) {
    promote_lazy();
    flushers_.push_back(std::move(done));
    commit();
}

void Journal::commit() {
    if (busy_)
        return;
    if (fenced_)
        return tell_flushers();
    if (!at_store_) {
        scheduled_ = false;
        auto batch = std::make_shared<WriteBatch>();
        batch->number = batch_number_++;
        batch->writes = std::exchange(batch_, {});
        batch_bytes_ = 0;
        at_store_ = std::move(batch);
        at_store_waiters_ = std::exchange(waiters_, {});
        if (at_store_->writes.empty())
            return on_durable();
    }
    busy_ = true;
    commit_began_ = std::chrono::steady_clock::now();
    store_.commit(at_store_, [self = self_](CommitEnd end, const base::Error& why) {
        if (*self != nullptr)
            (*self)->on_end(end, why);
    });
    if (busy_)
        arm_late();
}

void Journal::on_end(CommitEnd end, const base::Error& why) {
    busy_ = false;
    if (end == CommitEnd::durable) {
        count(*at_store_);
        return on_durable();
    }
    ++stats_.refused_commits;
    if (last_end_)
        base::LogLine(base::evt::store_failed).quoted("err", why.detail()).error();
    last_end_ = why;
    fenced_ = end == CommitEnd::fenced;
    if (!fenced_ && retry_timer_ == 0) {
        retry_timer_ = timers_.arm(k_retry_interval, [this] {
            retry_timer_ = 0;
            commit_or_retry();
        });
    }
    if (!fenced_)
        arm_late();
    tell_flushers();
    if (refused_ && !fenced_)
        refused_();
    if (fenced_) {
        timers_.cancel(std::exchange(late_timer_, 0));
        tell_late();
    }
}

void Journal::count(const WriteBatch& batch) {
    stats_.commit_duration.add(std::chrono::steady_clock::now() - commit_began_);
    for (const Write& write : batch.writes) {
        if (const auto* const added = std::get_if<AppendEvent>(&write)) {
            ++stats_.events[added->event->type];
            stats_.event_bytes += added->event->json.size();
        }
    }
}

void Journal::on_durable() {
    last_end_ = {};
    timers_.cancel(std::exchange(late_timer_, 0));
    committed_ = at_store_->number;
    at_store_.reset();
    // A waiter may add writes and waiters of its own: those belong to the next batch.
    const auto waiters = std::exchange(at_store_waiters_, {});
    for (const auto& waiter : waiters)
        waiter.done();
    if (!flushers_.empty() && (!batch_.empty() || !waiters_.empty()))
        return commit();
    tell_flushers();
    if (!batch_.empty() || !waiters_.empty())
        schedule(When::soon);
}

void Journal::tell_flushers() {
    for (const auto& done : std::exchange(flushers_, {}))
        done(last_end_);
}

base::Result<void> Journal::usable() const {
    if (fenced_)
        return base::Error(base::Errc::storage_failed,
                           "another server has taken over this one's conversations");
    if (auto usable = store_.usable(); !usable)
        return usable;
    if (!last_end_)
        return base::Error(base::Errc::storage_failed, "the database refuses writes; see the server's log");
    return {};
}

void Journal::purge(std::int64_t key, std::uint64_t below_seq,
                    const std::shared_ptr<const base::Share>& held) {
    // After the commit: rows of the same log may still be in the batch, or be lazy ones.
    promote_lazy();
    after_commit([this, key, below_seq, held] {
        purges_.push_back({key, below_seq, held});
        go_on_purging();
    });
}

void Journal::go_on_purging() {
    if (!purges_.empty() && !fenced_ && !std::exchange(purging_, true))
        timers_.arm(k_purge_interval, [this] { purge_some(); });
}

void Journal::purge_some() {
    purging_ = false;
    if (held_ || fenced_)
        return;  // release() goes on
    const Purge next = purges_.front();
    const auto purged = store_.purge_log(next.key, next.below_seq, k_purge_bound);
    if (!purged || purged->is_done)
        purges_.pop_front();
    if (!purged) {
        base::LogLine(base::evt::store_failed).quoted("err", purged.error().detail()).warn();
        purge_later(next);
    }
    go_on_purging();
}

void Journal::purge_later(const Purge& purge) {
    const auto same = std::ranges::find(unpurged_, purge.key, &Purge::key);
    if (same != unpurged_.end()) {
        same->below_seq = std::max(same->below_seq, purge.below_seq);
        return;
    }
    unpurged_.push_back(purge);
    if (unpurged_.size() > 1)
        return;
    timers_.arm(k_purge_retry, [this] {
        purges_.insert(purges_.end(), unpurged_.begin(), unpurged_.end());
        unpurged_.clear();
        go_on_purging();
    });
}

}  // namespace atl::conversation
