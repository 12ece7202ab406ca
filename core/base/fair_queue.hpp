// Places for the work of users, each piece of it a run: how many of a user run at once and wait, and whose
// turn is next among users. With a budget, those that run are within the share of their user. Pure: no clock,
// no I/O; the caller starts what `next` names. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/shares.hpp"

namespace atl::base {

struct QueueLimits {
    std::size_t running = 16;          // of all users
    std::size_t running_per_user = 4;  // at once
    std::size_t waiting_per_user = 32;
    std::chrono::seconds retry_after{1};  // told with a refusal
};

class FairQueue {
  public:
    using Run = std::uint64_t;

    /// `places`: of runs that run; null: without shares. Outlives this.
    explicit FairQueue(QueueLimits limits, Budget* places = nullptr) : limits_(limits), places_(places) {}

    /// Puts a run at the end of its user's line; call `next` afterwards.
    /// Errors: too_many_executions with a Retry-After, when as many of the user wait as may; internal: `run`
    /// is here already.
    Result<void> enter(const ShareHolder& user, Run run);
    /// The run that may start now, which then counts as running; none: wait for `leave` or `enter`.
    std::optional<Run> next();
    /// The run has ended or is given up, running or waiting. False: it is not here.
    bool leave(Run run);

    std::size_t running() const noexcept { return running_; }
    std::size_t waiting() const noexcept { return owners_.size() - running_; }

  private:
    struct User {
        ShareHolder holder;
        std::deque<Run> waiting;
        std::size_t running = 0;
    };
    struct Owner {
        std::string user;
        bool runs = false;
        Share place{};
    };

    QueueLimits limits_;
    Budget* places_;
    std::map<std::string, User, std::less<>> users_;  // those who have a run here, and no others
    std::map<Run, Owner> owners_;
    std::string last_;  // the user served last
    std::size_t running_ = 0;
};

}  // namespace atl::base
