// Counts the conversations that have not ended, in all and for each user, and knows how many there may be.
// Loaded conversations are told to it one by one; for the others it knows the numbers alone. Internal to
// core/conversation.
//
// Invariant: a conversation counts from its creation until it has ended or is erased, whichever comes first.
// Not here: who owns a conversation (manager.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.hpp"
#include "core/base/limits.hpp"
#include "core/conversation/types.hpp"

namespace atl::conversation {

/// The bounds on conversations that have not ended. Sandboxes without one count as conversations.
struct ConversationBounds {
    std::size_t all = base::k_default_max_conversations;
    std::size_t of_user = base::k_default_max_conversations_per_user;
};

class Roster {
  public:
    explicit Roster(const ConversationBounds& bounds) : bounds_(bounds) {}

    /// Takes the numbers that the store has. Call it at the start.
    void set_open(std::size_t open) { open_ = open; }
    /// Counts a new one. Precondition: is_counted() for its user; the user never changes.
    void on_made(const Record& conversation);
    /// A conversation of the store is loaded, or no longer.
    void on_loaded(const Record& conversation);
    void on_unloaded(const Record& conversation);
    /// It does not count any more.
    void on_end(const Record& conversation);

    /// True if the number of a user's conversations is known; else set_open_of() is due.
    bool is_counted(const std::string& user_id) const;
    void set_open_of(const std::string& user_id, std::size_t open) { users_[user_id].open = open; }
    /// Nothing of the user was made after all.
    void drop_unused(const std::string& user_id);
    /// Succeeds if one more may be made, of this user if any. `others` are sandboxes without a conversation.
    /// Errors: capacity, too_many_conversations.
    base::Result<void> room_for(const std::optional<std::string>& user_id, std::size_t others) const;

    /// The number of conversations that have ended so far.
    std::uint64_t ends() const noexcept { return ends_; }
    /// The number of conversations that have not ended.
    std::size_t open() const noexcept { return open_; }
    const ConversationBounds& bounds() const noexcept { return bounds_; }

  private:
    struct User {
        std::size_t loaded = 0;           // conversations; at zero the user is forgotten here
        std::optional<std::size_t> open;  // none: not counted yet
    };

    ConversationBounds bounds_;
    std::size_t open_ = 0;
    std::uint64_t ends_ = 0;
    std::unordered_map<std::string, User> users_;
    std::unordered_set<std::int64_t> counting_;  // the keys of loaded ones that count
};

}  // namespace atl::conversation
