#include "http/api/execution_form.hpp"

#include <algorithm>
#include <utility>

#include "core/base/json_dump.hpp"
#include "core/plain/tool_table.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/api/forms.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::size_t k_max_error_message_bytes = 16UL * 1024;
// An error message as JSON, each of its bytes escaped, and the names.
constexpr std::size_t k_max_answer_rest_bytes = 6 * k_max_error_message_bytes + 1024;
constexpr std::size_t k_max_word_bytes = 32;

void keep_failure(ObjectReader& reader, const base::Result<void>& result) {
    if (result.has_error())
        reader.fail(result.error());
}

std::optional<execution::Policy> read_policy(ObjectReader& reader) {
    const auto word = reader.string("policy", k_max_word_bytes);
    if (!word)
        return execution::Policy::allow;
    const auto policy = execution::parse_policy(*word);
    if (policy.has_error())
        reader.fail("policy", "\"allow\", \"ask\" or \"deny\"");
    return policy.has_value() ? std::optional(*policy) : std::nullopt;
}

void read_run_limits(ObjectReader& reader, std::uint32_t max_memory_mb, const sandbox::LimitChanges& ceilings,
                     execution::ExecutionRequest& request) {
    sandbox::LimitChanges asked;
    if (const auto memory = reader.integer("memoryMb", execution_memory_range(max_memory_mb)))
        asked.memory_mb = static_cast<std::uint32_t>(*memory);
    if (const auto cpu = reader.integer("cpuPercent", k_execution_cpu_range))
        asked.cpu_percent = static_cast<std::uint32_t>(*cpu);
    keep_failure(reader, check_ceilings(asked, ceilings, ""));
    sandbox::Limits limits;
    limits.memory_mb = std::min(request.memory_mb, max_memory_mb);
    limits.cpu_percent = request.cpu_percent;
    limits = asked.applied_to(lowered_to(ceilings, limits));
    request.memory_mb = limits.memory_mb;
    request.cpu_percent = limits.cpu_percent;
}

/// Texts of schemas that were split off, in their order; null: they are in the body.
using SplitSchemas = std::vector<std::string>*;

/// A tool of the caller, or, where its name is one of `own`, a policy for that tool of the sandbox.
void read_tools(ObjectReader& reader, const std::vector<std::string>& own, SplitSchemas schemas,
                std::vector<execution::ToolSpec>& tools) {
    std::size_t next = 0;
    const Json* const list = reader.any("tools");
    if (list == nullptr)
        return;
    if (!list->is_array() || list->size() > execution::k_tools)
        return reader.fail("tools", "an array of at most " + std::to_string(execution::k_tools) + " tools");
    for (const Json& item : *list) {
        ObjectReader one(item, "tools[" + std::to_string(tools.size()) + "].");
        execution::ToolSpec spec;
        spec.name = one.string("name", execution::k_tool_name_bytes).value_or("");
        spec.description = one.string("description", execution::k_tool_description_bytes).value_or("");
        const Json* const schema = one.object("inputSchema");
        if (schema != nullptr && schemas == nullptr)
            spec.schema_json = base::json_dump(*schema);
        else if (schema != nullptr && next < schemas->size())
            spec.schema_json = std::move((*schemas)[next++]);
        else if (schema != nullptr)
            one.fail(Error(Errc::internal, "The process that checks lost a schema."));
        spec.policy = read_policy(one).value_or(execution::Policy::deny);
        if (!one.failed() && spec.name.empty())
            one.fail("name", "the name of the tool");
        const bool is_own = std::find(own.begin(), own.end(), spec.name) != own.end();
        for (const char* const member : {"description", "inputSchema"}) {
            if (is_own && item.contains(member))
                one.fail(member, "left out: " + spec.name +
                                     " is the sandbox's own, and `tools` gives it a policy alone");
        }
        keep_failure(reader, one.finish());
        if (reader.failed())
            return;
        tools.push_back(std::move(spec));
    }
}

