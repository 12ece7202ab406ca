#include "http/proxy/preview_visits.hpp"

#include <utility>

#include "core/base/preview_times.hpp"

namespace atl::http {

using base::Result;
using conversation::Lease;
using conversation::PreviewView;

PreviewVisits::PreviewVisits(conversation::Manager& conversations, Wake wake, IsAwaited is_awaited)
    : conversations_(conversations),
      wake_(std::move(wake)),
      is_awaited_(std::move(is_awaited)),
      self_(std::make_shared<PreviewVisits*>(this)) {}

PreviewVisits::~PreviewVisits() {
    *self_ = nullptr;
    for (const auto& [id, visit] : visits_)
        conversations_.timers().cancel(visit.timer);
}

void PreviewVisits::note(const std::string& sandbox_id, Traffic traffic) {
    if (traffic == Traffic::tunnelled_in)
        wake_sleeper(sandbox_id);
    const auto [at, is_new] = visits_.try_emplace(sandbox_id);
    if (!is_new)
        return;
    at->second.timer =
        conversations_.timers().arm(base::k_preview_visit_time, [this, sandbox_id] { end(sandbox_id); });
    conversations_.preview(sandbox_id, [self = self_, sandbox_id](const Result<PreviewView>& view) {
        // A sandbox without a conversation is never idle.
        if (*self == nullptr || !view || view->conversation_id.empty())
            return;
        (*self)->conversations_.get(view->conversation_id, [self, sandbox_id](const auto& now) {
            // A lease would thaw what is paused, start it again, or keep it from being frozen.
            if (*self != nullptr && now && now->record.status == conversation::Status::active)
                (*self)->hold(sandbox_id);
        });
    });
}

// A request that waits moves no byte.
void PreviewVisits::end(const std::string& sandbox_id) {
    visits_.erase(sandbox_id);
    if (is_awaited_(sandbox_id))
        note(sandbox_id, Traffic::served);
}

// Wakes only a sandbox that is frozen already: until then it takes the bytes itself.
void PreviewVisits::wake_sleeper(const std::string& sandbox_id) {
    conversations_.preview(sandbox_id, [self = self_, sandbox_id](const Result<PreviewView>& view) {
        if (*self != nullptr && view && view->status == sandbox::Status::frozen && view->settings.wakes())
            (*self)->wake_(sandbox_id);
    });
}

void PreviewVisits::hold(const std::string& sandbox_id) {
    auto keep = [self = self_, sandbox_id](Result<std::unique_ptr<Lease>> lease) {
        if (*self == nullptr || !lease)
            return;
        if (const auto visit = (*self)->visits_.find(sandbox_id); visit != (*self)->visits_.end())
            visit->second.lease = std::move(*lease);
    };
    conversations_.lease(sandbox_id, conversation::LeaseUse::request, std::move(keep));
}

}  // namespace atl::http
