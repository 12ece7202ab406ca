// Ends conversations that are not in memory when their time to live is over. Also forgets ended conversations
// after the time that they are kept, or when there are too many. The store finds both, so such a conversation
// takes no memory. A conversation that cannot be read is tried ever more seldom, up to a minute apart, and
// told once. Internal to core/conversation.
//
// Invariant: a timer is armed while the store has a conversation with a time to live, or an ended one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Expiry {
  public:
    /// Takes the result of an action: called once, from inside the call or later.
    using Tried = std::function<void(const base::Result<void>& done)>;
    using Act = std::function<void(const std::string& id, const Tried& tried)>;
    struct Actions {
        /// True if the conversation is in memory: then its own timer ends it.
        std::function<bool(const std::string& id)> is_loaded;
        /// Loads a conversation whose time to live is over; its own timer then ends it.
        /// Errors: storage_failed.
        Act end;
        /// Erases an ended conversation. Errors: storage_failed; sandbox_in_use while its sandbox is still to
        /// be removed.
        Act forget;
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
    /// The tries for a conversation that was due and is still there.
    struct Attempt {
        bool is_under_way = false;
        base::Millis wait{0};
        base::SteadyTime next{};  // the earliest time of the next try
        std::uint64_t look = 0;   // the last look that found it due
    };

    void look();
    void look_at_ended(base::Millis next);
    /// Tries it, unless it is to wait; returns the time after which to look again.
    base::Millis try_or_wait(const std::string& id, const Act& act);
    void on_tried(const std::string& id, const base::Result<void>& done);
    void forget_attempts();
    std::size_t looked_at() const;
    void arm(base::Millis wait);

    Context& context_;
    Actions actions_;
    base::TimerId timer_ = 0;
    bool scheduled_ = false;
    std::unordered_map<std::string, Attempt> attempts_;
    std::uint64_t looks_ = 0;
    std::size_t tries_left_ = 0;                                       // the tries that this look has left
    bool logged_failure_ = false;                                      // a failed read is in the server's log
    std::shared_ptr<Expiry*> self_ = std::make_shared<Expiry*>(this);  // null inside once it is destroyed
};

}  // namespace atl::conversation
