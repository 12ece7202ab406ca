// The conversations in memory: those with a living sandbox or a follower, and some others for a while. A
// request that acts on a conversation loads it from the store. A conversation at rest
// (Conversation::is_resting) is unloaded about a second later. Internal to core/conversation.
//
// Invariants: a conversation is in memory once; an erased conversation is not loaded again before its erasure
// is committed. Not here: what a request does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/conversation/conversation.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

class Residents {
  public:
    /// Is given null where there is no such conversation.
    using Found = std::function<void(base::Result<Conversation*>)>;
    struct Actions {
        /// Makes it and calls add().
        std::function<void(StoredConversation)> load;
        /// Unloads a conversation at rest, and calls remove().
        std::function<void(Conversation&)> unload;
    };

    Residents(Context& context, Actions actions) : context_(context), actions_(std::move(actions)) {}
    ~Residents();
    Residents(const Residents&) = delete;
    Residents& operator=(const Residents&) = delete;

    void add(std::shared_ptr<Conversation> conversation);
    /// It is destroyed later, from the loop: a callback of its own may be what led here.
    void remove(const Conversation& conversation);
    /// Does what remove() does, for an erased conversation: the store has it until the erasure is committed.
    void erase(const Conversation& conversation);

    /// Looks in memory only. Null also for a conversation that is being deleted.
    Conversation* find(const std::string& id) const;
    Conversation* find_by_sandbox(const std::string& sandbox_id) const;
    /// Loads it if it must. Calls `found` once, from inside the call or later; not after this is destroyed.
    /// Errors: storage_failed.
    void get(const std::string& id, Found found);
    /// Shows it and loads nothing: the view comes from memory, else from its rows. `done` is called like the
    /// callback of get(); none: there is no such conversation, or it is being deleted. Errors:
    /// storage_failed.
    void show(const std::string& id, ReadDone<std::optional<View>> done) const;
    bool is_loaded(const std::string& id) const { return by_id_.contains(id); }
    /// True if the store may still have it though it is gone.
    bool is_erased(const std::string& id) const { return erased_.contains(id); }
    std::size_t size() const noexcept { return by_id_.size(); }
    void for_each(const std::function<void(Conversation&)>& call) const;
    /// To be called after a change that may have brought a conversation to rest.
    void schedule_unload();

  private:
    void on_loaded(const std::string& id, base::Result<std::optional<StoredConversation>> stored);
    void unload_some(std::size_t looked_at);
    void look();

    Context& context_;
    Actions actions_;
    std::unordered_map<std::string, std::shared_ptr<Conversation>> by_id_;
    std::unordered_map<std::string, Conversation*> by_sandbox_;
    std::unordered_map<std::string, std::vector<Found>> loading_;
    std::unordered_set<std::string> erased_;  // not committed yet
    std::deque<std::string> ring_;            // ids that may be at rest; each resident once
    std::size_t to_look_at_ = 0;              // the ids of the ring that this round has left
    base::TimerId timer_ = 0;
    std::shared_ptr<Residents*> self_ = std::make_shared<Residents*>(this);  // null inside once destroyed
};

}  // namespace atl::conversation
