// An answer to a request that waits for a commit: given when it is committed, or refused in time where the
// store takes no writes.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/conversation/journal.hpp"
#include "core/conversation/requests.hpp"

namespace atl::conversation {

/// Calls `reply` once: with `value()` when all that was added so far is committed, or with `refused` when the
/// store has refused it for Journal::k_answer_deadline.
template <class T>
void reply_after_commit(Journal& journal, Reply<T> reply, std::function<base::Result<T>()> value,
                        base::Error refused) {
    const auto once = std::make_shared<Reply<T>>(std::move(reply));
    journal.answer_after_commit(
        [once, value = std::move(value)] {
            if (const auto answer = std::exchange(*once, nullptr))
                answer(value());
        },
        [once, refused = std::move(refused)] {
            if (const auto answer = std::exchange(*once, nullptr))
                answer(refused);
        });
}

}  // namespace atl::conversation