void read_sandbox_tools(ObjectReader& reader, std::vector<std::string>& names) {
    const std::string wanted = "\"none\", or an array of names of the tools of GET /v1/tools";
    const Json* const value = reader.any("sandboxTools");
    if (value == nullptr) {
        for (const base::ToolSpec& tool : base::k_tools)
            if (tool.effect != base::ToolSpec::Effect::runs)
                names.emplace_back(tool.name);
        return;
    }
    if (value->is_string() && *value == "none")
        return;
    if (!value->is_array())
        return reader.fail("sandboxTools", wanted);
    for (const Json& item : *value) {
        const std::string* const name = item.get_ptr<const std::string*>();
        if (name == nullptr || base::find_tool(*name) == nullptr)
            return reader.fail("sandboxTools", wanted);
        if (std::find(names.begin(), names.end(), *name) == names.end())
            names.push_back(*name);
    }
}

/// The members of an answer; exactly one is there.
execution::CallAnswer read_answer(ObjectReader& reader) {
    execution::CallAnswer answer;
    int members = 0;
    if (const Json* const result = reader.any("result")) {
        answer.result_json = base::json_dump(*result);
        ++members;
    }
    if (const Json* const error = reader.object("error")) {
        ObjectReader inner(*error, "error.");
        answer.error = inner.string("message", k_max_error_message_bytes);
        if (!answer.error)
            inner.fail("message", "a string");
        keep_failure(reader, inner.finish());
        ++members;
    }
    if (const auto word = reader.string("decision", k_max_word_bytes)) {
        answer.decision =
            *word == "allow" ? execution::CallAnswer::Decision::allow : execution::CallAnswer::Decision::deny;
        if (*word != "allow" && *word != "deny")
            reader.fail("decision", "\"allow\" or \"deny\"");
        ++members;
    }
    if (!reader.failed() && members != 1)
        reader.fail_missing(
            Error(Errc::invalid_field, "Give exactly one of `result`, `error` and `decision`."));
    return answer;
}

base::Result<Json> parse_rest(const execution::SplitJson& body) {
    base::JsonBudget budget = base::k_client_json;
    return parse_json(body.rest, budget);
}

/// The members beside the value.
base::Result<Json> rest_of(const execution::SplitJson& body) {
    if (body.rest.size() > k_max_answer_rest_bytes)
        return Error(Errc::invalid_field, "Beside `result`, an answer has " +
                                              std::to_string(k_max_answer_rest_bytes) + " bytes at most.");
    return parse_rest(body);
}

/// In place of null.
void put_value(execution::CallAnswer& answer, execution::SplitJson& body) {
    if (!answer.result_json || body.values.empty())
        return;
    answer.result_json = std::move(body.values.front());
    answer.result_text = execution::CallAnswer::Text::checked;
}

base::Result<ExecuteForm> read_execute(const Json& body, SplitSchemas schemas, std::uint32_t max_memory_mb,
                                       SandboxTools of, const sandbox::LimitChanges& ceilings) {
    ObjectReader reader(body);
    ExecuteForm form;
    execution::ExecutionRequest& request = form.request;
    auto code = reader.string("code", base::k_max_program_bytes);
    if (!code)
        reader.fail("code", "the text of a program");
    request.code = std::move(code).value_or("");
    if (const auto word = reader.string("language", k_max_word_bytes)) {
        form.language = execution::parse_language(*word);
        if (!form.language)
            reader.fail("language", "\"javascript\", \"typescript\" or \"python\"");
    }
    form.executor = reader.string("executor", base::k_max_body_bytes).value_or(form.executor);
    using Choice = execution::ExecutionRequest::Choice;
    request.choice = form.executor == execution::k_auto_executor ? Choice::automatic : Choice::named;
    request.user_id = reader.string("userId", base::k_max_user_id_bytes);
    if (const auto time = reader.integer("timeoutMs", k_execution_time_range))
        request.time = base::Millis(*time);
    read_run_limits(reader, max_memory_mb, ceilings, request);
    if (const auto bytes = reader.integer("maxOutputBytes", k_execution_output_range))
        request.max_output_bytes = static_cast<std::size_t>(*bytes);
    if (const auto calls = reader.integer("maxCalls", k_execution_calls_range))
        request.max_calls = *calls;
    if (reader.boolean("detached").value_or(false))
        request.on_disconnect = execution::ExecutionRequest::OnDisconnect::finish;
    if (of == SandboxTools::offered)
        read_sandbox_tools(reader, form.sandbox_tools);
    read_tools(reader, form.sandbox_tools, schemas, form.tools);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return form;
}

