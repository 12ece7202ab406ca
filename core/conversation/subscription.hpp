// One reader of a conversation's log: a cursor, not a queue. The reader asks for what comes after its
// cursor and gets it from the live window or, further back, from the store; so a slow reader costs no
// memory and never holds up another. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

class LiveWindow;

/// What a reader got. `gone`: the conversation was removed and nothing will follow.
struct Batch {
    std::vector<EventPtr> events;
    bool gone = false;
};

class Subscription {
  public:
    /// Reads what comes after `after`.
    Subscription(std::shared_ptr<LiveWindow> window, std::uint64_t after);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    /// The next committed events after the cursor, about `limit_bytes` of them at most (one at least), and
    /// moves the cursor behind them. Empty: the reader has all there is; wait for on_wake. Errors:
    /// seq_expired (the log was cut past the cursor; detail names the first seq), storage_failed.
    base::Result<Batch> next(std::size_t limit_bytes);

    /// How many readers the conversation has, which may all be woken at the same moment.
    using Wake = std::function<void(std::size_t together)>;

    /// `wake` is called, at most once a call of next() that returned empty, when there is more or the
    /// conversation is gone. It must only set something off, not read. Pass nullptr to be left alone.
    void on_wake(Wake wake);

    std::uint64_t cursor() const noexcept { return cursor_; }

  private:
    friend class LiveWindow;
    std::shared_ptr<LiveWindow> window_;
    std::uint64_t cursor_;
    bool waiting_ = false;
    Wake wake_;
};

}  // namespace atl::conversation
