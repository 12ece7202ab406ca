#include <algorithm>
#include <utility>

#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

void Manager::Impl::arm_life(Conversation& conversation) {
    timers_.cancel(std::exchange(conversation.life_timer, 0));
    if (conversation.machine.status() == Status::ended)
        return;
    const auto wait = until_end_of_life(conversation);
    if (wait == base::Millis::max())
        return;
    conversation.life_timer = timers_.arm(std::max(wait, base::Millis{0}),
                                          [this, id = conversation.record.id] { on_life_timer(id); });
}

/// Until the next time something may be over: its life, its idleness, its warm pause.
base::Millis Manager::Impl::until_end_of_life(const Conversation& conversation) const {
    const Record& record = conversation.record;
    auto wait = base::Millis::max();
    const auto passed = [this](base::SteadyTime since) {
        return std::chrono::ceil<base::Millis>(clock_.steady_now() - since);
    };
    if (record.idle_seconds > 0 && conversation.machine.sandbox_up() && !conversation.machine.turn_open()) {
        wait = std::chrono::seconds(record.idle_seconds) - passed(conversation.last_activity);
    }
    if (conversation.machine.sandbox_is_frozen())
        wait = settings_.warm_limit - passed(conversation.frozen_at);
    if (record.ttl_seconds > 0)
        wait = std::min<base::Millis>(wait,
                                      std::chrono::seconds(record.ttl_seconds) - passed(conversation.born));
    return wait;
}

void Manager::Impl::on_life_timer(const std::string& id) {
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return;
    conversation->life_timer = 0;
    const Record& record = conversation->record;
    const auto now = clock_.steady_now();
    if (record.ttl_seconds > 0 && now - conversation->born >= std::chrono::seconds(record.ttl_seconds)) {
        end(*conversation, "conversation_ended", "the conversation's time to live is over");
        return;
    }
    const auto idle = now - conversation->last_activity;
    if (conversation->machine.sandbox_is_frozen() && now - conversation->frozen_at >= settings_.warm_limit) {
        perform(*conversation,
                conversation->machine.pause(
                    conversation->machine.reason(), "paused",
                    "it was frozen for " + std::to_string(settings_.warm_limit / std::chrono::seconds{1}) +
                        " s"));
    } else if (record.idle_seconds > 0 && conversation->machine.sandbox_up() &&
               !conversation->machine.turn_open() && idle >= std::chrono::seconds(record.idle_seconds)) {
        pause_warm(*conversation, PauseReason::idle,
                   "nothing happened for " + std::to_string(record.idle_seconds) + " s");
    }
    if (Conversation* still = find(id))
        arm_life(*still);
}

/// Lets it be read for a while. Precondition: it has ended and its sandbox is gone.
void Manager::Impl::keep_ended(const Conversation& conversation, base::Millis ended_ago) {
    const auto left =
        std::clamp<base::Millis>(settings_.keep_ended - ended_ago, base::Millis{0}, settings_.keep_ended);
    ended_.emplace(clock_.steady_now() + left, conversation.record.id);
    arm_forgetting();
}

void Manager::Impl::arm_forgetting() {
    timers_.cancel(std::exchange(forget_timer_, 0));
    if (ended_.empty())
        return;
    auto wait = base::Millis{0};
    if (ended_.size() <= base::k_max_kept_ended)
        wait = std::max(wait, std::chrono::ceil<base::Millis>(ended_.begin()->first - clock_.steady_now()));
    forget_timer_ = timers_.arm(wait, [this] {
        forget_timer_ = 0;
        forget_ended();
    });
}

void Manager::Impl::forget_ended() {
    for (std::size_t forgotten = 0; forgotten < base::k_forgotten_at_once && !ended_.empty(); ++forgotten) {
        if (ended_.size() <= base::k_max_kept_ended && ended_.begin()->first > clock_.steady_now())
            break;
        Conversation* conversation = find(ended_.extract(ended_.begin()).mapped());
        if (conversation == nullptr || conversation->erasing)
            continue;
        conversation->erasing = true;
        erase(*conversation);
    }
    arm_forgetting();
}

}  // namespace atl::conversation
