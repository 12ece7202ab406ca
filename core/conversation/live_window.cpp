#include "core/conversation/live_window.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

void LiveWindow::restore(std::uint64_t first_seq, std::uint64_t last_seq) {
    first_seq_ = first_seq;
    committed_seq_ = last_seq;
}

void LiveWindow::publish(EventPtr event) {
    committed_seq_ = event->seq;
    stalled_ = false;
    events_.push_back(with_epoch(std::move(event)));
    bytes_ += events_.back()->json.size();
    while (events_.size() > 1 &&
           (bytes_ > base::k_live_window_bytes || events_.size() > base::k_live_window_events))
        drop_oldest();
}

/// An epoch lasts from start to start, a stored event lasts for good.
EventPtr LiveWindow::with_epoch(EventPtr event) const {
    if (event->type != EventType::session_start || epoch_.empty())
        return event;
    constexpr std::string_view k_data = "\"data\":{";
    auto told = std::make_shared<Event>(*event);
    const std::size_t at = told->json.find(k_data);
    if (at == std::string::npos)
        return event;
    const std::size_t begin = at + k_data.size();
    const bool is_alone = told->json[begin] == '}';
    told->json.insert(begin, "\"logEpoch\":\"" + epoch_ + (is_alone ? "\"" : "\","));
    return told;
}

void LiveWindow::drop_oldest() {
    bytes_ -= events_.front()->json.size();
    events_.pop_front();
}

void LiveWindow::cut(std::uint64_t first_seq) {
    first_seq_ = first_seq;
    while (!events_.empty() && events_.front()->seq < first_seq_)
        drop_oldest();
}

base::Result<Batch> LiveWindow::read(Subscription& reader, std::size_t limit_bytes) {
    std::uint64_t after = reader.cursor_;
    Batch batch;
    if (after >= committed_seq_) {
        batch.gone = closed_;
        batch.stalled = stalled_;
        return batch;
    }
    if (after + 1 < first_seq_) {
        if (after != 0)
            return Error(Errc::seq_expired, "the log begins at event " + std::to_string(first_seq_) +
                                                "; read it again from after=0");
        after = first_seq_ - 1;
        // The log was cut behind events that are not committed yet.
        if (after >= committed_seq_)
            return batch;
    }
    if (events_.empty() || after + 1 < events_.front()->seq)
        return read_store(reader, after, limit_bytes);
    std::size_t bytes = 0;
    for (std::size_t at = after + 1 - events_.front()->seq; at < events_.size(); ++at) {
        batch.events.push_back(events_[at]);
        bytes += events_[at]->cost_bytes();
        if (bytes >= limit_bytes)
            break;
    }
    return batch;
}

base::Result<Batch> LiveWindow::read_store(Subscription& reader, std::uint64_t after,
                                           std::size_t limit_bytes) {
    Batch batch;
    // After a cut the log begins later: the read that a reader of the whole log asked for is outdated.
    if (!reader.asked_ || reader.asked_->after != after)
        reader.ask(after, limit_bytes);
    if (!reader.asked_->answer) {
        batch.reading = true;
        return batch;
    }
    auto events = std::move(*reader.asked_->answer);
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
    for (EventPtr& event : batch.events)
        event = with_epoch(std::move(event));
    // Events that are in the store but not yet published are not told: their waiters come first.
    while (!batch.events.empty() && batch.events.back()->seq > committed_seq_)
        batch.events.pop_back();
    return batch;
}

Subscription::Subscription(std::shared_ptr<LiveWindow> window, std::uint64_t after, base::ShareHolder owner)
    : window_(std::move(window)), cursor_(after), owner_(std::move(owner)) {
    window_->readers_.add(*this);
}

Subscription::~Subscription() {
    window_->readers_.remove(*this);
    if (follows_ && --window_->followers_ == 0 && window_->unattended_)
        window_->unattended_();
    if (window_->readers_.empty() && window_->unfollowed_)
        window_->unfollowed_();
}

void Subscription::follow() noexcept {
    follows_ = true;
    ++window_->followers_;
}

base::Result<Batch> Subscription::next(std::size_t limit_bytes) {
    waiting_ = false;  // an answer from inside the call wakes nobody
    auto batch = window_->read(*this, limit_bytes);
    if (batch && !batch->events.empty())
        cursor_ = batch->events.back()->seq;
    waiting_ = batch && batch->events.empty() && !batch->gone;
    if (!batch || !batch->reading)
        asked_.reset();
    return batch;
}

void Subscription::ask(std::uint64_t after, std::size_t limit_bytes) {
    asked_ = std::make_shared<Asked>(Asked{*this, after, {}});
    window_->store_.read_events(window_->key_, after, limit_bytes,
                                [asked = std::weak_ptr(asked_)](base::Result<std::vector<EventPtr>> events) {
                                    // The reader is gone, or has asked for something else.
                                    const auto wanted = asked.lock();
                                    if (!wanted)
                                        return;
                                    wanted->answer = std::move(events);
                                    wanted->reader.wake();
                                });
}

void Subscription::wake() {
    if (std::exchange(waiting_, false) && wake_)
        wake_();
}

const std::string& Subscription::epoch() const noexcept {
    return window_->epoch();
}

void Subscription::on_wake(Wake wake) {
    wake_ = std::move(wake);
}

}  // namespace atl::conversation
