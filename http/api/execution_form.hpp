// Forms of code mode: requests to run a program, answers to calls, frames that clients send over an
// execution's WebSocket. Not here: the choice of the engine, the owner of an execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/execution_limits.hpp"
#include "core/execution/execution.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "core/execution/tool_set.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

inline constexpr IntRange k_execution_time_range{1, base::k_max_execution_time.count()};
inline constexpr IntRange k_execution_cpu_range{base::k_least_execution_cpu_percent,
                                                base::k_max_execution_cpu_percent};
inline constexpr IntRange k_execution_output_range{1, base::k_max_execution_output_bytes};
inline constexpr IntRange k_execution_calls_range{1, base::k_max_execution_calls};
/// `most_mb`: --execute-max-memory-mb.
inline IntRange execution_memory_range(std::uint32_t most_mb) {
    return {base::k_least_execution_memory_mb, most_mb};
}

/// Says if the route offers the tools of a sandbox.
enum class SandboxTools : std::uint8_t { none, offered };

struct ExecuteForm {
    execution::ExecutionRequest request;  // without engine, language, tools and user
    std::string executor{execution::k_auto_executor};
    std::optional<execution::Language> language;
    std::vector<execution::ToolSpec> tools;  // of the caller; of sandbox_tools only name and policy
    std::vector<std::string> sandbox_tools;
};

/// `ceilings` are those of the request's key. Memory and processor time that the body does not name are the
/// defaults, or their ceilings if those are lower. Errors: invalid_field, unknown_field, limit_not_allowed.
base::Result<ExecuteForm> read_execute_form(const Json& body, std::uint32_t max_memory_mb, SandboxTools of,
                                            const sandbox::LimitChanges& ceilings = {});
/// `{tools}`. Errors: invalid_field, unknown_field.
base::Result<std::vector<execution::ToolSpec>> read_prompt_form(const Json& body);
/// Bodies with tools that have more values than the loop parses: their schemas are split off, and the rest is
/// read like a short body. Errors: as above, and body_too_large for the rest.
base::Result<ExecuteForm> read_execute_form(execution::SplitJson body, std::uint32_t max_memory_mb,
                                            SandboxTools of, const sandbox::LimitChanges& ceilings = {});
base::Result<std::vector<execution::ToolSpec>> read_prompt_form(execution::SplitJson body);
/// `{result | error: {message} | decision}`. Errors: as above.
base::Result<execution::CallAnswer> read_call_answer(const Json& body);

/// True for an answer that takes longer to parse than the loop has time for: it is split at this member, and
/// then read. Its other members are bounded.
inline bool is_long_answer(std::string_view text) {
    return text.size() > base::k_small_answer_bytes;
}
/// The bytes of a short one bound its values.
inline constexpr base::JsonBudget k_short_answer_json{};
inline constexpr std::string_view k_answer_value = "result";
base::Result<execution::CallAnswer> read_call_answer(execution::SplitJson body);

struct ExecutionFrame {
    enum class Kind : std::uint8_t { answer, cancel };
    Kind kind = Kind::cancel;
    std::string call_id;
    execution::CallAnswer answer;
    std::string id;  // as the text of JSON; empty: none
};
/// `{type: "answer", callId, …, id?}` or `{type: "cancel", id?}`. Errors: as above.
base::Result<ExecutionFrame> read_execution_frame(const Json& body);
base::Result<ExecutionFrame> read_execution_frame(execution::SplitJson body);

}  // namespace atl::http
