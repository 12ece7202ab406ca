// The cause of the end of work on a generation. This is the one place that makes an error of the end of a
// generation, and the one that waits for it. The connection to the guest breaks first; the cause is known a
// moment later. Not here: the end of a generation itself (core/sandbox/machine.hpp).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/conversation/leases.hpp"

namespace atl::sandbox {
class Manager;
}

namespace atl::conversation {

/// The error of work whose generation ended: conversation_ended, shutting_down, disk_full where it ended for
/// its disk, else sandbox_gone. `code` is that of action::EndLeases or error_code_of(), `detail` the cause as
/// a sentence.
base::Error end_error(std::string_view code, std::string detail);

/// The same for the last generation of a sandbox, which is being ended or has ended. Without a known cause,
/// as after a restart of the server: sandbox_gone.
base::Error end_of_generation(const sandbox::Manager& sandboxes, const std::string& sandbox_id);

/// Finds the cause for the holder of a lease. The lease must outlive this. Takes the lease's on_end() for
/// itself.
class EndCause {
  public:
    /// `told` is called once: with the end of the lease, or with what met() found. It may destroy this.
    using Told = std::function<void(const base::Error&)>;
    EndCause(Lease& lease, base::Timers& timers, Told told);
    ~EndCause();
    EndCause(const EndCause&) = delete;
    EndCause& operator=(const EndCause&) = delete;

    /// The work failed with `error`. A broken connection, or a generation that is gone, is told as the end of
    /// the lease, if that comes within base::k_end_cause_wait. Everything else is told from inside the call.
    void met(const base::Error& error);

  private:
    void tell(const base::Error& why);

    Lease& lease_;
    base::Timers& timers_;
    base::TimerId timer_ = 0;
    Told told_;
};

}  // namespace atl::conversation
