// The conversations of a server in the order in which they were created, and those of each user; how many
// there may be. Internal to core/conversation.
//
// Invariant: a conversation counts from add() until it has ended or is erased, whichever comes first.
// Not here: who owns a conversation (manager.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.hpp"
#include "core/base/limits.hpp"

namespace atl::conversation {

class Conversation;

/// How many conversations there may be that have not ended. Sandboxes without one count as conversations.
struct ConversationBounds {
    std::size_t all = base::k_default_max_conversations;
    std::size_t of_user = base::k_default_max_conversations_per_user;
};

class Roster {
  public:
    /// By the key of the store, which grows with each.
    using ByKey = std::map<std::int64_t, Conversation*>;

    explicit Roster(const ConversationBounds& bounds) : bounds_(bounds) {}

    /// Precondition: its record is complete; the user never changes.
    void add(Conversation& conversation);
    /// It does not count any more; it is still listed.
    void on_end(Conversation& conversation);
    void erase(Conversation& conversation);

    /// Whether one more may be made, of this user if any. `others` are sandboxes without a conversation.
    /// Errors: capacity, too_many_conversations.
    base::Result<void> room_for(const std::optional<std::string>& user_id, std::size_t others) const;

    const ByKey& all() const noexcept { return all_; }
    const ByKey& of_user(const std::string& user_id) const;
    /// Those that have not ended.
    std::size_t open() const noexcept { return open_.size(); }
    const ConversationBounds& bounds() const noexcept { return bounds_; }

  private:
    struct User {
        ByKey all;
        std::size_t open = 0;
    };

    ConversationBounds bounds_;
    ByKey all_;
    std::unordered_map<std::string, User> users_;
    std::unordered_set<std::int64_t> open_;  // keys of those that count
};

}  // namespace atl::conversation
