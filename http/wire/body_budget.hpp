// Memory for request bodies and WebSocket messages that have begun, bounded over all connections. Each
// connection has k_free_body_bytes that do not count, so small messages never wait. A longer message takes a
// place for its whole length before more of it is read: a message with a place can always be completed, so no
// two messages wait for each other. Other messages wait in the order in which they came, and the server reads
// nothing of them meanwhile. What is beyond a user's share is refused instead. Single-threaded. Not here:
// deadlines. The reader of a message has one deadline for the wait and another for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "core/base/shares.hpp"
#include "http/wire/wake_event.hpp"

namespace atl::http {

class BodyBudget {
  public:
    /// The place of one message. It is given back with the object. The budget must outlive it.
    class Place {
      public:
        Place() = default;
        ~Place() { release(); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        /// Takes `bytes` (or the whole budget, if that is less) at once or waits for them; `wake` is posted
        /// when they are there, or when it is worth to ask again. Nothing if it waits or has a place already.
        /// Errors: user_share.
        base::Result<void> ask(BodyBudget& budget, const base::ShareHolder& holder, std::size_t bytes,
                               std::shared_ptr<WakeEvent> wake);
        void release();
        bool is_waiting() const noexcept { return state_ == State::waiting; }
        bool is_held() const noexcept { return state_ == State::held; }

      private:
        friend class BodyBudget;
        enum class State : std::uint8_t { none, waiting, held };

        BodyBudget* budget_ = nullptr;
        State state_ = State::none;
        std::size_t bytes_ = 0;
        base::ShareHolder holder_;
        base::Share share_;
        std::shared_ptr<WakeEvent> wake_;
        std::list<Place*>::iterator at_;
    };

    /// Nobody else takes of `budget`, which must outlive it.
    explicit BodyBudget(base::Budget& budget) noexcept : budget_(budget) {}

    std::size_t used_bytes() const noexcept { return budget_.used(); }
    std::size_t waiting() const noexcept { return waiting_.size(); }

  private:
    void grant();

    base::Budget& budget_;
    std::list<Place*> waiting_;
};

}  // namespace atl::http
