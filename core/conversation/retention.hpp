// Conversations that have ended and can still be read: forgotten when their time is over, or when there are
// more of them than base::k_max_kept_ended, a few at a time. Internal to core/conversation.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/base/clock.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Retention {
  public:
    /// `forget` is called with the id of each whose time is over; it may be gone already.
    Retention(Context& context, std::function<void(const std::string& id)> forget)
        : context_(context), forget_(std::move(forget)) {}
    ~Retention() { context_.timers.cancel(timer_); }
    Retention(const Retention&) = delete;
    Retention& operator=(const Retention&) = delete;

    void keep(const std::string& id, base::Millis ended_ago);

  private:
    void arm();
    void forget_some();

    Context& context_;
    std::function<void(const std::string& id)> forget_;
    std::multimap<base::SteadyTime, std::string> ended_;  // ids by when they are forgotten
    base::TimerId timer_ = 0;
};

}  // namespace atl::conversation
