// Removes all that is kept of a user: sandboxes that are starting, conversations page by page, then the other
// sandboxes without a conversation. At the end it waits for removals of other requests, and drops the logs of
// all that were the user's. It goes on if the client that asked is gone, and after an error, which is told at
// the end. Internal to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Manager;

/// The parts of the manager that an erasure uses.
struct UserThings {
    std::function<void(const ListQuery& query, Reply<Page<View>> reply)> list;
    std::function<void(const std::string& id, Reply<void> reply)> remove;
    std::function<void(const SandboxQuery& query, Reply<Page<SandboxView>> reply)> list_sandboxes;
    std::function<void(const std::string& id, Reply<void> reply)> remove_sandbox;
    std::vector<std::string> starting_sandboxes;  // of the user, without a conversation
    std::function<void(const std::string& id, Reply<void> reply)> remove_starting;
    /// Removes a conversation in memory, also a starting one, or waits for its removal if that is under way;
    /// false: this user has no such conversation.
    std::function<bool(const std::string& user_id, Reply<void> reply)> remove_rest;
    std::int64_t last_key = 0;  // the highest key of a conversation that is there
};

class UserErasure : public std::enable_shared_from_this<UserErasure> {
  public:
    /// Calls `reply` once. `alive` is null inside once the manager is destroyed: then nothing more happens.
    UserErasure(UserThings things, std::shared_ptr<Manager*> alive, Context& context, std::string user_id,
                Reply<ErasedUser> reply);
    void begin() { remove_starting(); }

  private:
    void remove_starting();
    void look_for_conversations();
    void look_for_sandboxes();
    /// Goes on in a call of its own: answers may come from inside the question.
    void go_on(void (UserErasure::*step)());
    struct Thing {
        std::string id;
        std::string sandbox_id;
    };
    using Remove = std::function<void(const std::string& id, Reply<void> reply)>;
    void remove_all(const std::vector<Thing>& things, std::size_t& removed, const Remove& remove,
                    void (UserErasure::*then)());
    void remove_rest();
    /// Tries `step` again if the lists of that user, who may ask for many, have no room for this one.
    void on_unread(const base::Error& error, void (UserErasure::*step)());
    void note(const base::Error& error);

    UserThings things_;
    std::shared_ptr<Manager*> alive_;
    Context& context_;
    ListQuery conversations_;
    SandboxQuery sandboxes_;
    Reply<ErasedUser> reply_;
    ErasedUser erased_;
    std::size_t removing_ = 0;
    std::optional<base::Error> failure_;
};

}  // namespace atl::conversation
