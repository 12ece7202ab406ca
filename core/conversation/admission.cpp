#include "core/conversation/admission.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::conversation {

base::Result<void> Admission::has_place(const sandbox::Limits& limits) const {
    auto room = ports_.room(limits);
    if (room || (room.error().code() == base::Errc::capacity && ports_.worth_evicting(limits) > 0 &&
                 ports_.can_evict()))
        return {};
    return ports_.refusal(room.error());
}

base::Result<void> Admission::has_capacity(const sandbox::Limits& limits) const {
    if (!is_idle())
        return ports_.refusal(base::Error(base::Errc::capacity));
    const auto room = ports_.room(limits);
    return room ? room : base::Result<void>(ports_.refusal(room.error()));
}

void Admission::admit(const std::string& id, const sandbox::Limits& limits, Go go) {
    waiting_.push_back({id, limits, std::move(go)});
    pump();
}

bool Admission::cancel(const std::string& id) {
    return std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.id == id; }) > 0;
}

bool Admission::waits(const std::string& id) const {
    return std::ranges::any_of(waiting_, [&](const Waiting& waiting) { return waiting.id == id; });
}

void Admission::ended(const std::string& sandbox_id) {
    ending_.erase(sandbox_id);
    pump();
}

// Whoever is let go or evicted may come back in here.
void Admission::pump() {
    if (std::exchange(pumping_, true))
        return;
    while (!waiting_.empty()) {
        Waiting& first = waiting_.front();
        const auto room = ports_.room(first.limits);
        const bool may_wait = !room && room.error().code() == base::Errc::capacity;
        const std::size_t worth = may_wait ? ports_.worth_evicting(first.limits) : 0;
        if (worth > 0 && ending_.size() < waiting_.size()) {
            auto ended = ports_.shrink_pool();
            if (!ended && first.evictions < worth && (ended = ports_.evict()))
                ++first.evictions;
            if (ended) {
                ending_.insert(std::move(*ended));
                continue;
            }
        }
        if (may_wait && !ending_.empty())
            break;
        const Go go = std::move(first.go);
        const auto answer = room ? room : base::Result<void>(ports_.refusal(room.error()));
        waiting_.pop_front();
        go(answer);
    }
    pumping_ = false;
}

}  // namespace atl::conversation
