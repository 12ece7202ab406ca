#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

/// How long until the conversation's sandbox may be ended for another one; none: not as things are. A frozen
/// one waits for nobody. Else it must have been idle for a while, and nobody may be following: who does is
/// about to write.
std::optional<base::Millis> Manager::Impl::until_spared(const Conversation& conversation) const {
    const Machine& machine = conversation.machine;
    if (conversation.erasing || machine.status() == Status::ended || machine.turn_open())
        return std::nullopt;
    if (machine.sandbox_is_frozen())
        return base::Millis{0};
    if (!machine.sandbox_up() || conversation.log->is_followed())
        return std::nullopt;
    const auto idle = std::chrono::floor<base::Millis>(clock_.steady_now() - conversation.last_activity);
    return std::max(base::Millis{0}, settings_.evict_idle - idle);
}

/// The one that can be spared best: a frozen one before one that runs, then the longest idle. Null: none.
Conversation* Manager::Impl::find_victim() const {
    Conversation* best = nullptr;
    const auto rank = [](const Conversation& one) {
        return std::pair(!one.machine.sandbox_is_frozen(), one.last_activity);
    };
    for (Conversation* candidate : started_) {
        if (until_spared(*candidate) == base::Millis{0} &&
            (best == nullptr || rank(*candidate) < rank(*best)))
            best = candidate;
    }
    return best;
}

std::optional<std::string> Manager::Impl::evict() {
    std::erase_if(started_, [](const Conversation* one) { return !one->machine.sandbox_living(); });
    Conversation* const spared = find_victim();
    if (spared == nullptr)
        return std::nullopt;
    std::string sandbox_id = spared->record.sandbox_id;
    base::LogLine(base::evt::sandbox_evicted)
        .field("conv", spared->record.id)
        .field("sbx", sandbox_id)
        .info();
    perform(*spared, spared->machine.pause(PauseReason::evicted, "paused",
                                           "the server needed its place for another sandbox"));
    return sandbox_id;
}

/// What was only started ahead goes first.
std::optional<std::string> Manager::Impl::spare_one() {
    auto ended = pool_.shrink();
    return ended ? ended : evict();
}

/// `why`, and when the next sandbox can be spared, if it is known.
Error Manager::Impl::refusal(const Error& why) const {
    if (why.code() != Errc::capacity)
        return why;
    auto soonest = base::Millis::max();
    for (const Conversation* one : started_)
        soonest = std::min(soonest, until_spared(*one).value_or(base::Millis::max()));
    if (soonest == base::Millis::max())
        return why;
    const auto wait = std::max(std::chrono::seconds{1}, std::chrono::ceil<std::chrono::seconds>(soonest));
    return {why.code(), why.detail(), wait};
}

}  // namespace atl::conversation
