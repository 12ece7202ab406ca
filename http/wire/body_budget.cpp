#include "http/wire/body_budget.hpp"

#include <algorithm>
#include <utility>

namespace atl::http {

void BodyBudget::Place::ask(BodyBudget& budget, std::size_t bytes, std::shared_ptr<WakeEvent> wake) {
    if (state_ != State::none)
        return;
    budget_ = &budget;
    bytes_ = std::min(bytes, budget.limit_bytes_);
    if (budget.waiting_.empty() && bytes_ <= budget.limit_bytes_ - budget.used_bytes_) {
        budget.used_bytes_ += bytes_;
        state_ = State::held;
        return;
    }
    wake_ = std::move(wake);
    at_ = budget.waiting_.insert(budget.waiting_.end(), this);
    state_ = State::waiting;
}

void BodyBudget::Place::release() {
    const State before = std::exchange(state_, State::none);
    if (before == State::none)
        return;
    if (before == State::waiting)
        budget_->waiting_.erase(at_);
    else
        budget_->used_bytes_ -= bytes_;
    wake_.reset();
    budget_->grant();
}

void BodyBudget::grant() {
    while (!waiting_.empty() && waiting_.front()->bytes_ <= limit_bytes_ - used_bytes_) {
        Place& next = *waiting_.front();
        waiting_.pop_front();
        used_bytes_ += next.bytes_;
        next.state_ = Place::State::held;
        std::exchange(next.wake_, nullptr)->post();
    }
}

}  // namespace atl::http
