// Wakes paused conversations whose previews are asked for: one wake at a time for a conversation, however
// many ask, at most one in base::k_preview_wake_pause, and a bounded number in a minute for the whole server,
// of which one that failed is none.
// Whoever asks waits for a bounded time. Not here: whether a preview may be woken at all (its settings), and
// how (conversation::Manager::wake).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

class PreviewWaker {
  public:
    using Reply = std::function<void(base::Result<void>)>;
    using Wake = std::function<void(const std::string& sandbox_id, Reply reply)>;

    /// `wake` answers each call once. The references must outlive this.
    PreviewWaker(const base::Clock& clock, base::Timers& timers, std::uint32_t wakes_per_minute, Wake wake);
    ~PreviewWaker();
    PreviewWaker(const PreviewWaker&) = delete;
    PreviewWaker& operator=(const PreviewWaker&) = delete;

    /// False for HEAD, by which the waiting page asks, and for what a browser only fetches ahead.
    static bool may_wake(const Request& request) noexcept;

    /// `reply` once, possibly from inside the call: a success when the sandbox is up. Errors: preview_paused:
    /// it was woken a moment ago, or is not up after `wait`; capacity: the server has woken enough in this
    /// minute; those of `wake`.
    void wake(const std::string& sandbox_id, base::Millis wait, Reply reply);

  private:
    struct Waiter {
        Reply reply;  // null: answered
        base::TimerId timer = 0;
    };
    using Waiters = std::vector<std::shared_ptr<Waiter>>;
    struct Begun {
        base::SteadyTime at;
        std::string sandbox_id;
        bool counts = true;  // among those of the minute: it goes on, or went well
    };

    Begun* last_of(const std::string& sandbox_id);
    base::Result<void> admit(const std::string& sandbox_id);
    void end(const std::string& sandbox_id, const base::Result<void>& result);

    const base::Clock& clock_;
    base::Timers& timers_;
    const std::uint32_t wakes_per_minute_;
    const Wake wake_;
    std::deque<Begun> begun_;  // in the last minute, or pause for one that failed; the oldest first
    std::map<std::string, Waiters> waking_;
    std::shared_ptr<PreviewWaker*> self_;  // null inside once it is destroyed
};

}  // namespace atl::http
