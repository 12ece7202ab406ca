#include "core/base/fair_queue.hpp"

#include <algorithm>
#include <utility>

namespace atl::base {

Result<void> FairQueue::enter(const ShareHolder& user, Run run) {
    if (owners_.contains(run))
        return Error(Errc::internal, "a run enters the queue twice");
    const auto found = users_.find(user.name());
    const std::size_t users_running = found == users_.end() ? 0 : found->second.running;
    const std::size_t users_waiting = found == users_.end() ? 0 : found->second.waiting.size();
    // Before `next` is called, a run that could start at once is in the line too.
    std::size_t startable = std::min(limits_.running_per_user - users_running, limits_.running - running_);
    if (places_ != nullptr)
        startable = std::min<std::size_t>(startable, places_->room(user));
    if (users_waiting >= startable && users_waiting - startable >= limits_.waiting_per_user)
        return Error(Errc::too_many_executions,
                     "the user has " + std::to_string(users_running) + " programs running and " +
                         std::to_string(users_waiting) + " waiting",
                     limits_.retry_after);
    users_.try_emplace(user.name(), User{user, {}, 0}).first->second.waiting.push_back(run);
    owners_.emplace(run, Owner{user.name(), false});
    return {};
}

std::optional<FairQueue::Run> FairQueue::next() {
    if (running_ >= limits_.running)
        return std::nullopt;
    // In the order of names, beginning behind the one served last.
    auto at = users_.upper_bound(last_);
    for (std::size_t tried = 0; tried < users_.size(); ++tried, ++at) {
        if (at == users_.end())
            at = users_.begin();
        User& user = at->second;
        if (user.waiting.empty() || user.running >= limits_.running_per_user)
            continue;
        Share place;
        if (places_ != nullptr) {
            auto taken = places_->take(user.holder, 1);
            if (!taken)
                continue;
            place = std::move(*taken);
        }
        const Run run = user.waiting.front();
        user.waiting.pop_front();
        ++user.running;
        ++running_;
        owners_.at(run).runs = true;
        owners_.at(run).place = std::move(place);
        last_ = at->first;
        return run;
    }
    return std::nullopt;
}

bool FairQueue::leave(Run run) {
    const auto owner = owners_.find(run);
    if (owner == owners_.end())
        return false;
    const auto user = users_.find(owner->second.user);
    if (owner->second.runs) {
        --user->second.running;
        --running_;
    } else {
        std::erase(user->second.waiting, run);
    }
    if (user->second.running == 0 && user->second.waiting.empty())
        users_.erase(user);
    owners_.erase(owner);
    return true;
}

}  // namespace atl::base
