#include "core/conversation/expiry.hpp"

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {
namespace {

// The number of conversations in a look; if more are due, the next look comes a moment later.
constexpr std::size_t k_expiring_looked_at = base::k_forgotten_at_once;
// The conversations that wait for another try are the first that the store finds: a look goes beyond so many
// of them.
constexpr std::size_t k_waiting_looked_past = 112;
constexpr base::Millis k_expiry_pause{250};
constexpr base::Millis k_retry{1000};
constexpr base::Millis k_longest_wait{60'000};
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
    ++looks_;
    tries_left_ = k_expiring_looked_at;
    const std::size_t limit = looked_at();
    context_.store.find_ending(false, limit, [self = self_, limit](base::Result<std::vector<Ending>> found) {
        if (*self == nullptr)
            return;
        Expiry& it = **self;
        if (!found)
            return it.arm(k_retry);
        base::Millis next = found->size() == limit ? k_retry : k_never;
        for (const Ending& ending : *found) {
            const auto left = ending.life - it.context_.ages.age_of(ending.created_at);
            if (left > base::Millis{0})
                next = std::min(next, left);
            if (left > base::Millis{0} || it.actions_.is_loaded(ending.id))
                continue;
            next = std::min(next, it.try_or_wait(ending.id, it.actions_.end));
        }
        it.look_at_ended(next);
    });
}

void Expiry::look_at_ended(base::Millis next) {
    const auto count = context_.stats.by_status[Status::ended];
    const std::size_t most = context_.settings.max_kept_ended;
    std::size_t too_many = count > most ? count - most : 0;
    tries_left_ = k_expiring_looked_at;
    context_.store.find_ending(
        true, looked_at(), [self = self_, next, too_many](base::Result<std::vector<Ending>> found) mutable {
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
                next = std::min(next, it.try_or_wait(ending.id, it.actions_.forget));
            }
            it.forget_attempts();
            it.arm(next);
        });
}

std::size_t Expiry::looked_at() const {
    return k_expiring_looked_at + std::min(attempts_.size(), k_waiting_looked_past);
}

base::Millis Expiry::try_or_wait(const std::string& id, const Act& act) {
    // The store still finds a forgotten conversation until that is committed.
    const base::Millis soon = context_.journal.healthy() ? k_expiry_pause : k_retry;
    Attempt& attempt = attempts_[id];
    attempt.look = looks_;
    if (attempt.is_under_way)
        return k_retry;
    if (const auto left = attempt.next - context_.clock.steady_now(); left.count() > 0)
        return std::chrono::ceil<base::Millis>(left);
    if (tries_left_ == 0)
        return soon;
    --tries_left_;
    attempt.is_under_way = true;
    act(id, [self = self_, id](const base::Result<void>& done) {
        if (*self != nullptr)
            (*self)->on_tried(id, done);
    });
    return soon;
}

void Expiry::on_tried(const std::string& id, const base::Result<void>& done) {
    const auto found = attempts_.find(id);
    if (found == attempts_.end())
        return;
    if (done) {
        attempts_.erase(found);
        return;
    }
    Attempt& attempt = found->second;
    attempt.is_under_way = false;
    attempt.wait = std::clamp(2 * attempt.wait, k_expiry_pause, k_longest_wait);
    attempt.next = context_.clock.steady_now() + attempt.wait;
    if (done.error().code() == base::Errc::storage_failed && !std::exchange(logged_failure_, true))
        base::LogLine(base::evt::store_failed).field("conv", id).quoted("err", done.error().detail()).warn();
}

/// Drops the attempts for conversations that are not due any more: erased by a client, or with a longer time
/// to live.
void Expiry::forget_attempts() {
    std::erase_if(attempts_, [this](const auto& entry) {
        return !entry.second.is_under_way && entry.second.look != looks_;
    });
    if (attempts_.empty())
        logged_failure_ = false;
}

}  // namespace atl::conversation
