// Chooses the sandbox that is ended to make room for another one. Internal to core/conversation.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/error.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class Conversation;

class Eviction final : public Victims {
  public:
    explicit Eviction(const Context& context) : context_(context) {}

    /// A generation of this conversation begins to live.
    void add(Conversation& conversation);
    /// This conversation is gone.
    void erase(Conversation& conversation);

    /// Takes linear time in the conversations of `of`, or of all.
    Outlook look(const sandbox::Demand& demand, const base::ShareHolder* of) const override;
    std::optional<std::string> evict(const base::ShareHolder* of) override;

  private:
    /// The conversations of one user with a living sandbox, and some that had one.
    struct Group {
        base::ShareHolder user;
        std::unordered_set<Conversation*> living{};
    };

    const Group* find(const base::ShareHolder& user) const;
    const Group* heaviest() const;
    bool is_spared(const Conversation& one) const { return time_to_evictable(one) == base::Millis{0}; }
    bool is_enough(const Group& group, const sandbox::Demand& demand) const;
    std::vector<Conversation*> find_victims(const Group& group) const;
    std::optional<base::Millis> time_to_evictable(const Conversation& one) const;

    const Context& context_;
    std::unordered_map<std::string, Group> groups_;  // by the name of the user; none is empty
};

}  // namespace atl::conversation
