#include "core/conversation/log_shares.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace atl::conversation {
namespace {

/// The holder of the logs at rest that have no owner.
const base::ShareHolder& nobody() {
    static const base::ShareHolder holder = base::ShareHolder::thing("");
    return holder;
}

}  // namespace

void LogShares::add_resting(const std::optional<std::string>& user_id, std::int64_t bytes) {
    const base::ShareHolder holder = user_id ? base::ShareHolder::user(*user_id) : nobody();
    Resting& resting = resting_[holder.name()];
    resting.bytes += bytes;
    if (resting.bytes == 0) {
        resting_.erase(holder.name());
        return;
    }
    base::Share share = *budget_.take(holder, 0);
    share.charge(static_cast<std::uint64_t>(std::max<std::int64_t>(resting.bytes, 0)));
    resting.share = std::move(share);
}

base::Result<void> LogShares::room_for_turn(const Record& conversation, std::uint64_t message_bytes) const {
    const base::ShareHolder holder = holder_of(conversation);
    if (const double left = reserve_left(); left < 1) {
        const double of_most = (2 * left - 1) * static_cast<double>(budget_.most_held(nobody()));
        const double may_hold = std::max(static_cast<double>(budget_.spec().floor), of_most);
        const bool is_out = left <= 0;
        if (is_out || static_cast<double>(budget_.held_by(holder)) >= may_hold)
            return base::Error(base::Errc::capacity,
                               is_out
                                   ? "the disk is full but for what the database itself needs, so nobody's "
                                     "turn may begin; delete conversations or files"
                                   : "the disk has less free than its reserve, and the logs of this user "
                                     "are too large for a turn meanwhile; delete conversations or files",
                               std::chrono::seconds(5))
                .with("budget", "\"log\"");
    }
    const std::uint64_t wanted = message_bytes + base::k_log_of_new_turn_bytes;
    return wanted <= budget_.room(holder) ? base::Result<void>() : budget_.refusal(holder, wanted);
}

}  // namespace atl::conversation
