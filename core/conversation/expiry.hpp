// Ends conversations that rest once their time to live is over, and forgets those that ended long ago or are
// too many. Finds both in the store, so those that rest cost no memory. Internal to core/conversation.
//
// Invariant: a timer is armed while the store has a conversation with a time to live, or an ended one.
#pragma once

#include <functional>
#include <string>

#include "core/base/clock.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Expiry {
  public:
    struct Actions {
        /// Whether a conversation is loaded: one with a time to live ends by itself.
        std::function<bool(const std::string& id)> is_loaded;
        /// Loads one whose time is over, which then ends.
        std::function<void(const std::string& id)> end;
        /// Erases one that has ended.
        std::function<void(const std::string& id)> forget;
    };

    Expiry(Context& context, Actions actions) : context_(context), actions_(std::move(actions)) {}
    ~Expiry() { stop(); }
    Expiry(const Expiry&) = delete;
    Expiry& operator=(const Expiry&) = delete;

    /// One with a time to live rests from now on, or one has ended: looks at what is due, once that is
    /// committed. Also begins the first time.
    void look_again();
    void stop();

  private:
    void look();
    void look_at_ended(base::Millis next);
    void arm(base::Millis wait);

    Context& context_;
    Actions actions_;
    base::TimerId timer_ = 0;
    bool scheduled_ = false;
    std::shared_ptr<Expiry*> self_ = std::make_shared<Expiry*>(this);  // null inside once it is destroyed
};

}  // namespace atl::conversation
