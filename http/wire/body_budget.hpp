// Memory for request bodies and WebSocket messages that have begun, bounded over all connections. Each
// connection has k_free_body_bytes that do not count, so small messages never wait. A longer message takes a
// place for its whole length before more of it is read: a message with a place can always be completed, so no
// two messages wait for each other. Other messages wait in the order in which they came, and the server reads
// nothing of them meanwhile. Single-threaded. Not here: deadlines. The reader of a message has one deadline
// for the wait and another for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "http/wire/wake_event.hpp"

namespace atl::http {

class BodyBudget {
  public:
    /// One message's place. Given back with the object. The budget must outlive it.
    class Place {
      public:
        Place() = default;
        ~Place() { release(); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        /// Takes `bytes` (or the whole budget, if that is less) at once or waits for them; `wake` is posted
        /// when they are there. Nothing if it waits or has a place already.
        void ask(BodyBudget& budget, std::size_t bytes, std::shared_ptr<WakeEvent> wake);
        void release();
        bool is_waiting() const noexcept { return state_ == State::waiting; }
        bool is_held() const noexcept { return state_ == State::held; }

      private:
        friend class BodyBudget;
        enum class State : std::uint8_t { none, waiting, held };

        BodyBudget* budget_ = nullptr;
        State state_ = State::none;
        std::size_t bytes_ = 0;
        std::shared_ptr<WakeEvent> wake_;
        std::list<Place*>::iterator at_;
    };

    explicit BodyBudget(std::size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}

    std::size_t limit_bytes() const noexcept { return limit_bytes_; }
    std::size_t used_bytes() const noexcept { return used_bytes_; }
    std::size_t waiting() const noexcept { return waiting_.size(); }

  private:
    void grant();

    std::size_t limit_bytes_;
    std::size_t used_bytes_ = 0;
    std::list<Place*> waiting_;
};

}  // namespace atl::http
