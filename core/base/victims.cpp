#include "core/base/victims.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace atl::base {

std::vector<UserTakings> takings_by_user(std::vector<Taking> all) {
    std::map<std::string, UserTakings> users;
    for (Taking& one : all) {
        UserTakings& user = users[one.user.name()];
        user.total += one.amount;
        user.things.push_back(std::move(one));
    }
    std::vector<UserTakings> most_first;
    for (auto& [name, user] : users) {
        std::ranges::stable_sort(user.things, std::greater(), &Taking::amount);
        most_first.push_back(std::move(user));
    }
    std::ranges::stable_sort(most_first, std::greater(), &UserTakings::total);
    return most_first;
}

Victims choose_victims(std::vector<Taking> all, std::uint64_t enough) {
    const auto users = takings_by_user(std::move(all));
    if (users.empty() || users.front().total < enough)
        return {};
    Victims victims{users.front().total, {}};
    std::uint64_t chosen = 0;
    for (const Taking& one : users.front().things) {
        if (chosen >= enough || one.amount == 0)
            break;
        if (one.id.empty())
            continue;
        victims.ids.push_back(one.id);
        chosen += one.amount;
    }
    return victims;
}

}  // namespace atl::base
