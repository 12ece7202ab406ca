#include "core/conversation/retention.hpp"

#include <algorithm>
#include <utility>

namespace atl::conversation {

void Retention::keep(const std::string& id, base::Millis ended_ago) {
    const base::Millis whole = context_.settings.keep_ended;
    const auto left = std::clamp<base::Millis>(whole - ended_ago, base::Millis{0}, whole);
    ended_.emplace(context_.clock.steady_now() + left, id);
    arm();
}

void Retention::arm() {
    context_.timers.cancel(std::exchange(timer_, 0));
    if (ended_.empty())
        return;
    auto wait = base::Millis{0};
    if (ended_.size() <= base::k_max_kept_ended)
        wait = std::max(wait,
                        std::chrono::ceil<base::Millis>(ended_.begin()->first - context_.clock.steady_now()));
    timer_ = context_.timers.arm(wait, [this] {
        timer_ = 0;
        forget_some();
    });
}

void Retention::forget_some() {
    const auto now = context_.clock.steady_now();
    for (std::size_t forgotten = 0; forgotten < base::k_forgotten_at_once && !ended_.empty(); ++forgotten) {
        if (ended_.size() <= base::k_max_kept_ended && ended_.begin()->first > now)
            break;
        forget_(ended_.extract(ended_.begin()).mapped());
    }
    arm();
}

}  // namespace atl::conversation
