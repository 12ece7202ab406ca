#include "core/store/metered_store.hpp"

#include <chrono>

namespace atl::store {

using conversation::CommitEnd;

void MeteredStore::commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) {
    auto counted = [this, batch, began = std::chrono::steady_clock::now(), done = std::move(done)](
                       CommitEnd end, const base::Error& why) {
        if (end == CommitEnd::durable) {
            stats_.commit_duration.add(std::chrono::steady_clock::now() - began);
            count(*batch);
        } else {
            ++stats_.refused_commits;
        }
        done(end, why);
    };
    store_.commit(std::move(batch), std::move(counted));
}

void MeteredStore::count(const conversation::WriteBatch& batch) {
    for (const auto& write : batch.writes) {
        const auto* const added = std::get_if<conversation::AppendEvent>(&write);
        if (added == nullptr)
            continue;
        ++stats_.events[added->event->type];
        stats_.event_bytes += added->event->json.size();
    }
}

}  // namespace atl::store
