// Wakes paused conversations whose previews are asked for: one wake at a time for a conversation, however
// many ask, at most one in base::k_preview_wake_pause, and a bounded number in a minute for the whole server,
// in which each owner of conversations has a share. A wake that failed does not count towards that number.
// The conversations that are in their pause are bounded, too, with a share for each owner: each try costs a
// search for room. Whoever asks waits for a bounded time. Not here: whether a preview may be woken at all
// (its settings), and how (conversation::Manager::wake).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

class PreviewWaker {
  public:
    using Reply = std::function<void(base::Result<void>)>;
    /// Tells if a conversation of this owner may be woken.
    using May = std::function<base::Result<void>(const base::ShareHolder& owner)>;
    using Wake = std::function<void(const std::string& sandbox_id, May may, Reply reply)>;
    struct Bounds {
        std::uint32_t wakes_per_minute = 0;
        unsigned user_share_percent = base::k_default_user_share_percent;
    };

    /// `wake` answers each call once, and asks `may` before it wakes. The references must outlive this.
    PreviewWaker(const base::Clock& clock, base::Timers& timers, Bounds bounds, Wake wake);
    ~PreviewWaker();
    PreviewWaker(const PreviewWaker&) = delete;
    PreviewWaker& operator=(const PreviewWaker&) = delete;

    /// False for HEAD, by which the waiting page asks, and for what a browser only fetches ahead.
    static bool may_wake(const Request& request) noexcept;

    /// `reply` once, possibly from inside the call: a success when the sandbox is up. Errors: paused
    /// if it was woken a moment ago or is not up after `wait`; capacity if the server has woken enough in
    /// this minute, or has tried to too often; user_share if that is so of this owner's; those of `wake`.
    void wake(const std::string& sandbox_id, base::Millis wait, Reply reply);
    /// The wakes of the last minute.
    const base::Budget& wakes() const noexcept { return wakes_; }
    /// The conversations that are in their pause.
    const base::Budget& tries() const noexcept { return tries_; }

  private:
    struct Waiter {
        Reply reply;  // null: answered
        base::TimerId timer = 0;
    };
    struct Waking {
        base::SteadyTime begun;
        std::vector<std::shared_ptr<Waiter>> waiters;
        bool has_owner = false;  // the owner is known
    };

    struct Counted {
        base::ShareHolder owner;
        base::Share share;
    };
    struct Try {
        base::SteadyTime begun;
        base::Share share;
    };

    void forget_old(base::SteadyTime now);
    base::Result<void> admit(const std::string& sandbox_id);
    base::Result<void> remember(const std::string& sandbox_id, const base::ShareHolder& owner);
    base::Result<void> count(const std::string& sandbox_id, const base::ShareHolder& owner);
    base::Error until_next(base::Error why, const base::ShareHolder* owner) const;
    void end(const std::string& sandbox_id, const base::Result<void>& result);

    const base::Clock& clock_;
    base::Timers& timers_;
    const Wake wake_;
    base::Budget wakes_;
    base::Budget tries_;
    // The wakes of the last minute that go on or went well, by the time of their begin.
    std::map<std::pair<base::SteadyTime, std::string>, Counted> counted_;
    std::unordered_map<std::string, Try> begun_;  // in the last pause, whatever became of it
    std::deque<std::string> begun_by_time_;       // the same, the oldest first
    std::unordered_map<std::string, Waking> waking_;
    std::shared_ptr<PreviewWaker*> self_;  // null inside once it is destroyed
};

}  // namespace atl::http
