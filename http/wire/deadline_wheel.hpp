// Deadlines of all connections in one hashed wheel with one timer. Moving a deadline later, the usual case,
// only stores a number: the entry is looked at when its old slot comes and moved then. Moving it earlier
// relinks it, O(1). So a request costs no heap operation and no system call. Deadlines fire up to one tick
// late, never early. Single-threaded. An entry that is destroyed leaves the wheel by itself; entries must not
// outlive the wheel.
#pragma once

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <cstdint>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"

namespace atl::http {

class DeadlineWheel {
  public:
    using Time = base::SteadyTime;

    class Entry {
      public:
        Entry() = default;
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        virtual ~Entry() { unlink(); }
        Time deadline() const noexcept { return deadline_; }

      protected:
        /// The deadline has passed and is now cleared. May change any deadline; must not destroy entries.
        virtual void on_deadline() = 0;

      private:
        friend class DeadlineWheel;
        void unlink() noexcept;

        Time deadline_ = Time::max();
        std::uint64_t tick_ = 0;  // of the slot that it is in, while linked
        Entry* next_ = nullptr;
        Entry** link_ = nullptr;  // the pointer to this entry; null: in no slot
        std::size_t* count_ = nullptr;
    };

    DeadlineWheel(base::Executor executor, base::Millis tick);
    DeadlineWheel(const DeadlineWheel&) = delete;
    DeadlineWheel& operator=(const DeadlineWheel&) = delete;
    ~DeadlineWheel();

    void set(Entry& entry, Time deadline);
    void clear(Entry& entry) noexcept { entry.deadline_ = Time::max(); }
    /// Lets the loop run out of this work. Later deadlines never fire.
    void stop();
    /// Fires the deadlines that are due at `now`. The timer calls it; public for tests.
    void advance(Time now);

  private:
    using Timer = boost::asio::basic_waitable_timer<
        std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, base::Executor>;
    static constexpr std::size_t k_slots = 4096;

    std::uint64_t tick_after(Time time) const noexcept;
    void link(Entry& entry, std::uint64_t tick) noexcept;
    void visit(Entry& entry, Time now);
    void arm(std::uint64_t tick);
    void arm_next();
    std::uint64_t tick_before(Time time) const noexcept;

    Timer timer_;
    base::Millis tick_;
    Time start_;
    std::uint64_t current_ = 0;  // every slot up to this tick has been visited
    std::uint64_t armed_ = UINT64_MAX;
    std::size_t linked_ = 0;
    std::array<Entry*, k_slots> slots_{};
    bool stopped_ = false;
};

}  // namespace atl::http
