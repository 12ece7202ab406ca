// What the machine of a conversation (machine.hpp) asks its owner to do, one small struct an action.
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

/// Of the error that a turn ends with when its sandbox ended so.
std::string error_code_of(sandbox::ExitClass exit_class);
/// The `code` of a start that failed: agent_failed or sandbox_failed.
std::string start_code_of(base::Errc why);
/// Of the pause that follows such an end.
PauseReason pause_reason_of(sandbox::ExitClass exit_class) noexcept;

/// Whether a generation starts with its agent.
enum class AgentStart : std::uint8_t { at_once, on_demand };

namespace action {

// The log.
struct LogSessionStart {};
struct LogSandboxReady {};
struct LogSandboxResumed {
    PauseMode mode = PauseMode::cold;  // of the pause that is over
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
struct LogTurnDone {};

// The generation and its agent. What becomes of each is told to the machine.
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

// The turn.
struct SendQuery {};
struct DropQuery {};
struct SendInterrupt {};
struct CloseTurn {};  // persist it: it is over
/// Call Machine::grace_passed() after this time.
struct ArmGrace {
    base::Millis wait = base::k_interrupt_deadline;
};
struct DisarmGrace {};

// Leases.
struct GrantLeases {};  // all that wait
/// They are over. `held`: those that wait get the next generation.
enum class LeaseScope : std::uint8_t { all, held, waiting };
struct EndLeases {
    LeaseScope scope = LeaseScope::all;
    std::string code;
    std::string detail;
};
/// Call Machine::lease_grace_passed() after base::k_lease_grace.
struct ArmLeaseGrace {};
struct DisarmLeaseGrace {};

// The record and those who wait for an answer.
struct Persist {};  // status, reason or generation changed
/// To those who wait for a start; without a code it went well.
struct AnswerStarted {
    std::string code;
    std::string detail;
};
struct AnswerPaused {};
/// It never came to life: forget it and answer its create.
struct Discard {
    std::string code;
    std::string detail;
};

}  // namespace action

using Action = std::variant<
    action::LogSessionStart, action::LogSandboxReady, action::LogSandboxResumed, action::LogSandboxPaused,
    action::LogSandboxTerminated, action::LogTurnError, action::LogTurnDone, action::StartSandbox,
    action::StartAgent, action::StopSandbox, action::FreezeSandbox, action::ThawSandbox,
    action::RemoveSandbox, action::SendQuery, action::DropQuery, action::SendInterrupt, action::CloseTurn,
    action::ArmGrace, action::DisarmGrace, action::GrantLeases, action::EndLeases, action::ArmLeaseGrace,
    action::DisarmLeaseGrace, action::Persist, action::AnswerStarted, action::AnswerPaused, action::Discard>;

using Actions = std::vector<Action>;

}  // namespace atl::conversation