base::Result<std::vector<execution::ToolSpec>> read_prompt(const Json& body, SplitSchemas schemas) {
    ObjectReader reader(body);
    std::vector<execution::ToolSpec> tools;
    read_tools(reader, {}, schemas, tools);
    if (!reader.failed() && !body.contains("tools"))
        reader.fail("tools", "an array of tools");
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return tools;
}

}  // namespace

base::Result<ExecuteForm> read_execute_form(const Json& body, std::uint32_t max_memory_mb, SandboxTools of,
                                            const sandbox::LimitChanges& ceilings) {
    return read_execute(body, nullptr, max_memory_mb, of, ceilings);
}

base::Result<ExecuteForm> read_execute_form(execution::SplitJson body, std::uint32_t max_memory_mb,
                                            SandboxTools of, const sandbox::LimitChanges& ceilings) {
    const auto rest = parse_rest(body);
    if (rest.has_error())
        return rest.error();
    return read_execute(*rest, &body.values, max_memory_mb, of, ceilings);
}

base::Result<std::vector<execution::ToolSpec>> read_prompt_form(const Json& body) {
    return read_prompt(body, nullptr);
}

base::Result<std::vector<execution::ToolSpec>> read_prompt_form(execution::SplitJson body) {
    const auto rest = parse_rest(body);
    if (rest.has_error())
        return rest.error();
    return read_prompt(*rest, &body.values);
}

base::Result<execution::CallAnswer> read_call_answer(const Json& body) {
    ObjectReader reader(body);
    execution::CallAnswer answer = read_answer(reader);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return answer;
}

base::Result<execution::CallAnswer> read_call_answer(execution::SplitJson body) {
    const auto rest = rest_of(body);
    if (rest.has_error())
        return rest.error();
    auto answer = read_call_answer(*rest);
    if (answer.has_value())
        put_value(*answer, body);
    return answer;
}

base::Result<ExecutionFrame> read_execution_frame(execution::SplitJson body) {
    const auto rest = rest_of(body);
    if (rest.has_error())
        return rest.error();
    auto frame = read_execution_frame(*rest);
    if (frame.has_value())
        put_value(frame->answer, body);
    return frame;
}

base::Result<ExecutionFrame> read_execution_frame(const Json& body) {
    ObjectReader reader(body);
    ExecutionFrame frame;
    if (reader.any("id") != nullptr) {
        if (auto id = frame_id(body))
            frame.id = std::move(*id);
        else
            reader.fail("id", "a string of 1 to 128 bytes or an integer of at most 53 bits");
    }
    const auto type = reader.string("type", k_max_word_bytes);
    if (type == "answer") {
        frame.kind = ExecutionFrame::Kind::answer;
        const auto call = reader.string("callId", k_max_word_bytes);
        if (!call)
            reader.fail("callId", "the `callId` of a call");
        frame.call_id = call.value_or("");
        frame.answer = read_answer(reader);
    } else if (type != "cancel") {
        reader.know({"callId", "result", "error", "decision"});
        reader.fail("type", "\"answer\" or \"cancel\"");
    }
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return frame;
}

}  // namespace atl::http
