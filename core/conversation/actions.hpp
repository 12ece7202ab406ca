// The actions that the machine of a conversation (machine.hpp) asks its owner to perform, each a small
// struct.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/limits.hpp"
#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

/// The code of the error that a turn ends with when its sandbox ended so.
std::string error_code_of(sandbox::ExitClass exit_class);
/// The `code` of a start that failed: agent_failed or sandbox_failed.
std::string start_code_of(base::Errc why);
/// The reason of the pause that follows such an end.
PauseReason pause_reason_of(sandbox::ExitClass exit_class) noexcept;

/// Says if a generation starts with its agent.
enum class AgentStart : std::uint8_t { at_once, on_demand };

namespace action {

// Actions on the log.
struct LogSessionStart {};
struct LogSandboxReady {};
struct LogSandboxResumed {
    PauseMode mode = PauseMode::cold;  // the mode of the pause that is over
};
struct LogSandboxPaused {
    PauseReason reason = PauseReason::none;
    PauseMode mode = PauseMode::cold;
    std::string detail;
};
struct LogSandboxTerminated {
    sandbox::Exit exit;
};
struct LogTurnError {
    std::string code;
    std::string message;
};
struct LogTurnInterrupted {};  // before an agent had it
struct LogTurnDone {};

// Actions on the generation and its agent. The machine is told how each went.
struct StartSandbox {
    AgentStart agent = AgentStart::at_once;
};
struct StartAgent {};
struct StopSandbox {
    std::string reason;
    sandbox::ExitClass exit_class = sandbox::ExitClass::stopped;
};
struct FreezeSandbox {};
struct ThawSandbox {};
struct RemoveSandbox {};  // with its workspace

// Actions on the turn.
struct SendQuery {};
struct DropQuery {};
struct SendInterrupt {};
struct CloseTurn {};  // persist it: it is over
/// Call Machine::grace_passed() after this time.
struct ArmGrace {
    base::Millis wait = base::k_interrupt_deadline;
};
struct DisarmGrace {};

// Actions on leases.
struct GrantLeases {};  // grants all that wait
/// Ends leases. `held`: the held ones alone; those that wait get the next generation.
enum class LeaseScope : std::uint8_t { all, held, waiting };
struct EndLeases {
    LeaseScope scope = LeaseScope::all;
    std::string code;
    std::string detail;
};
/// Call Machine::lease_grace_passed() after base::k_lease_grace.
struct ArmLeaseGrace {};
struct DisarmLeaseGrace {};

// Actions on the record, and answers to clients that wait.
struct Persist {};  // the status, reason or generation changed
/// Answers the clients that wait for a start; without a code the start went well.
struct AnswerStarted {
    std::string code;
    std::string detail;
};
struct AnswerPaused {};
/// The conversation never came to life: forget it and answer its create.
struct Discard {
    std::string code;
    std::string detail;
};

}  // namespace action

using Action = std::variant<
    action::LogSessionStart, action::LogSandboxReady, action::LogSandboxResumed, action::LogSandboxPaused,
    action::LogSandboxTerminated, action::LogTurnError, action::LogTurnInterrupted, action::LogTurnDone,
    action::StartSandbox, action::StartAgent, action::StopSandbox, action::FreezeSandbox, action::ThawSandbox,
    action::RemoveSandbox, action::SendQuery, action::DropQuery, action::SendInterrupt, action::CloseTurn,
    action::ArmGrace, action::DisarmGrace, action::GrantLeases, action::EndLeases, action::ArmLeaseGrace,
    action::DisarmLeaseGrace, action::Persist, action::AnswerStarted, action::AnswerPaused, action::Discard>;

using Actions = std::vector<Action>;

}  // namespace atl::conversation
