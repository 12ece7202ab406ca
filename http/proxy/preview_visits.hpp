// The effect of visits on a sandbox: bytes that pass are activity, and hold its generation for a moment, and
// so does a request for whose answer somebody waits. Bytes that a visitor sends through a tunnel to a frozen
// sandbox wake it, where its settings say so. Not here: which visits are let in (preview_service.hpp), how
// often a sandbox is woken (preview_waker.hpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/conversation/manager.hpp"
#include "http/proxy/exchange.hpp"

namespace atl::http {

class PreviewVisits {
  public:
    using Wake = std::function<void(const std::string& sandbox_id)>;
    using IsAwaited = std::function<bool(const std::string& sandbox_id)>;

    /// `wake` is asked for a sandbox that sleeps and may be woken; `is_awaited` tells whether somebody waits
    /// for the sandbox to answer, which goes on being a visit. `conversations` must outlive this.
    PreviewVisits(conversation::Manager& conversations, Wake wake, IsAwaited is_awaited);
    ~PreviewVisits();
    PreviewVisits(const PreviewVisits&) = delete;
    PreviewVisits& operator=(const PreviewVisits&) = delete;

    /// Cheap: a lease is taken once in base::k_preview_visit_time for each sandbox.
    void note(const std::string& sandbox_id, Traffic traffic);

  private:
    struct Visit {
        std::unique_ptr<conversation::Lease> lease;  // null: not granted, or not asked for
        base::TimerId timer = 0;
    };

    void wake_sleeper(const std::string& sandbox_id);
    void hold(const std::string& sandbox_id);
    void end(const std::string& sandbox_id);

    conversation::Manager& conversations_;
    const Wake wake_;
    const IsAwaited is_awaited_;
    std::map<std::string, Visit, std::less<>> visits_;
    std::shared_ptr<PreviewVisits*> self_;  // null inside once it is destroyed
};

}  // namespace atl::http
