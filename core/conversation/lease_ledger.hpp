// The numbers of held and waiting leases on a conversation's generation, as a part of its machine
// (machine.hpp). Pure. Not here: the holders (leases.hpp).
#pragma once

#include <cstddef>

#include "core/conversation/actions.hpp"

namespace atl::conversation {

/// The use of a lease.
enum class LeaseUse : std::uint8_t {
    request,       // something that ends by itself: it leaves the status as it is
    no_new_files,  // a request that only reads or deletes files: it starts a sandbox that may not write, too
    process,       // something that stays: it makes the conversation active, and does not keep it so
};

class LeaseLedger {
  public:
    void want(LeaseUse use) noexcept { ++waiting_.of(use); }
    /// Precondition: a lease of this use is held.
    void release(LeaseUse use);
    /// The waiting leases are held from now on.
    void grant(Actions& out);
    void end(Actions& out, action::EndLeases end);
    void arm_grace(Actions& out);
    void disarm_grace(Actions& out);
    void grace_passed() noexcept { grace_armed_ = false; }

    bool is_any_held() const noexcept { return held_.all() > 0; }
    bool is_any_wanted() const noexcept { return waiting_.all() > 0; }
    bool is_process_wanted() const noexcept { return waiting_.processes > 0; }
    bool is_request_there() const noexcept { return held_.requests + waiting_.requests > 0; }

  private:
    struct Count {
        std::size_t requests = 0;
        std::size_t processes = 0;
        std::size_t& of(LeaseUse use) noexcept { return use == LeaseUse::process ? processes : requests; }
        std::size_t all() const noexcept { return requests + processes; }
    };

    Count held_;
    Count waiting_;
    bool grace_armed_ = false;
};

}  // namespace atl::conversation
