// Ends conversations that are not in memory when their time to live is over, and forgets ended conversations
// after the time that they are kept, or when there are too many. The store finds both, so such a conversation
// takes no memory. Internal to core/conversation.
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
        /// Whether a conversation is in memory: then its own timer ends it.
        std::function<bool(const std::string& id)> is_loaded;
        /// Loads a conversation whose time to live is over; its own timer then ends it.
        std::function<void(const std::string& id)> end;
        /// Erases an ended conversation.
        std::function<void(const std::string& id)> forget;
    };

    Expiry(Context& context, Actions actions) : context_(context), actions_(std::move(actions)) {}
    ~Expiry() { stop(); }
    Expiry(const Expiry&) = delete;
    Expiry& operator=(const Expiry&) = delete;

    /// Looks for due conversations after the next commit. To be called at the start, when a conversation with
    /// a time to live leaves the memory, and when a conversation has ended.
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
