#include "http/wire/body_budget.hpp"

#include <algorithm>
#include <utility>

namespace atl::http {

base::Result<void> BodyBudget::Place::ask(BodyBudget& budget, const base::ShareHolder& holder,
                                          std::size_t bytes, std::shared_ptr<WakeEvent> wake) {
    if (state_ != State::none)
        return {};
    budget_ = &budget;
    bytes_ = std::min<std::size_t>(bytes, budget.budget_.spec().total);
    auto share = budget.budget_.take(holder, bytes_);
    if (share.has_error() && share.error().code() == base::Errc::user_share)
        return share.error();
    if (share && budget.waiting_.empty()) {
        share_ = std::move(*share);
        state_ = State::held;
        return {};
    }
    holder_ = holder;
    wake_ = std::move(wake);
    at_ = budget.waiting_.insert(budget.waiting_.end(), this);
    state_ = State::waiting;
    return {};
}

void BodyBudget::Place::release() {
    const State before = std::exchange(state_, State::none);
    if (before == State::none)
        return;
    if (before == State::waiting)
        budget_->waiting_.erase(at_);
    share_ = base::Share();
    wake_.reset();
    budget_->grant();
}

void BodyBudget::grant() {
    while (!waiting_.empty()) {
        Place& next = *waiting_.front();
        auto share = budget_.take(next.holder_, next.bytes_);
        if (share.has_error() && share.error().code() != base::Errc::user_share)
            return;
        // A request whose user has no room any more asks again, and is refused.
        waiting_.pop_front();
        next.state_ = share ? Place::State::held : Place::State::none;
        if (share)
            next.share_ = std::move(*share);
        std::exchange(next.wake_, nullptr)->post();
    }
}

}  // namespace atl::http
