#include "http/access/count_limiter.hpp"

#include <cassert>

namespace atl::http {

std::optional<CountLimiter::Lease> CountLimiter::take(std::uint64_t who) {
    if (most_ == 0)
        return Lease();
    auto& count = counts_[who];
    if (count >= most_)
        return std::nullopt;
    ++count;
    return Lease(*this, who);
}

void CountLimiter::give_back(std::uint64_t who) noexcept {
    const auto found = counts_.find(who);
    assert(found != counts_.end() && found->second > 0);
    if (--found->second == 0)
        counts_.erase(found);
}

}  // namespace atl::http
