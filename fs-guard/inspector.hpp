// Looks at one sandbox while none of its processes runs: stops them, has a helper measure the workspace and
// the deleted files that they hold, and thaws them. If they cannot be stopped, or not long enough, the
// inspection still happens and says so (Inspection::stood_still).
// Invariants: one inspection at a time; a sandbox stands still for k_longest_standstill at most, even if the
// helper does not answer; every inspection is answered once.
#pragma once

#include <functional>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/limits.hpp"
#include "fs-guard/helper_client.hpp"

namespace atl::fs_guard {

/// With the time that stopping it takes, less than a guest has for an answer.
inline constexpr base::Millis k_longest_standstill{2000};
static_assert(base::k_freeze_deadline + k_longest_standstill < base::k_control_reply_deadline);

/// The ports of an inspection; all answer later, from the loop.
struct InspectorPorts {
    base::Timers& timers;
    /// Stops all processes of a sandbox. There may be no answer.
    std::function<void(const std::string& id, std::function<void(base::Result<void>)> done)> hold;
    /// Ends the hold at once; true if the processes stood still from the answer of `hold` until now.
    std::function<bool(const std::string& id)> end_hold;
    /// Its processes now; none once they are gone.
    std::function<std::optional<Members>(const std::string& id)> members;
    /// The helper's inspection of the workspace and these processes.
    std::function<void(const std::string& id, const Members& members,
                       std::function<void(base::Result<Inspection>)> done)>
        look;
};

class Inspector {
  public:
    using Done = std::function<void(base::Result<Inspection>)>;

    explicit Inspector(InspectorPorts ports) : ports_(std::move(ports)) {}
    /// Thaws a sandbox that stands still.
    ~Inspector();
    Inspector(const Inspector&) = delete;
    Inspector& operator=(const Inspector&) = delete;

    /// `done` may come after the helper's deadline. Precondition: no inspection is under way.
    void inspect(const std::string& id, Done done);

  private:
    enum class Hold : std::uint8_t { none, asked, standing };

    void look(const std::string& id);
    void finish(const std::string& id, const base::Result<Inspection>& found);
    void stop_waiting();

    InspectorPorts ports_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();  // answers that come later are dropped
    std::uint64_t number_ = 0;                              // of the inspection under way
    std::string id_;
    Hold hold_ = Hold::none;
    base::TimerId timer_ = 0;
    Done done_;
};

}  // namespace atl::fs_guard
