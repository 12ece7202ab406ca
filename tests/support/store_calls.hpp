// Calls of a store that answers at once, with the answer as a value.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/conversation/store.hpp"

namespace atl::test {

inline base::Result<void> commit(conversation::Store& store, std::vector<conversation::Write> writes) {
    auto batch = std::make_shared<conversation::WriteBatch>();
    batch->writes = std::move(writes);
    return conversation::answered_at_once<void>([&](const conversation::ReadDone<void>& give) {
        store.commit(batch, [&give](conversation::CommitEnd end, const base::Error& why) {
            give(end == conversation::CommitEnd::durable ? base::Result<void>() : base::Result<void>(why));
        });
    });
}

inline base::Result<std::vector<conversation::EventPtr>> read_events(conversation::Store& store,
                                                                     std::int64_t key, std::uint64_t after,
                                                                     std::size_t limit_bytes) {
    return conversation::answered_at_once<std::vector<conversation::EventPtr>>(
        [&](auto give) { store.read_events(key, after, limit_bytes, give); });
}

inline base::Result<conversation::TurnRecord> find_turn(conversation::Store& store, std::int64_t key,
                                                        const std::string& idempotency_key) {
    return conversation::answered_at_once<conversation::TurnRecord>(
        [&](auto give) { store.find_turn(key, idempotency_key, give); });
}

}  // namespace atl::test
