#include "core/store/metered_store.hpp"

#include <chrono>

namespace atl::store {

base::Result<void> MeteredStore::commit(std::span<const conversation::Write> writes) {
    const auto began = std::chrono::steady_clock::now();
    auto committed = store_.commit(writes);
    if (!committed) {
        ++stats_.refused_commits;
        return committed;
    }
    stats_.commit_duration.add(std::chrono::steady_clock::now() - began);
    for (const auto& write : writes) {
        const auto* const added = std::get_if<conversation::AppendEvent>(&write);
        if (added == nullptr)
            continue;
        ++stats_.events[added->event->type];
        stats_.event_bytes += added->event->json.size();
    }
    return committed;
}

}  // namespace atl::store
