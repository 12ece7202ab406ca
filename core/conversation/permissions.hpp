// The permissions that the agent of an open turn waits for: each is decided exactly once, by the agent's
// policy, by somebody who follows the conversation, by time, or by the end of the turn. Internal to
// core/conversation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

/// The data of an event permission_request.
struct PermissionRequest {
    struct Option {
        std::string id;
        std::string kind;  // allow_once, allow_always, reject_once, reject_always
        bool allows() const noexcept { return kind.starts_with("allow_"); }
    };
    std::string id;
    std::vector<Option> options;
};
/// `data`: of a checked event. What is no option is left out, one whose id is too long, too.
PermissionRequest parse_permission_request(std::string_view data);

/// How a permission was decided; what the event permission_resolved says.
struct PermissionDecision {
    enum class Outcome : std::uint8_t { allowed, denied, cancelled };
    enum class Reason : std::uint8_t {
        answered,
        policy,
        timeout,
        unattended,  // nobody followed the conversation
        withdrawn,   // by the agent
        turn_ended,
    };
    std::string id;
    Outcome outcome = Outcome::cancelled;
    Reason reason = Reason::answered;
    std::string option_id;  // the chosen one; empty: none
};
std::string_view to_string(PermissionDecision::Outcome outcome) noexcept;
std::string_view to_string(PermissionDecision::Reason reason) noexcept;

class Permissions {
  public:
    /// `decided` is called once for each request that ask() took, possibly from inside a call.
    Permissions(base::Timers& timers, std::function<void(const PermissionDecision&)> decided)
        : timers_(timers), decided_(std::move(decided)) {}
    ~Permissions() { forget(); }
    Permissions(const Permissions&) = delete;
    Permissions& operator=(const Permissions&) = delete;

    /// yes: somebody follows the conversation, who could answer.
    enum class Attended : std::uint8_t { no, yes };
    /// A request without an id, with one beyond k_max_permission_id_bytes, or whose id waits already is
    /// ignored. Beyond k_max_open_permissions it is cancelled.
    void ask(PermissionRequest request, const sandbox::AgentSpec& agent, Attended attended);
    /// `option_id`: empty: cancelled. Errors: not_found, invalid_field for an option that it does not have.
    base::Result<void> answer(const std::string& id, const std::string& option_id);
    /// The agent does not ask any more: the request is cancelled, if it waits.
    void withdraw(const std::string& id);
    /// The turn ends: all that wait are cancelled.
    void end_turn();
    /// Nobody follows the conversation any more: all that wait are denied.
    void leave_unattended();
    bool is_empty() const noexcept { return waiting_.empty(); }
    /// Nothing waits any more, and nobody is told.
    void forget() { (void)take_all(); }

  private:
    struct Waiting {
        PermissionRequest request;
        base::TimerId timer = 0;
    };

    void decide(const PermissionRequest& request, const PermissionRequest::Option* option,
                PermissionDecision::Outcome otherwise, PermissionDecision::Reason reason);
    void deny(const PermissionRequest& request, PermissionDecision::Reason reason);
    void time_out(const std::string& id);
    std::map<std::string, Waiting> take_all();

    base::Timers& timers_;
    std::function<void(const PermissionDecision&)> decided_;
    std::map<std::string, Waiting> waiting_;
};

}  // namespace atl::conversation
