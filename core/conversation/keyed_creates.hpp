// Creates with an Idempotency-Key: a key makes one conversation. A retry of the same request gets the
// conversation that the first one made, or waits for it; another request with the key is refused. Internal to
// core/conversation.
//
// Invariant: while a create of a key is under way, no second one of that key begins.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

class KeyedCreates {
  public:
    struct Actions {
        /// Makes the conversation; the reply comes once, after its commit.
        std::function<void(CreateRequest, Reply<View>)> create;
        /// Shows the conversation with this id.
        std::function<void(const std::string& id, Reply<View>)> get;
    };

    KeyedCreates(Context& context, Actions actions) : context_(context), actions_(std::move(actions)) {}
    ~KeyedCreates() { *self_ = nullptr; }
    KeyedCreates(const KeyedCreates&) = delete;
    KeyedCreates& operator=(const KeyedCreates&) = delete;

    /// Makes or finds the conversation. Precondition: the request has an Idempotency-Key. Calls `reply` once.
    /// Errors: those of a create; idempotency_key_reused; conversation_ended if the conversation is being
    /// deleted.
    void create(CreateRequest request, Reply<View> reply);

  private:
    struct Running {
        std::string digest;
        std::vector<Reply<View>> replies;
    };

    void on_looked_up(CreateRequest request, const base::Result<std::optional<CreatedBefore>>& found);
    void finish(const std::string& key, const base::Result<View>& result);

    Context& context_;
    Actions actions_;
    std::unordered_map<std::string, Running> running_;  // by key
    std::shared_ptr<KeyedCreates*> self_ =
        std::make_shared<KeyedCreates*>(this);  // null inside once destroyed
};

}  // namespace atl::conversation
