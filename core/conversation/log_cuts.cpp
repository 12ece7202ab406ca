#include "core/conversation/log_cuts.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/log_shares.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {
namespace {

// The pause until the next look; the cut events are purged meanwhile.
constexpr base::Millis k_cut_pause{250};
constexpr base::Millis k_count_retry{60'000};
// The pause until the next look at the guard of the disk, which walks some workspaces meanwhile.
constexpr base::Millis k_rest_pause{250};

}  // namespace

LogCuts::~LogCuts() {
    context_.timers.cancel(timer_);
    *self_ = nullptr;
}

/// The part of the logs that has to go.
std::uint64_t LogCuts::excess() const {
    const base::Budget& budget = context_.logs.budget();
    const std::uint64_t total = budget.spec().total;
    if (budget.used() > total || context_.logs.reserve_left() >= 1)
        return budget.used() - std::min(budget.used(), total);
    const std::uint64_t room = std::min(base::k_database_room_bytes, total / 8);
    return room - std::min(context_.store.free_bytes(), room);
}

void LogCuts::look() {
    if (timer_ != 0 || is_asked_ || excess() == 0)
        return;
    is_asked_ = true;
    context_.store.largest_logs(base::k_logs_cut_at_once,
                                [self = self_](const base::Result<std::vector<std::string>>& ids) {
                                    if (*self == nullptr)
                                        return;
                                    (*self)->is_asked_ = false;
                                    if (ids)
                                        (*self)->cut(*ids);
                                });
}

void LogCuts::read_later(base::Millis pause, const LogRange& range, Pass pass) {
    context_.timers.arm(pause, [self = self_, range, pass] {
        if (*self != nullptr)
            (*self)->read(range, pass);
    });
}

void LogCuts::read(const LogRange& range, Pass pass) {
    if (pass == Pass::measure && context_.sandboxes.is_busy_at_rest())
        return read_later(k_rest_pause, range, pass);
    context_.store.log_sizes(range, [self = self_, range, pass](const auto& found) {
        if (*self == nullptr)
            return;
        LogCuts& it = **self;
        if (!found) {
            base::LogLine(base::evt::store_failed).quoted("err", found.error().detail()).warn();
            return it.read_later(k_count_retry, range, pass);
        }
        for (const LogSize& log : found->items) {
            if (pass == Pass::count)
                it.context_.logs.on_unloaded(log.user_id, log.bytes);
            else if (log.user_id && !log.sandbox_id.empty())
                it.context_.sandboxes.measure_at_rest(log.sandbox_id, *log.user_id);
        }
        if (found->next_key != 0)
            return it.read_later(base::Millis{0}, {found->next_key, range.last_key}, pass);
        if (pass == Pass::measure)
            return;
        it.context_.logs.on_counted();
        it.look();
        it.read_later(base::Millis{0}, {0, range.last_key}, Pass::measure);
    });
}

void LogCuts::cut(const std::vector<std::string>& ids) {
    left_ = excess();
    for (const std::string& id : ids) {
        get_(id, [self = self_](const base::Result<Conversation*>& found) {
            if (*self == nullptr || !found || *found == nullptr)
                return;
            LogCuts& it = **self;
            const base::Budget& budget = it.context_.logs.budget();
            // A shortage of the disk is no reason to cut logs that could not have caused it.
            const bool is_due = it.left_ > 0 && (budget.used() > budget.spec().total ||
                                                 (*found)->log()->bytes() > budget.spec().floor);
            const std::uint64_t cut = is_due ? (*found)->cut_log(it.left_) : 0;
            it.left_ -= std::min(it.left_, cut);
            if (cut > 0 && it.timer_ == 0)
                it.arm();
        });
    }
}

void LogCuts::arm() {
    timer_ = context_.timers.arm(k_cut_pause, [this] {
        timer_ = 0;
        // The cut events leave room when they are purged.
        context_.journal.is_purging() ? arm() : look();
    });
}

}  // namespace atl::conversation
