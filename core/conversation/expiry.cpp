#include "core/conversation/expiry.hpp"

#include <algorithm>
#include <utility>

#include "core/conversation/journal.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {
namespace {

// Of one look; more are due a moment later.
constexpr std::size_t k_expiring_looked_at = base::k_forgotten_at_once;
constexpr base::Millis k_expiry_pause{250};
constexpr base::Millis k_retry{1000};
constexpr base::Millis k_never = base::Millis::max();

}  // namespace

void Expiry::stop() {
    context_.timers.cancel(std::exchange(timer_, 0));
    *self_ = nullptr;
}

void Expiry::look_again() {
    if (*self_ == nullptr || std::exchange(scheduled_, true))
        return;
    context_.journal.after_commit([self = self_] {
        if (*self != nullptr)
            (*self)->look();
    });
}

void Expiry::arm(base::Millis wait) {
    context_.timers.cancel(std::exchange(timer_, 0));
    if (wait == k_never)
        return;
    timer_ = context_.timers.arm(wait, [this] {
        timer_ = 0;
        look();
    });
}

void Expiry::look() {
    scheduled_ = false;
    context_.store.find_ending(
        false, k_expiring_looked_at, [self = self_](base::Result<std::vector<Ending>> found) {
            if (*self == nullptr)
                return;
            Expiry& it = **self;
            if (!found)
                return it.arm(k_retry);
            base::Millis next = found->size() == k_expiring_looked_at ? k_retry : k_never;
            for (const Ending& ending : *found) {
                const auto left = ending.life - it.context_.ages.age_of(ending.created_at);
                if (left > base::Millis{0})
                    next = std::min(next, left);
                if (left > base::Millis{0} || it.actions_.is_loaded(ending.id))
                    continue;
                // Perhaps it cannot be read now.
                next = std::min(next, k_retry);
                it.actions_.end(ending.id);
            }
            it.look_at_ended(next);
        });
}

void Expiry::look_at_ended(base::Millis next) {
    const auto count = context_.stats.by_status[Status::ended];
    const std::size_t most = context_.settings.max_kept_ended;
    std::size_t too_many = count > most ? count - most : 0;
    context_.store.find_ending(
        true, k_expiring_looked_at,
        [self = self_, next, too_many](base::Result<std::vector<Ending>> found) mutable {
            if (*self == nullptr)
                return;
            Expiry& it = **self;
            if (!found)
                return it.arm(k_retry);
            for (const Ending& ending : *found) {
                const auto ended_ago = it.context_.ages.age_of(ending.created_at) - ending.life;
                const base::Millis left = it.context_.settings.keep_ended - ended_ago;
                if (left > base::Millis{0} && too_many == 0) {
                    next = std::min(next, left);
                    continue;
                }
                too_many -= too_many > 0 ? 1 : 0;
                // What was forgotten is still found until that is committed, and what cannot be forgotten
                // yet.
                next = std::min(next, it.context_.journal.healthy() ? k_expiry_pause : k_retry);
                it.actions_.forget(ending.id);
            }
            it.arm(next);
        });
}

}  // namespace atl::conversation
