// The record that an execution keeps of a call of a tool, and the types of its events. Internal to
// execution.cpp and execution_report.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "core/execution/tool_host.hpp"
#include "core/execution/tool_set.hpp"

namespace atl::execution {

namespace event {
inline constexpr std::string_view start = "start";
inline constexpr std::string_view log = "log";
inline constexpr std::string_view tool_call = "tool_call";
inline constexpr std::string_view result = "result";
inline constexpr std::string_view done = "done";
}  // namespace event

/// The name of a call that callers see.
inline std::string call_name(std::uint64_t id) {
    return "c" + std::to_string(id);
}

/// A call of a tool, open or not.
struct ExecutionCall {
    std::uint64_t id = 0;
    std::string name;
    std::string args_json;  // until it is answered
    Policy policy = Policy::allow;
    // checking asked open answered failed denied refused unanswered
    std::string_view status = "checking";
    bool is_hosted = false;
    base::SteadyTime began{};
    base::Millis took{0};
    std::unique_ptr<HostedCall> hosted;
    std::unique_ptr<OffloadedJob> reading;  // of the host's answer

    bool is_open() const noexcept { return status == "open" || status == "asked"; }
    /// Nobody was told of it.
    bool is_unseen() const noexcept { return status == "checking"; }
};

}  // namespace atl::execution
