#include "core/conversation/roster.hpp"

namespace atl::conversation {

void Roster::on_made(const Record& record) {
    ++open_;
    on_loaded(record);
    if (const auto& user_id = record.user_id)
        ++*users_[*user_id].open;
}

void Roster::on_loaded(const Record& record) {
    if (record.status != Status::ended)
        counting_.insert(record.key);
    if (record.user_id)
        ++users_[*record.user_id].loaded;
}

void Roster::on_unloaded(const Record& record) {
    counting_.erase(record.key);
    if (!record.user_id)
        return;
    const auto user = users_.find(*record.user_id);
    if (--user->second.loaded == 0)
        users_.erase(user);
}

void Roster::on_end(const Record& record) {
    if (counting_.erase(record.key) == 0)
        return;
    --open_;
    ++ends_;
    if (record.user_id) {
        if (auto& open = users_[*record.user_id].open)
            --*open;
    }
}

bool Roster::is_counted(const std::string& user_id) const {
    const auto user = users_.find(user_id);
    return user != users_.end() && user->second.open.has_value();
}

void Roster::drop_unused(const std::string& user_id) {
    const auto user = users_.find(user_id);
    if (user != users_.end() && user->second.loaded == 0)
        users_.erase(user);
}

base::Result<void> Roster::room_for(const std::optional<std::string>& user_id, std::size_t others) const {
    if (open_ + others >= bounds_.all)
        return base::Error(base::Errc::capacity,
                           "the server has all " + std::to_string(bounds_.all) +
                               " conversations and sandboxes that it may have; delete some");
    const auto user = user_id ? users_.find(*user_id) : users_.end();
    if (user != users_.end() && user->second.open.value_or(0) >= bounds_.of_user)
        return base::Error(base::Errc::too_many_conversations,
                           "the user has all " + std::to_string(bounds_.of_user) +
                               " conversations that one may have; delete some");
    return {};
}

}  // namespace atl::conversation
