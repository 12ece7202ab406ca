// Chooses the sandbox that is ended to make room for another one. Internal to core/conversation.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "core/base/error.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Conversation;

class Eviction final : public Victims {
  public:
    explicit Eviction(const Context& context) : context_(context) {}

    /// A generation of this conversation begins to live.
    void add(Conversation& conversation) { living_.insert(&conversation); }
    /// This conversation is gone.
    void erase(Conversation& conversation) { living_.erase(&conversation); }

    bool is_possible(const base::ShareHolder* of) const override;
    std::optional<std::string> evict(const base::ShareHolder* of) override;
    /// Adds the time until the next sandbox can be evicted, if it is known.
    base::Error refusal(const base::Error& why, const base::ShareHolder* of) const override;

  private:
    Conversation* find_victim(const base::ShareHolder* of) const;
    std::optional<base::Millis> time_to_evictable(const Conversation& one) const;

    const Context& context_;
    std::unordered_set<Conversation*> living_;  // those with a living sandbox, and some that had one
};

}  // namespace atl::conversation
