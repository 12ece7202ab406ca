// Schemas of code mode: programs, their executions and events, calls of tools, executors.
#include "http/api/execution_form.hpp"
#include "http/api/forms.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema with_default(IntRange range, std::uint64_t by_default) {
    Schema out = integer(range);
    out["default"] = by_default;
    return out;
}

Schema nullable_time() {
    return Schema{{"type", {"string", "null"}}, {"format", "date-time"}};
}

/// Any JSON value.
Schema any_value() {
    return Schema::object();
}

Schema language_word() {
    return one_of({"javascript", "typescript", "python"});
}

Property call_id() {
    return {"callId", "The call, of this execution.", text()};
}
Property execution_id() {
    return {"executionId", "The execution.", text()};
}
Property executor_name() {
    return {"executor", "The engine.", text()};
}
Property tool_warnings() {
    const Schema warning = described(object(Members::required, {{"tool", "The tool.", text()},
                                                                {"keyword", "As `pattern`.", text()},
                                                                {"why", "Its place, and why.", text()}}),
                                     "A keyword that is left to you.");
    return {"warnings", "What of the tools' schemas is not checked; absent: all of it is.", list_of(warning)};
}

void add_tool(Schema& out) {
    Schema policy = one_of({"allow", "ask", "deny"});
    policy["default"] = "allow";
    out["ProgramTool"] = described(
        object(
            Members::optional,
            {{"name", "The name: `codemode.NAME(…)`. A letter or _ first, then also digits.",
              text_up_to(execution::k_tool_name_bytes)},
             {"description", "What it does, for the model.", text()},
             {"inputSchema",
              "The JSON Schema (draft 7) of its arguments, checked before anybody sees a call: of type array "
              "for the list of arguments, else for the only one. Without it anything fits.",
              any_object()},
             {"policy", "allow: called at once. ask: waits for a decision. deny: refused.",
              std::move(policy)}},
            {"name"}),
        "A tool that the program may call and that the caller answers.");
}

Schema execute_schema(SandboxTools of) {
    Schema executor = text();
    executor["default"] = "auto";
    Schema goes_on = flag();
    goes_on["default"] = false;
    Schema out = object(
        Members::optional,
        {{"code", "The text of the program: statements with `await` and `return`, or one expression.",
          text_up_to(base::k_max_program_bytes)},
         {"language", "Without it that of the executor, or javascript.", language_word()},
         {"executor", "An engine of `GET /v1/executors`; auto: the first that is available.",
          std::move(executor)},
         {"userId",
          "The user of your product that it is for. A key with a user may leave it out or name that user.",
          text_up_to(base::k_max_user_id_bytes)},
         {"timeoutMs", "Milliseconds until it is ended, from when its engine is ready.",
          with_default(k_execution_time_range,
                       static_cast<std::uint64_t>(base::k_default_execution_time.count()))},
         {"memoryMb",
          "Memory of program and engine together, in MB of 1,048,576 bytes; the server may set another "
          "maximum, and the key's ceiling holds.",
          with_default(execution_memory_range(base::k_default_max_execution_memory_mb),
                       base::k_default_execution_memory_mb)},
         {"cpuPercent", "Processor time, in percent of one core; the key's ceiling holds.",
          with_default(k_execution_cpu_range, 100)},
         {"maxOutputBytes", "Bytes of all logs together; what comes behind is dropped.",
          with_default(k_execution_output_range, base::k_default_execution_output_bytes)},
         {"maxCalls", "Calls of tools.",
          with_default(k_execution_calls_range, base::k_default_execution_calls)},
         {"detached", "Whether it goes on without the client that began it: answered at once, with 202.",
          std::move(goes_on)},
         {"tools", "What the program may call as `codemode.NAME(…)`, answered by the caller.",
          list_of(ref("ProgramTool"))}},
        {"code"});
    // Another maximum may be set: the schema does not tell a wrong one.
    out["properties"]["memoryMb"].erase("maximum");
    if (of == SandboxTools::offered) {
        out["properties"]["tools"]["description"] =
            "What the program may call as `codemode.NAME(…)`, answered by the caller. An entry with the "
            "name of one of the sandbox's tools that are offered has no `description` and no `inputSchema`: "
            "it gives that tool its `policy`, and the sandbox answers it.";
        out["properties"]["sandboxTools"] = described(
            any_of_these({constant("none"), list_of(text())}),
            "Which of the sandbox's tools the program may call; all but run_command, unless it is said.");
    }
    return out;
}

