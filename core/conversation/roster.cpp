#include "core/conversation/roster.hpp"

#include "core/conversation/conversation.hpp"

namespace atl::conversation {

void Roster::add(Conversation& conversation) {
    const Record& record = conversation.record();
    all_.emplace(record.key, &conversation);
    open_.insert(record.key);
    if (!record.user_id)
        return;
    User& user = users_[*record.user_id];
    user.all.emplace(record.key, &conversation);
    ++user.open;
}

void Roster::on_end(Conversation& conversation) {
    const Record& record = conversation.record();
    if (open_.erase(record.key) != 0 && record.user_id)
        --users_[*record.user_id].open;
}

void Roster::erase(Conversation& conversation) {
    on_end(conversation);
    const Record& record = conversation.record();
    all_.erase(record.key);
    if (!record.user_id)
        return;
    const auto user = users_.find(*record.user_id);
    user->second.all.erase(record.key);
    if (user->second.all.empty())
        users_.erase(user);
}

base::Result<void> Roster::room_for(const std::optional<std::string>& user_id, std::size_t others) const {
    if (open_.size() + others >= bounds_.all)
        return base::Error(base::Errc::capacity,
                           "the server has all " + std::to_string(bounds_.all) +
                               " conversations and sandboxes that it may have; delete some");
    const auto user = user_id ? users_.find(*user_id) : users_.end();
    if (user != users_.end() && user->second.open >= bounds_.of_user)
        return base::Error(base::Errc::too_many_conversations,
                           "the user has all " + std::to_string(bounds_.of_user) +
                               " conversations that one may have; delete some");
    return {};
}

const Roster::ByKey& Roster::of_user(const std::string& user_id) const {
    static const ByKey s_none;
    const auto user = users_.find(user_id);
    return user == users_.end() ? s_none : user->second.all;
}

}  // namespace atl::conversation
