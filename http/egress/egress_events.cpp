#include "http/egress/egress_events.hpp"

#include <utility>
#include <vector>

#include "core/plain/egress_limits.hpp"

namespace atl::http {
namespace {

using conversation::EgressNotice;

// The same kind, without a request.
EgressNotice emptied(const EgressNotice& notice) {
    EgressNotice empty;
    empty.host = notice.host;
    empty.port = notice.port;
    empty.reason = notice.reason;
    empty.route = notice.route;
    empty.requests = 0;
    return empty;
}

}  // namespace

EgressEvents::~EgressEvents() {
    for (const auto& [id, told] : told_)
        timers_.cancel(told.timer);
}

void EgressEvents::add(const std::string& sandbox_id, Notice one) {
    Told& told = told_[sandbox_id];
    const Kind kind(one.host, one.port, one.reason, one.route);
    if (const auto known = told.sums.find(kind); known != told.sums.end()) {
        Notice& sum = known->second;
        sum.bytes_up += one.bytes_up;
        sum.bytes_down += one.bytes_down;
        sum.lasted += one.lasted;
        sum.requests += one.requests;
        return;
    }
    if (told.sums.size() == base::k_max_egress_notices) {
        told.omitted += told.beyond ? 1U : 0U;
        told.beyond = std::move(one);
        return;
    }
    told.sums.emplace(kind, emptied(one));
    if (told.timer == 0)
        arm(sandbox_id, told);
    tell_(sandbox_id, one);
}

void EgressEvents::arm(const std::string& sandbox_id, Told& told) {
    told.timer = timers_.arm(base::k_egress_notice_interval, [this, sandbox_id] { tell_sums(sandbox_id); });
}

void EgressEvents::tell_sums(const std::string& sandbox_id) {
    Told& told = told_.at(sandbox_id);
    std::vector<Notice> due;
    for (auto at = told.sums.begin(); at != told.sums.end();) {
        if (at->second.requests == 0) {
            at = told.sums.erase(at);
            continue;
        }
        Notice empty = emptied(at->second);
        due.push_back(std::exchange(at->second, std::move(empty)));
        ++at;
    }
    if (told.beyond) {
        told.beyond->omitted = std::exchange(told.omitted, 0);
        due.push_back(std::move(*std::exchange(told.beyond, std::nullopt)));
    }
    if (told.sums.empty())
        told_.erase(sandbox_id);
    else
        arm(sandbox_id, told);
    for (const Notice& notice : due)
        tell_(sandbox_id, notice);
}

}  // namespace atl::http
