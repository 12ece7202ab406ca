#include "http/wire/deadline_wheel.hpp"

#include <algorithm>
#include <utility>

namespace atl::http {

void DeadlineWheel::Entry::unlink() noexcept {
    if (link_ == nullptr)
        return;
    *link_ = next_;
    if (next_ != nullptr)
        next_->link_ = link_;
    link_ = nullptr;
    next_ = nullptr;
    --*count_;
}

DeadlineWheel::DeadlineWheel(base::Executor executor, base::Millis tick)
    : timer_(executor), tick_(tick), start_(std::chrono::steady_clock::now()) {}

DeadlineWheel::~DeadlineWheel() {
    for (Entry*& slot : slots_)
        while (slot != nullptr)
            slot->unlink();
}

std::uint64_t DeadlineWheel::tick_before(Time time) const noexcept {
    return time <= start_ ? 0 : static_cast<std::uint64_t>((time - start_) / tick_);
}

std::uint64_t DeadlineWheel::tick_after(Time time) const noexcept {
    return tick_before(time) + 1;
}

void DeadlineWheel::link(Entry& entry, std::uint64_t tick) noexcept {
    entry.unlink();
    entry.tick_ = std::clamp(tick, current_ + 1, current_ + k_slots - 1);
    Entry*& slot = slots_[entry.tick_ % k_slots];
    entry.next_ = slot;
    entry.link_ = &slot;
    entry.count_ = &linked_;
    if (slot != nullptr)
        slot->link_ = &entry.next_;
    slot = &entry;
    ++linked_;
}

void DeadlineWheel::set(Entry& entry, Time deadline) {
    entry.deadline_ = deadline;
    if (deadline == Time::max() || stopped_)
        return;
    const std::uint64_t tick = tick_after(deadline);
    if (entry.link_ != nullptr && entry.tick_ <= tick)
        return;  // looked at in time, and moved then
    if (linked_ == 0)
        current_ = std::max(current_, tick_before(std::chrono::steady_clock::now()));
    link(entry, tick);
    arm(entry.tick_);
}

void DeadlineWheel::stop() {
    stopped_ = true;
    timer_.cancel();
}

void DeadlineWheel::visit(Entry& entry, Time now) {
    entry.unlink();
    if (entry.deadline_ == Time::max())
        return;
    if (entry.deadline_ > now) {
        link(entry, tick_after(entry.deadline_));
        return;
    }
    entry.deadline_ = Time::max();
    entry.on_deadline();
}

void DeadlineWheel::advance(Time now) {
    const std::uint64_t target = tick_before(now);
    const std::uint64_t last = std::min(target, current_ + k_slots);
    while (current_ < last) {
        // The slot is taken as a whole: an entry that is linked meanwhile belongs to a later round.
        Entry* due = std::exchange(slots_[++current_ % k_slots], nullptr);
        if (due != nullptr)
            due->link_ = &due;
        while (due != nullptr)
            visit(*due, now);
    }
    current_ = std::max(current_, target);
}

void DeadlineWheel::arm(std::uint64_t tick) {
    if (stopped_ || tick >= armed_)
        return;
    armed_ = tick;
    timer_.expires_at(start_ + tick * tick_);
    timer_.async_wait([this](const boost::system::error_code& error) {
        if (error)
            return;
        armed_ = UINT64_MAX;
        advance(std::chrono::steady_clock::now());
        arm_next();
    });
}

void DeadlineWheel::arm_next() {
    if (linked_ == 0)
        return;
    for (std::uint64_t tick = current_ + 1; tick <= current_ + k_slots; ++tick) {
        if (slots_[tick % k_slots] != nullptr)
            return arm(tick);
    }
}

}  // namespace atl::http
