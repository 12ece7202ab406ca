#include "core/conversation/event_log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace atl::conversation {

namespace {

constexpr std::size_t k_shares_without_turns = 16;

}  // namespace

EventLog::EventLog(Journal& journal, Store& store, const base::Clock& clock, std::int64_t key,
                   std::size_t bound_bytes, std::string epoch, base::Share share)
    : journal_(journal),
      clock_(clock),
      key_(key),
      bound_bytes_(bound_bytes),
      window_(std::make_shared<LiveWindow>(store, journal.timers(), key, std::move(epoch))),
      share_(std::move(share)) {}

void EventLog::restore(std::uint64_t first_seq, std::uint64_t last_seq) {
    last_seq_ = last_seq;
    window_->restore(first_seq, last_seq);
}

void EventLog::restore_turn(std::uint64_t last_seq, std::uint64_t bytes) {
    turns_.push_back({last_seq, bytes});
    total_bytes_ += bytes;
    share_.charge(bytes);
}

base::Result<std::unique_ptr<Subscription>> EventLog::subscribe(const Cursor& after,
                                                                base::ShareHolder owner) const {
    const std::string& epoch = window_->epoch();
    const bool is_of_another = !after.epoch.empty() && after.epoch != epoch;
    if (after.seq != 0 && (is_of_another || after.seq > last_seq_))
        return base::Error(base::Errc::log_replaced,
                           (is_of_another ? "the event " + std::to_string(after.seq) + " is of another log"
                                          : "after is " + std::to_string(after.seq) +
                                                ", but the log ends at event " + std::to_string(last_seq_)) +
                               "; read this log from after=0")
            .with("logEpoch", '"' + epoch + '"')
            .with("firstSeq", std::to_string(first_seq()));
    if (after.seq != 0 && after.seq + 1 < first_seq())
        return base::Error(base::Errc::seq_expired, "the log begins at event " + std::to_string(first_seq()) +
                                                        "; read it again from after=0");
    return std::make_unique<Subscription>(window_, after.seq, std::move(owner));
}

EventPtr EventLog::append(EventType type, std::uint64_t turn, std::string_view data, Journal::When when) {
    EventPtr event = make_event(++last_seq_, type, clock_.wall_now(), turn, data);
    open_bytes_ += event->json.size();
    share_.charge(event->json.size());
    turn_open_ = turn_open_ || turn != 0;
    pending_.push_back({event, journal_.batch_number()});
    journal_.add(AppendEvent{key_, event}, when);
    schedule_publish(when);
    // Events outside of turns have their bound, too: a share of it is cut as a turn is.
    if (!turn_open_ && open_bytes_ > bound_bytes_ / k_shares_without_turns)
        close_turn();
    return event;
}

void EventLog::schedule_publish(Journal::When when) {
    if (!std::exchange(publish_scheduled_, true))
        journal_.answer_after_commit([self = shared_from_this()] { self->publish(); },
                                     [self = shared_from_this()] {
                                         self->window_->stall();
                                         self->window_->wake_all();
                                     },
                                     when);
}

std::uint64_t EventLog::close_turn() {
    const std::uint64_t bytes = std::exchange(open_bytes_, 0);
    turn_open_ = false;
    turns_.push_back({last_seq_, bytes});
    total_bytes_ += bytes;
    // The newest turn stays, however large: the bound of a turn is below the bound of the log.
    cut(bound_bytes_, 1);
    return bytes;
}

void EventLog::cut_to(std::uint64_t bytes) {
    if (!turn_open_ && this->bytes() > bytes && open_bytes_ > 0)
        close_turn();
    cut(bytes - std::min(bytes, open_bytes_), 0);
}

void EventLog::cut(std::uint64_t bound_bytes, std::size_t kept_turns) {
    std::uint64_t cut_to = 0;
    while (total_bytes_ > bound_bytes && turns_.size() > kept_turns) {
        cut_to = turns_.front().last_seq;
        total_bytes_ -= turns_.front().bytes;
        share_.shrink(std::min(turns_.front().bytes, share_.amount()));
        turns_.pop_front();
    }
    if (cut_to == 0)
        return;
    window_->cut(cut_to + 1);
    journal_.purge(key_, cut_to + 1);
}

EventLog::TurnRange EventLog::finished_before(std::uint64_t last_seq, std::uint64_t limit_bytes) const {
    auto turn = std::ranges::upper_bound(turns_, last_seq, {}, &TurnSpan::last_seq);
    TurnRange found;
    if (turn == turns_.begin())
        return found;
    found.last_seq = std::prev(turn)->last_seq;
    do
        found.bytes += (--turn)->bytes;
    while (turn != turns_.begin() && found.bytes + std::prev(turn)->bytes <= limit_bytes);
    found.after = turn == turns_.begin() ? first_seq() - 1 : std::prev(turn)->last_seq;
    return found;
}

void EventLog::publish() {
    publish_scheduled_ = false;
    // Events that another waiter of the same commit appended belong to the next commit.
    while (!pending_.empty() && journal_.is_committed(pending_.front().batch)) {
        window_->publish(std::move(pending_.front().event));
        pending_.pop_front();
    }
    if (!pending_.empty())
        schedule_publish(Journal::When::soon);
    window_->wake_all();
}

void EventLog::close() {
    window_->close();
    share_ = {};
    if (!publish_scheduled_)
        window_->wake_all();
}

}  // namespace atl::conversation