void add_result(Schema& out) {
    out["ProgramError"] = described(
        object(Members::required,
               {{"kind", "What ended the program.",
                 one_of({"syntax", "runtime", "timeout", "memory", "cancelled", "denied", "protocol",
                         "crashed", "no_room"})},
                {"message", "A sentence, for the model, 64 KiB at most. The program may have written it.",
                 text()},
                {"line", "The line of the program as it was sent, where that is known.", counter()}}),
        "Why a program has no result.");
    out["ProgramError"]["required"] = {"kind", "message"};
    out["ProgramLog"] = described(
        object(Members::required, {{"level", "The level.", one_of({"log", "info", "warn", "error", "debug"})},
                                   {"text", "The text.", text()}}),
        "One entry of the program's console.");
    out["ProgramCall"] = described(
        object(Members::required,
               {call_id(),
                {"name", "The tool.", text()},
                {"status", "What became of it.",
                 one_of({"answered", "failed", "denied", "refused", "unanswered", "open", "asked"})},
                {"durationMs", "From the call to that, in milliseconds.", counter()}}),
        "A call of a tool.");
    const std::initializer_list<Property> members = {
        {"result",
         "What the program returned. Absent: nothing, or undefined. What JSON has not is "
         "`{\"$atoll\":KIND,…}` "
         "(docs/code-mode.md).",
         any_value()},
        {"error", "Why it has no result.", ref("ProgramError")},
        {"logs", "What it wrote to the console; not in an event.", list_of(ref("ProgramLog"))},
        {"calls", "The calls of tools.", list_of(ref("ProgramCall"))},
        {"durationMs", "How long the program took, in milliseconds; its engine's start is not counted.",
         counter()},
        tool_warnings(),
        executor_name(),
        execution_id()};
    out["ExecutionResult"] =
        described(object(Members::required, members), "What became of a program, whatever that is.");
    out["ExecutionResult"]["required"] = {"calls", "durationMs", "executor"};
}

Schema event_of(const char* type, Schema data) {
    return object(Members::required, {{"seq", "Its number in the execution, from 1.", counter()},
                                      {"type", "The type.", constant(type)},
                                      {"at", "When it happened.", time()},
                                      {"data", "What happened.", std::move(data)}});
}

void add_execution_events(Schema& out) {
    out["ExecutionStartEvent"] = described(
        event_of("start", object(Members::optional, {execution_id(), executor_name(), tool_warnings()},
                                 {"executionId", "executor"})),
        "The run begins.");
    out["ExecutionLogEvent"] =
        described(event_of("log", ref("ProgramLog")), "The program wrote to the console.");
    out["ExecutionCallEvent"] = described(
        event_of(
            "tool_call",
            object(Members::required,
                   {call_id(),
                    {"name", "The tool.", text()},
                    {"args", "Its arguments, which fit the tool's schema.", list_of(any_value())},
                    {"policy", "ask: decide first. allow: answer it.", one_of({"allow", "ask"})},
                    {"answeredBy", "sandbox: it answers the call itself.", one_of({"caller", "sandbox"})}})),
        "The program called a tool.");
    out["ExecutionResultEvent"] =
        described(event_of("result", ref("ExecutionResult")), "The program has ended. No logs are in it.");
    out["ExecutionDoneEvent"] = described(event_of("done", any_object()), "Nothing follows.");
    Schema event;
    for (const auto& [type, name] : {std::pair("start", "ExecutionStartEvent"),
                                     {"log", "ExecutionLogEvent"},
                                     {"tool_call", "ExecutionCallEvent"},
                                     {"result", "ExecutionResultEvent"},
                                     {"done", "ExecutionDoneEvent"}}) {
        event["oneOf"].push_back(ref(name));
        event["discriminator"]["propertyName"] = "type";
        event["discriminator"]["mapping"][type] = ref(name)["$ref"];
    }
    out["ExecutionEvent"] = described(std::move(event), "An event of an execution.");
    out["ExecutionEventPage"] = described(
        object(Members::required, {{"events", "Events, the oldest first.", list_of(ref("ExecutionEvent"))},
                                   {"next", "The `after` of the next page.", counter()}}),
        "Events of an execution.");
    out["ExecutionStream"] = described(
        text(),
        "Server-Sent Events: `id` is the event's seq, `data` the ExecutionEvent; `event`, its type, is there "
        "with `?named=1` only. A stream that ends before its `done` has a StreamClosed as its last frame.");
    out["ExecutionStream"]["contentMediaType"] = "text/event-stream";
    out["ExecutionStream"]["contentSchema"] = any_of_these({ref("ExecutionEvent"), ref("StreamClosed")});
}

