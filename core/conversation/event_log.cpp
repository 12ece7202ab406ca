#include "core/conversation/event_log.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

namespace {

constexpr std::size_t k_shares_without_turns = 16;

}  // namespace

EventLog::EventLog(Journal& journal, Store& store, const base::Clock& clock, std::int64_t key,
                   std::size_t bound_bytes)
    : journal_(journal), store_(store), clock_(clock), key_(key), bound_bytes_(bound_bytes) {}

void EventLog::restore(std::uint64_t first_seq, std::uint64_t last_seq) {
    first_seq_ = first_seq;
    last_seq_ = last_seq;
    committed_seq_ = last_seq;
}

void EventLog::restore_turn(std::uint64_t last_seq, std::uint64_t bytes) {
    turns_.push_back({last_seq, bytes});
    total_bytes_ += bytes;
}

EventPtr EventLog::append(EventType type, std::uint64_t turn, std::string_view data) {
    EventPtr event = make_event(++last_seq_, type, clock_.wall_now(), turn, data);
    open_bytes_ += event->json.size();
    turn_open_ = turn_open_ || turn != 0;
    pending_.push_back({event, journal_.batch_number()});
    journal_.add(AppendEvent{key_, event});
    schedule_publish();
    // What happens without turns has its bound, too: a share of it goes as a turn does.
    if (!turn_open_ && open_bytes_ > bound_bytes_ / k_shares_without_turns)
        close_turn();
    return event;
}

void EventLog::schedule_publish() {
    if (!std::exchange(publish_scheduled_, true))
        journal_.after_commit([self = shared_from_this()] { self->publish(); });
}

std::uint64_t EventLog::close_turn() {
    const std::uint64_t bytes = std::exchange(open_bytes_, 0);
    turn_open_ = false;
    turns_.push_back({last_seq_, bytes});
    total_bytes_ += bytes;
    cut();
    return bytes;
}

void EventLog::cut() {
    std::uint64_t cut_to = 0;
    // The newest turn stays, however large: the bound of a turn is below the bound of the log.
    while (total_bytes_ > bound_bytes_ && turns_.size() > 1) {
        cut_to = turns_.front().last_seq;
        total_bytes_ -= turns_.front().bytes;
        turns_.pop_front();
    }
    if (cut_to == 0)
        return;
    first_seq_ = cut_to + 1;
    while (!window_.empty() && window_.front()->seq < first_seq_) {
        window_bytes_ -= window_.front()->json.size();
        window_.pop_front();
    }
    journal_.add(ForgetTurns{key_, cut_to});
    journal_.purge(key_, first_seq_);
}

void EventLog::publish() {
    publish_scheduled_ = false;
    // What another waiter of the same commit appended belongs to the next one.
    while (!pending_.empty() && pending_.front().batch < journal_.batch_number()) {
        EventPtr& event = pending_.front().event;
        committed_seq_ = event->seq;
        window_bytes_ += event->json.size();
        window_.push_back(std::move(event));
        pending_.pop_front();
    }
    if (!pending_.empty())
        schedule_publish();
    while (window_.size() > 1 &&
           (window_bytes_ > base::k_live_window_bytes || window_.size() > base::k_live_window_events)) {
        window_bytes_ -= window_.front()->json.size();
        window_.pop_front();
    }
    wake_all();
}

void EventLog::close() {
    closed_ = true;
    if (!publish_scheduled_)
        wake_all();
}

void EventLog::wake_all() {
    // A woken reader only sets something off, so the list does not change underneath.
    for (Subscription* reader : readers_) {
        if (std::exchange(reader->waiting_, false) && reader->wake_)
            reader->wake_(readers_.size());
    }
}

base::Result<Batch> EventLog::read(std::uint64_t after, std::size_t limit_bytes) {
    Batch batch;
    if (after >= committed_seq_) {
        batch.gone = closed_;
        return batch;
    }
    if (after + 1 < first_seq_) {
        if (after != 0)
            return Error(Errc::seq_expired, "the log begins at event " + std::to_string(first_seq_) +
                                                "; read it again from after=0");
        after = first_seq_ - 1;
    }
    if (window_.empty() || after + 1 < window_.front()->seq) {
        auto events = store_.read_events(key_, after, limit_bytes);
        if (!events)
            return events.error();
        batch.events = std::move(*events);
        if (batch.events.empty() || batch.events.front()->seq != after + 1) {
            // The rows of a removed conversation go away underneath its last readers.
            if (!closed_)
                return Error(Errc::storage_failed, "the log has a gap after event " + std::to_string(after));
            batch.events.clear();
            batch.gone = true;
            return batch;
        }
        // What is in the store but not yet published is not told: its waiters come first.
        while (!batch.events.empty() && batch.events.back()->seq > committed_seq_)
            batch.events.pop_back();
        return batch;
    }
    std::size_t bytes = 0;
    for (std::size_t at = after + 1 - window_.front()->seq; at < window_.size(); ++at) {
        batch.events.push_back(window_[at]);
        bytes += window_[at]->cost_bytes();
        if (bytes >= limit_bytes)
            break;
    }
    return batch;
}

Subscription::Subscription(std::shared_ptr<EventLog> log, std::uint64_t after)
    : log_(std::move(log)), cursor_(after) {
    log_->readers_.push_back(this);
}

Subscription::~Subscription() {
    std::erase(log_->readers_, this);
}

base::Result<Batch> Subscription::next(std::size_t limit_bytes) {
    auto batch = log_->read(cursor_, limit_bytes);
    if (batch && !batch->events.empty())
        cursor_ = batch->events.back()->seq;
    waiting_ = batch && batch->events.empty() && !batch->gone;
    return batch;
}

void Subscription::on_wake(Wake wake) {
    wake_ = std::move(wake);
}

}  // namespace atl::conversation
