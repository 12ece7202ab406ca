// A reader of a conversation's log: a cursor, not a queue. The reader asks for the events after its cursor
// and gets them from the live window or, further back, from the store. So a slow reader costs no memory and
// never holds up another. A store that answers later wakes the reader, which asks again. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/types.hpp"

namespace atl::base {
template <class Reader>
class ReaderList;
}  // namespace atl::base

namespace atl::conversation {

class LiveWindow;

/// The result of a read.
struct Batch {
    std::vector<EventPtr> events;
    bool gone = false;     // the conversation was removed and nothing will follow
    bool stalled = false;  // the store refuses the next events; `events` is empty
    bool reading = false;  // there are more, and the store has not answered yet: `events` is empty
};

class Subscription {
  public:
    /// Makes a reader of the events after `after`.
    Subscription(std::shared_ptr<LiveWindow> window, std::uint64_t after, base::ShareHolder owner = {});
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    /// Returns the next committed events after the cursor, about `limit_bytes` of them at most (one at
    /// least), and moves the cursor behind them. The batch is empty where the reader has all there is, or the
    /// store has not answered yet (Batch::reading): then wait for on_wake. The limit of a call bounds the
    /// store's answer to it; the call after that answer returns it. Destroying the subscription drops an
    /// answer that is still to come. Errors: seq_expired (the log was cut past the cursor, perhaps while the
    /// store was reading; detail names the first seq), storage_failed.
    base::Result<Batch> next(std::size_t limit_bytes);

    /// From now on this reader counts as a client that follows the log live. Call it once.
    void follow() noexcept;

    using Wake = std::function<void()>;

    /// `wake` is called, at most once a call of next() that returned empty, when there is more, the store has
    /// answered or the conversation is gone. It must only set something off, not read. Pass nullptr to be
    /// left alone.
    void on_wake(Wake wake);

    /// The conversation's user.
    const base::ShareHolder& owner() const noexcept { return owner_; }
    std::uint64_t cursor() const noexcept { return cursor_; }
    /// The epoch of the log.
    const std::string& epoch() const noexcept;

  private:
    friend class LiveWindow;
    friend class base::ReaderList<Subscription>;
    struct Asked {
        Subscription& reader;
        std::uint64_t after;
        std::optional<base::Result<std::vector<EventPtr>>> answer;
    };

    void ask(std::uint64_t after, std::size_t limit_bytes);
    void wake();

    std::shared_ptr<LiveWindow> window_;
    std::uint64_t cursor_;
    const base::ShareHolder owner_;
    bool follows_ = false;
    bool waiting_ = false;
    Wake wake_;
    std::shared_ptr<Asked> asked_;  // the store's, until next() has returned the answer; owned here alone
};

}  // namespace atl::conversation