void add_answers(Schema& out) {
    const Schema error =
        object(Members::optional, {{"message", "What the program gets as the error's message.", text()}},
               {"message"});
    const std::initializer_list<Property> members = {
        {"result", "What the call gives to the program.", any_value()},
        {"error", "The call fails, which the program may catch.", error},
        {"decision", "Of a call whose policy is ask: whether it may go on.", one_of({"allow", "deny"})}};
    out["CallAnswer"] =
        described(object(Members::optional, members),
                  "Exactly one of these. A call that was allowed by a decision still waits for its answer.");
    const Schema id = Schema{{"type", {"string", "integer"}}};
    const Property own_id{"id", "Yours: the answer to the frame has it.", id};
    Schema answer = object(Members::optional, members);
    answer["properties"]["type"] = described(constant("answer"), "The type.");
    answer["properties"]["callId"] = described(text(), "The call.");
    answer["properties"]["id"] = described(id, own_id.means);
    answer["required"] = {"type", "callId"};
    out["ExecutionAnswerFrame"] = described(std::move(answer), "Answers a call, or decides about it.");
    out["ExecutionCancelFrame"] =
        described(object(Members::optional, {{"type", "The type.", constant("cancel")}, own_id}, {"type"}),
                  "Ends the execution.");
    out["ExecutionClientFrame"] =
        described(any_of_these({ref("ExecutionAnswerFrame"), ref("ExecutionCancelFrame")}),
                  "A text frame of the client.");
    out["ExecutionAccepted"] =
        described(object(Members::required, {{"type", "The type.", constant("accepted")}, own_id}),
                  "Answers a client's frame that has an `id`.");
    out["ExecutionFrames"] = described(
        object(Members::required,
               {{"client", "A text frame of the client.", ref("ExecutionClientFrame")},
                {"server", "A text frame of the server: an event, or the answer to a frame of the client.",
                 any_of_these({ref("ExecutionEvent"), ref("ExecutionAccepted"), ref("Rejected")})}}),
        "No body: what the text frames of the WebSocket are, each way.");
}

void add_execution(Schema& out) {
    out["ExecutionBegun"] =
        described(object(Members::optional, {execution_id(), tool_warnings()}, {"executionId"}),
                  "An execution that goes on by itself.");
    Schema brief =
        object(Members::required,
               {execution_id(),
                {"userId", "Whose it is; null: nobody's in particular.", nullable_text()},
                {"status", "waiting: in the line of its user. starting: its sandbox is being made.",
                 one_of({"waiting", "starting", "running", "ended"})},
                executor_name(),
                {"language", "The language of the program.", language_word()},
                {"detached", "Whether it goes on without the client that began it.", flag()},
                {"createdAt", "When it was asked for.", time()},
                {"endedAt", "When it ended, or null.", nullable_time()},
                {"lastSeq", "The number of its last event.", counter()},
                {"openCalls", "Calls that wait for an answer, or, `asked`, for a decision.",
                 list_of(described(
                     object(Members::required, {call_id(),
                                                {"name", "The tool.", text()},
                                                {"status", "What it waits for.", one_of({"open", "asked"})}}),
                     "An open call."))}});
    out["ExecutionPage"] =
        described(object(Members::required,
                         {{"executions", "Executions, the latest first.", list_of(brief)},
                          {"next", "The `cursor` of the next page; null: there is none.", nullable_text()}}),
                  "Executions.");
    brief["properties"]["outcome"] =
        described(any_of_these({ref("ExecutionResult"), Schema{{"type", "null"}}}),
                  "What became of the program; null while it has not ended.");
    brief["required"].push_back("outcome");
    out["Execution"] = described(std::move(brief), "A run of a program.");
}

void add_executors(Schema& out) {
    const Schema executor = described(
        object(
            Members::required,
            {{"name", "The name.", text()},
             {"available", "Whether it can run programs here.", flag()},
             {"reason", "Why it cannot; only then.", text()},
             {"version", "Of its package; null: not known.", nullable_text()},
             {"languages", "The languages that it runs.", list_of(language_word())},
             {"isolates", "What the engine itself isolates. The sandbox around it is the boundary.", text()},
             {"weaknesses", "What it does not.", list_of(text())}}),
        "An engine.");
    out["ExecutorList"] = described(
        object(Members::required, {{"executors", "The engines that this server knows.", list_of(executor)}}),
        "The engines.");
    auto& required = out["ExecutorList"]["properties"]["executors"]["items"]["required"];
    required = {"name", "available", "version", "languages", "isolates", "weaknesses"};
    out["ToolPrompt"] = described(
        object(Members::optional, {{"tools", "The tools.", list_of(ref("ProgramTool"))}}, {"tools"}),
        "Tools to be told to a model.");
    out["ToolDeclarations"] = described(
        object(Members::optional,
               {{"declarations", "TypeScript: `declare const codemode: {…}`.", text()}, tool_warnings()},
               {"declarations"}),
        "Tools as text for a prompt.");
    Schema ttl = integer(k_token_ttl_range);
    ttl["default"] = base::k_default_token_ttl.count();
    Schema scope = one_of({"read", "chat"});
    scope["default"] = "read";
    out["CreateExecutionToken"] = described(
        object(Members::optional,
               {{"ttlSeconds", "Seconds for which the token is good.", std::move(ttl)},
                {"scope",
                 "Read: its events. Chat: its WebSocket, too, with which calls are answered and the "
                 "run is cancelled.",
                 std::move(scope)}}),
        "A new token for an execution. An empty body takes all defaults.");
}

}  // namespace

void add_execution_schemas(Schema& out) {
    add_tool(out);
    out["Execute"] = described(execute_schema(SandboxTools::none), "A program to run.");
    out["ExecuteWithSandbox"] =
        described(execute_schema(SandboxTools::offered), "A program to run, with the tools of a sandbox.");
    add_result(out);
    add_execution_events(out);
    add_answers(out);
    add_execution(out);
    add_executors(out);
}

}  // namespace atl::http
