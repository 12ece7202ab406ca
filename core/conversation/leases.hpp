// Leases on the living generation of a sandbox: work that needs it to live holds one (the table in
// README.md). A book keeps the leases of a sandbox; its machine or its owner says if there is a generation to
// lease. Single-threaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/lease_ledger.hpp"
#include "core/conversation/requests.hpp"

namespace atl::conversation {

class Lease;
using LeaseReply = std::function<void(base::Result<std::unique_ptr<Lease>>)>;

/// The state that a lease and its book share.
struct LeaseState {
    enum class Phase : std::uint8_t { waiting, held, over };
    Phase phase = Phase::waiting;
    LeaseUse use = LeaseUse::request;
    std::string sandbox_id;
    LeaseReply reply;                               // while it waits
    std::function<void(const base::Error&)> ended;  // called at an end before the release
    base::Error why;                                // the reason, once it is over before its release
    std::function<void(LeaseUse)> released;         // the book's; empty once that is gone
};

/// The lease of a holder. Its destruction releases it, at any time.
class Lease {
  public:
    explicit Lease(std::shared_ptr<LeaseState> state) : state_(std::move(state)) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    const std::string& sandbox_id() const noexcept { return state_->sandbox_id; }
    /// False once the generation is gone, or is being ended.
    bool is_held() const noexcept { return state_->phase == LeaseState::Phase::held; }
    /// The reason for its end before its release. Precondition: it is not held.
    const base::Error& why() const noexcept { return state_->why; }
    /// `ended` is called once, from the loop, if the lease is over before its release. Errors: sandbox_gone,
    /// disk_full where the generation ended for its disk, conversation_ended, shutting_down with the member
    /// `begun`. Set it when the lease comes: what ended before is not told again.
    void on_end(std::function<void(const base::Error&)> ended) { state_->ended = std::move(ended); }

  private:
    std::shared_ptr<LeaseState> state_;
};

class LeaseTable {
  public:
    /// `released` is called when the holder of a granted lease gives it back.
    LeaseTable(base::Timers& timers, std::function<void(LeaseUse)> released)
        : timers_(timers), released_(std::move(released)) {}
    ~LeaseTable();
    LeaseTable(const LeaseTable&) = delete;
    LeaseTable& operator=(const LeaseTable&) = delete;

    /// Makes a lease that waits for grant() or end(). Calls `reply` once, from the loop.
    void add(std::string sandbox_id, LeaseUse use, LeaseReply reply);
    /// True if no lease waits or is held.
    bool is_empty() const;
    void grant();
    /// Ends the leases of `scope`, and tells the reason to holders and waiters.
    void end(action::LeaseScope scope, const base::Error& why);

  private:
    void forget_finished();

    base::Timers& timers_;
    std::function<void(LeaseUse)> released_;
    std::vector<std::shared_ptr<LeaseState>> states_;
};

}  // namespace atl::conversation
