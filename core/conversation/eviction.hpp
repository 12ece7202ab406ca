// Whose sandbox is ended to make room for another one. Internal to core/conversation.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "core/base/error.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Conversation;

class Eviction {
  public:
    explicit Eviction(const Context& context) : context_(context) {}

    /// A generation of it begins to live.
    void add(Conversation& conversation) { living_.insert(&conversation); }
    /// It is gone.
    void erase(Conversation& conversation) { living_.erase(&conversation); }

    bool is_possible() const { return find_victim() != nullptr; }
    /// Begins to end the one that can be spared best and names its sandbox. None: nothing can be spared.
    std::optional<std::string> evict();
    /// `why`, and when the next sandbox can be spared, if it is known.
    base::Error refusal(const base::Error& why) const;

  private:
    Conversation* find_victim() const;
    std::optional<base::Millis> until_spared(const Conversation& one) const;

    const Context& context_;
    std::unordered_set<Conversation*> living_;  // those with a sandbox that lives, and some that had one
};

}  // namespace atl::conversation
