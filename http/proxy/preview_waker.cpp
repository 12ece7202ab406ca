#include "http/proxy/preview_waker.hpp"

#include <algorithm>
#include <utility>

#include "core/plain/preview_limits.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr std::chrono::seconds k_minute{60};
constexpr auto k_pause = std::chrono::ceil<std::chrono::seconds>(base::k_preview_wake_pause);

std::chrono::seconds whole_seconds(base::SteadyTime::duration time) {
    return std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(time));
}

// Sec-Purpose is a list with parameters: "prefetch;prerender".
bool is_prefetch(std::string_view purpose) {
    while (!purpose.empty()) {
        std::string_view item = take_element(purpose, ',');
        if (iequals(take_element(item, ';'), "prefetch"))
            return true;
    }
    return false;
}

}  // namespace

PreviewWaker::PreviewWaker(const base::Clock& clock, base::Timers& timers, Bounds bounds, Wake wake)
    : clock_(clock),
      timers_(timers),
      wake_(std::move(wake)),
      wakes_({"wakes", "wakes a minute", "A wake counts for a minute.", bounds.wakes_per_minute,
              base::k_preview_wakes_user_floor, std::chrono::seconds(1)},
             bounds.user_share_percent),
      tries_({"wake_tries", "tries", "A try counts for ten seconds.", base::k_max_wake_pauses,
              base::k_wake_pauses_user_floor, k_pause},
             bounds.user_share_percent),
      self_(std::make_shared<PreviewWaker*>(this)) {}

PreviewWaker::~PreviewWaker() {
    *self_ = nullptr;
    for (const auto& [id, waking] : waking_) {
        for (const auto& waiter : waking.waiters)
            timers_.cancel(waiter->timer);
    }
}

bool PreviewWaker::may_wake(const Request& request) noexcept {
    if (request.method == Method::head)
        return false;
    return std::none_of(request.fields.begin(), request.fields.end(), [](const HeaderField& field) {
        const bool tells = iequals(field.name, "Sec-Purpose") || iequals(field.name, "Purpose") ||
                           iequals(field.name, "X-Purpose") || iequals(field.name, "X-Moz");
        return tells && is_prefetch(field.value);
    });
}

void PreviewWaker::forget_old(base::SteadyTime now) {
    while (!counted_.empty() && counted_.begin()->first.first <= now - k_minute)
        counted_.erase(counted_.begin());
    while (!begun_by_time_.empty()) {
        const auto oldest = begun_.find(begun_by_time_.front());
        if (oldest->second.begun > now - base::k_preview_wake_pause)
            return;
        begun_.erase(oldest);
        begun_by_time_.pop_front();
    }
}

Result<void> PreviewWaker::admit(const std::string& sandbox_id) {
    const base::SteadyTime now = clock_.steady_now();
    forget_old(now);
    if (const auto last = begun_.find(sandbox_id); last != begun_.end())
        return Error(Errc::paused, "The conversation of this preview was woken a moment ago.",
                     whole_seconds(last->second.begun + base::k_preview_wake_pause - now));
    if (wakes_.spec().total == 0)
        return Error(Errc::paused);
    if (wakes_.used() >= wakes_.spec().total)
        return until_next(wakes_.refusal({}, 1), nullptr);
    // Their owners may not be known yet.
    if (waking_.size() >= base::k_max_wake_pauses)
        return Error(Errc::capacity, "Too many previews are being woken; try again later.",
                     std::chrono::seconds(1));
    return {};
}

/// Begins the pause of a conversation.
Result<void> PreviewWaker::remember(const std::string& sandbox_id, const base::ShareHolder& owner) {
    const base::SteadyTime now = clock_.steady_now();
    forget_old(now);
    auto share = tries_.take(owner, 1);
    if (!share && !begun_by_time_.empty()) {
        const base::SteadyTime oldest = begun_.at(begun_by_time_.front()).begun;
        return Error(share.error()).after(whole_seconds(oldest + base::k_preview_wake_pause - now));
    }
    if (!share)
        return share.error();
    begun_by_time_.push_back(sandbox_id);
    begun_.emplace(sandbox_id, Try{now, std::move(*share)});
    return {};
}

Result<void> PreviewWaker::count(const std::string& sandbox_id, const base::ShareHolder& owner) {
    waking_.at(sandbox_id).has_owner = true;
    // A refusal begins the pause, too: it costs a load.
    if (auto remembered = remember(sandbox_id, owner); !remembered)
        return remembered;
    auto share = wakes_.take(owner, 1);
    if (!share)
        return until_next(share.error(), share.error().code() == Errc::user_share ? &owner : nullptr);
    counted_.emplace(std::pair(waking_.at(sandbox_id).begun, sandbox_id), Counted{owner, std::move(*share)});
    return {};
}

/// The same, with the time until the next wake ceases to count: of this owner; null: of anybody.
Error PreviewWaker::until_next(Error why, const base::ShareHolder* owner) const {
    for (const auto& [begin, counted] : counted_) {
        if (owner == nullptr || counted.owner == *owner)
            return std::move(why).after(whole_seconds(begin.first + k_minute - clock_.steady_now()));
    }
    return why;
}

void PreviewWaker::wake(const std::string& sandbox_id, base::Millis wait, Reply reply) {
    const bool is_first = !waking_.contains(sandbox_id);
    if (is_first) {
        if (auto admitted = admit(sandbox_id); !admitted)
            return reply(admitted);
    }
    Waking& waking = waking_[sandbox_id];
    if (is_first)
        waking.begun = clock_.steady_now();
    auto& waiters = waking.waiters;
    std::erase_if(waiters, [](const auto& waiter) { return waiter->reply == nullptr; });
    if (waiters.size() >= base::k_max_wake_waiters)
        return reply(Error(Errc::paused, "", std::chrono::seconds(1)));
    const auto waiter = std::make_shared<Waiter>(Waiter{std::move(reply), 0});
    waiter->timer = timers_.arm(wait, [waiter] {
        std::exchange(waiter->reply, nullptr)(
            Error(Errc::paused, "The conversation of this preview is being woken.", std::chrono::seconds(1)));
    });
    waiters.push_back(waiter);
    if (!is_first)
        return;
    const auto may = [self = self_, sandbox_id](const base::ShareHolder& owner) {
        return *self != nullptr ? (*self)->count(sandbox_id, owner)
                                : Result<void>(Error(Errc::shutting_down));
    };
    wake_(sandbox_id, may, [self = self_, sandbox_id](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->end(sandbox_id, result);
    });
}

void PreviewWaker::end(const std::string& sandbox_id, const Result<void>& result) {
    const auto ended = waking_.extract(sandbox_id);
    if (ended.empty())
        return;
    // Sandboxes that cannot be woken must not use up the wakes of a minute.
    if (result.has_error())
        counted_.erase({ended.mapped().begun, sandbox_id});
    // A load that failed costs as much again.
    if (result.has_error() && !ended.mapped().has_owner)
        static_cast<void>(remember(sandbox_id, base::ShareHolder::strangers()));
    for (const auto& waiter : ended.mapped().waiters) {
        timers_.cancel(waiter->timer);
        if (const Reply reply = std::exchange(waiter->reply, nullptr))
            reply(result);
    }
}

}  // namespace atl::http
