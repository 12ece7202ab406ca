// A conversation's log as readers see it, and its readers. It has the committed events: the newest of them in
// memory, the others read from the store. Numbering is not its business (event_log.hpp): the log tells it
// what is committed. Single-threaded.
//
// Invariants: a reader sees each committed event once, in order; a slow reader costs no memory but for the
// one batch that the store answered later.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "core/base/reader_list.hpp"
#include "core/conversation/store.hpp"
#include "core/conversation/subscription.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

class LiveWindow {
  public:
    /// `epoch` is that of the log; readers find it in a session_start, which is stored without it. Empty:
    /// none.
    LiveWindow(Store& store, base::Timers& timers, std::int64_t key, std::string epoch)
        : store_(store), key_(key), epoch_(std::move(epoch)), readers_(timers) {}
    LiveWindow(const LiveWindow&) = delete;
    LiveWindow& operator=(const LiveWindow&) = delete;

    /// The store holds the events from `first_seq` to `last_seq`.
    void restore(std::uint64_t first_seq, std::uint64_t last_seq);
    /// The next event is committed. Readers hear of it with wake_all().
    void publish(EventPtr event);
    void wake_all() { readers_.wake_all(); }
    /// The store refuses the next events, for long: readers hear of it with wake_all(), until the next event.
    void stall() noexcept { stalled_ = true; }
    /// Events below this seq are gone.
    void cut(std::uint64_t first_seq);
    /// The conversation is gone: readers are told after the events that are still committed to them.
    void close() noexcept { closed_ = true; }

    const std::string& epoch() const noexcept { return epoch_; }
    std::uint64_t first_seq() const noexcept { return first_seq_; }
    std::uint64_t committed_seq() const noexcept { return committed_seq_; }
    bool is_followed() const noexcept { return !readers_.empty(); }
    /// True if a client follows live. Readers of a page or of a transcript do not count.
    bool has_followers() const noexcept { return followers_ != 0; }
    /// Called when the last reader, and the last client that follows live, is gone; each must only set
    /// something off.
    void on_unfollowed(std::function<void()> no_reader, std::function<void()> no_follower) {
        unfollowed_ = std::move(no_reader);
        unattended_ = std::move(no_follower);
    }

  private:
    friend class Subscription;

    base::Result<Batch> read(Subscription& reader, std::size_t limit_bytes);
    base::Result<Batch> read_store(Subscription& reader, std::uint64_t after, std::size_t limit_bytes);
    void drop_oldest();
    EventPtr with_epoch(EventPtr event) const;

    Store& store_;
    std::int64_t key_;
    std::string epoch_;
    std::uint64_t first_seq_ = 1;
    std::uint64_t committed_seq_ = 0;
    std::deque<EventPtr> events_;  // the newest committed ones
    std::size_t bytes_ = 0;        // the bytes of these
    base::ReaderList<Subscription> readers_;
    std::size_t followers_ = 0;  // the readers that follow live
    std::function<void()> unfollowed_;
    std::function<void()> unattended_;
    bool closed_ = false;
    bool stalled_ = false;
};

}  // namespace atl::conversation
