#include "core/conversation/leases.hpp"

#include <algorithm>
#include <utility>

namespace atl::conversation {

using Phase = LeaseState::Phase;

namespace {

// An error for the stop of the server says if the request was refused or cut short: only a refused request
// may be repeated without a thought.
base::Error of_begun_work(const base::Error& why) {
    if (why.code() != base::Errc::shutting_down)
        return why;
    return base::Error(why).with("begun", "true");
}

}  // namespace

Lease::~Lease() {
    state_->ended = nullptr;
    if (std::exchange(state_->phase, Phase::over) == Phase::held && state_->released)
        state_->released(state_->use);
}

LeaseTable::~LeaseTable() {
    for (const auto& state : states_)
        state->released = nullptr;
}

void LeaseTable::add(std::string sandbox_id, LeaseUse use, LeaseReply reply) {
    forget_finished();
    auto state = std::make_shared<LeaseState>();
    state->use = use;
    state->sandbox_id = std::move(sandbox_id);
    state->reply = std::move(reply);
    state->released = released_;
    states_.push_back(std::move(state));
}

void LeaseTable::grant() {
    for (const auto& state : states_) {
        if (state->phase != Phase::waiting)
            continue;
        state->phase = Phase::held;
        timers_.defer([state, reply = std::exchange(state->reply, nullptr)] {
            if (state->phase == Phase::over)
                return reply(state->why);
            reply(std::make_unique<Lease>(state));
        });
    }
}

void LeaseTable::end(action::LeaseScope scope, const base::Error& why) {
    for (const auto& state : states_) {
        const bool waits = state->phase == Phase::waiting;
        const bool is_meant =
            scope == action::LeaseScope::all || waits == (scope == action::LeaseScope::waiting);
        if (state->phase == Phase::over || !is_meant)
            continue;
        state->phase = Phase::over;
        state->why = waits ? why : of_begun_work(why);
        if (waits)
            timers_.defer([state, reply = std::exchange(state->reply, nullptr)] { reply(state->why); });
        else
            timers_.defer([state] {
                if (const auto ended = std::exchange(state->ended, nullptr))
                    ended(state->why);
            });
    }
    forget_finished();
}

bool LeaseTable::is_empty() const {
    return std::ranges::all_of(states_, [](const auto& state) { return state->phase == Phase::over; });
}

void LeaseTable::forget_finished() {
    std::erase_if(states_, [](const auto& state) { return state->phase == Phase::over; });
}

}  // namespace atl::conversation
