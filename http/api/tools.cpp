// The routes of the tools. The guest does the work and makes the result object, whose bytes are passed on as
// they come; but run_command is the server's (run_command.hpp).
#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/json_dump.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/tool_table.hpp"
#include "core/plain/utf8.hpp"
#include "http/api/api.hpp"
#include "http/api/detached_calls.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/guest_call.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/api/ownership.hpp"
#include "http/api/run_command.hpp"
#include "http/api/tool_failure.hpp"
#include "http/api/tool_formats.hpp"
#include "http/api/tool_progress.hpp"
#include "http/api/tool_stream.hpp"
#include "http/wire/download.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

// The guest's word for its command (bridge/protocol.hpp).
constexpr std::string_view k_tool_command = "tool";
constexpr std::size_t k_max_sandbox_id_bytes = 256;
constexpr std::size_t k_max_tool_call_id_bytes = 256;

struct ToolForm {
    std::optional<std::string> sandbox_id;
    std::string arguments;  // JSON text
    std::string context;    // likewise; empty: none
    std::string tool_call_id;
    std::string misnamed_sandbox;  // the member of the context that seems to be meant, where none names it
    std::optional<CommandForm> command;  // of run_command
    EventNames names = EventNames::none;
    std::shared_ptr<ToolProgressLog> progress;  // once the call is under way
};

/// Levels of objects and lists. The parser has bounded them.
std::size_t depth_of(const Json& value) {
    std::size_t depth = 0;
    for (const Json& inner : value)
        if (inner.is_structured())
            depth = std::max(depth, depth_of(inner));
    return depth + 1;
}

/// An object among the members, as text; empty if there is none.
std::string object_text(ObjectReader& reader, std::string_view name) {
    const Json* const found = reader.object(name);
    if (found != nullptr && !found->is_object())
        reader.fail(name, "an object");
    if (found != nullptr && depth_of(*found) > base::k_max_tool_depth)
        reader.fail(name, "an object of at most " + std::to_string(base::k_max_tool_depth) + " levels");
    return found != nullptr && found->is_object() ? base::json_dump(*found) : std::string();
}

/// The beginning of `text`, cut between characters.
std::string first_bytes(std::string_view text, std::size_t limit_bytes) {
    std::string out;
    base::Utf8Repair whole_characters;
    whole_characters.feed(text.substr(0, limit_bytes), out);
    return out;
}

/// True if `name` is `sandboxId` in another spelling, such as `sandbox_id`.
bool resembles_sandbox_id(std::string_view name) {
    std::string letters;
    std::ranges::copy_if(name, std::back_inserter(letters), [](char c) { return c != '_' && c != '-'; });
    return iequals(letters, "sandboxId");
}

/// The sandbox counts also where it stands in the context alone.
void read_context_sandbox(ObjectReader& reader, const Json& context, ToolForm& form) {
    ObjectReader inner(context, "context.");
    const auto id =
        inner.is_null("sandboxId") ? std::nullopt : inner.string("sandboxId", k_max_sandbox_id_bytes);
    if (id && form.sandbox_id && *id != *form.sandbox_id)
        inner.fail("sandboxId", "the same as `sandboxId` where both are there");
    if (inner.failed())
        reader.fail(inner.finish().error());
    else if (id)
        form.sandbox_id = id;
    for (const auto& [name, value] : context.items()) {
        if (!form.sandbox_id && value.is_string() && resembles_sandbox_id(name))
            form.misnamed_sandbox = name;
    }
}

Result<ToolForm> read_form(const Json& body) {
    ToolForm form;
    ObjectReader reader(body);
    if (reader.is_null("sandboxId"))
        static_cast<void>(reader.any("sandboxId"));
    else
        form.sandbox_id = reader.string("sandboxId", k_max_sandbox_id_bytes);
    form.arguments = object_text(reader, "args");
    if (form.arguments.empty())
        reader.fail("args", "an object with the tool's arguments");
    if (!reader.is_null("context"))
        form.context = object_text(reader, "context");
    if (form.context.size() > base::k_max_tool_context_bytes)
        reader.fail("context",
                    "an object of at most " + std::to_string(base::k_max_tool_context_bytes) + " bytes");
    if (!form.context.empty())
        read_context_sandbox(reader, body["context"], form);
    if (const auto checked = reader.finish(); checked.has_error())
        return checked.error();
    if (form.context.empty())
        return form;
    const Json& context = body["context"];
    const auto call = context.find("toolCallId");
    if (call != context.end() && call->is_string())
        form.tool_call_id = first_bytes(call->get<std::string>(), k_max_tool_call_id_bytes);
    return form;
}

/// The result object of a call that has no sandbox to run in. `why`: it is there, but cannot be had now.
/// `kind`: the id is that of another thing, in words.
std::string unavailable_json(const ToolForm& form, const Error* why = nullptr, const std::string& kind = {}) {
    if (!kind.empty())
        return failure_json(
            {base::tool_error::sandbox_unavailable, "`sandboxId` names no sandbox: " + kind,
             "This operation requires a sandbox environment.", "Send the id of the sandbox as `sandboxId`."},
            form.context);
    const bool is_missing = !form.sandbox_id;
    const std::string unread = form.misnamed_sandbox.empty()
                                   ? std::string()
                                   : "`context." + form.misnamed_sandbox + "` is not read. ";
    const std::string error = why != nullptr ? "The sandbox is not available now: " + why->detail()
                              : is_missing   ? "Missing sandbox context - sandboxId required"
                                             : "Sandbox context missing - sandboxId is required";
    return failure_json(
        {is_missing ? base::tool_error::missing_sandbox : base::tool_error::sandbox_unavailable, error,
         is_missing || why != nullptr
             ? "This operation requires a sandbox environment. Please try again."
             : "This operation requires a sandbox environment. Please refresh and try again.",
         is_missing ? unread + "Send the id of the sandbox as `sandboxId`, beside `args` or in `context`."
                    : ""},
        form.context);
}

// It holds what a sandbox wrote: no browser may take it for a page of this origin.
Response kept_from_browsers(Response response) {
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", "attachment; filename=\"tool\"");
    return response;
}

/// True if the sandbox is there for this client, but could not be started, or not yet, or just ended.
bool is_unready(Errc code) {
    return code == Errc::sandbox_failed || code == Errc::conversation_starting || code == Errc::disk_full ||
           code == Errc::sandbox_gone;
}

/// The answer that the client wants, of a call whose result object is known at once.
Response known_result(const RequestContext& context, const std::string& tool, const ToolForm& form,
                      const std::string& result) {
    if (context.accepts() != MediaType::event_stream)
        return kept_from_browsers(json_response(result));
    Response response;
    response.content_type = k_event_stream_type;
    response.body = ToolStream::result_frame({tool, form.tool_call_id, form.names}, result);
    return kept_from_browsers(std::move(response));
}

/// The same of a call that has no sandbox. `why`: what it ended with before it began.
Task<Result<Response>> async_without_sandbox(Api& api, RequestContext& context, std::string tool,
                                             const ToolForm& form, Error why) {
    std::string kind;
    if (why.code() == Errc::not_found && form.sandbox_id) {
        auto told = co_await async_told_kind(api, context, *form.sandbox_id);
        kind = std::move(told);
    }
    const Error* const unready = is_unready(why.code()) ? &why : nullptr;
    co_return known_result(context, tool, form, unavailable_json(form, unready, kind));
}

/// True if the sandbox is not there for this client: unknown, another's, ended, or one that could not be
/// started. Errors of the server as a whole do not count.
bool is_unavailable(Errc code) {
    return ToolStream::means_lost_sandbox(code) || is_unready(code);
}

sandbox::CallSpec call_spec(const std::string& tool, const ToolForm& form,
                            const conversation::ToolSettings& settings) {
    sandbox::CallSpec spec;
    spec.command = k_tool_command;
    spec.members = "\"name\":\"" + tool + "\",\"args\":" + form.arguments;
    if (!form.context.empty())
        spec.members += ",\"context\":" + form.context;
    if (settings.read_before_edit)
        spec.members += ",\"readBeforeEdit\":true";
    return spec;
}

/// Reads the arguments of run_command. The result object if the call is refused by them or by the settings of
/// the sandbox. Errors: not_found, storage_failed.
Task<Result<std::optional<std::string>>> async_read_command(Api& api, RequestContext& context,
                                                            const Json& args, ToolForm& form) {
    auto look = [&](conversation::Reply<conversation::ToolSettings> reply) {
        api.conversations.tools(*form.sandbox_id, std::move(reply));
    };
    const auto settings = co_await context.async_reply<conversation::ToolSettings>(look);
    if (settings.has_error())
        co_return settings.error();
    form.command.emplace().context = form.context;
    co_return read_command(args, *settings, *form.command);
}

/// The place for the output of a command in the budget. Errors: not_found, storage_failed, user_share,
/// capacity.
Task<Result<base::Share>> async_command_share(Api& api, RequestContext& context, const ToolForm& form) {
    const auto holder = co_await async_holder(api, context, *form.sandbox_id);
    if (holder.has_error())
        co_return holder.error();
    co_return api.budgets.exec.take(*holder, RunCommand::k_kept_bytes);
}

/// The call begun, by the rules of the sandbox's conversation, whose log hears of it if it takes long. Null:
/// the tool was switched off while the sandbox started.
Task<Result<std::unique_ptr<GuestCall>>> async_begin(Api& api, RequestContext& context,
                                                     const std::string& tool, ToolForm& form) {
    base::Share share;
    if (form.command) {
        auto taken = co_await async_command_share(api, context, form);
        if (taken.has_error())
            co_return taken.error();
        share = std::move(*taken);
    }
    auto lease = co_await async_lease(api, context, *form.sandbox_id, conversation::LeaseUse::request);
    if (lease.has_error())
        co_return lease.error();
    const conversation::ToolSettings settings = api.conversations.tools(**lease);
    if (form.command && !settings.run_command)
        co_return std::unique_ptr<GuestCall>();
    const sandbox::CallSpec spec = call_spec(tool, form, settings);
    auto call = std::make_unique<GuestCall>(context, std::move(*lease));
    const GuestCall::Start run = [&](sandbox::Operations& operations, sandbox::CallObserver& observer) {
        return std::make_unique<RunCommand>(std::move(*form.command), std::move(share), operations, observer,
                                            api.conversations.clock(), api.conversations.timers());
    };
    const auto begun = form.command ? call->begin(api, run) : call->begin(api, spec);
    if (begun.has_error())
        co_return begun.error();
    form.progress =
        std::make_shared<ToolProgressLog>(api.conversations, *form.sandbox_id, tool, form.tool_call_id);
    call->on_each_progress(
        [progress = form.progress](std::string_view json) { progress->on_progress(json); });
    co_return call;
}

void log_call(const RequestContext& context, const std::string& tool, const ToolForm& form) {
    base::LogLine line(base::evt::tool_called);
    line.field("sbx", form.sandbox_id.value_or("")).quoted("req", context.request_id).field("tool", tool);
    if (!form.context.empty())
        line.quoted("context", form.context);
    line.info();
}

bool is_success(const Json& reply) {
    const auto found = reply.find("success");
    return found != reply.end() && found->is_boolean() && found->get<bool>();
}

/// Tells the conversation's log what the guest says that it changed. `reply` is the guest's word.
void tell_changes(Api& api, const ToolForm& form, std::string_view reply) {
    const auto parsed = parse_json(reply);
    if (parsed.has_error() || !parsed->is_object())
        return;
    if (form.progress)
        form.progress->on_end(is_success(*parsed) ? ToolProgressLog::k_completed : ToolProgressLog::k_failed);
    const auto files = parsed->find("changedFiles");
    if (files == parsed->end() || !files->is_array())
        return;
    conversation::FileChange change;
    change.tool_call_id = form.tool_call_id;
    for (const Json& file : *files)
        if (file.is_string())
            change.paths.push_back(file.get<std::string>());
    if (!change.paths.empty())
        api.conversations.files_changed(*form.sandbox_id, change);
}

/// True if the tool writes files. A write that has begun is finished, and logged, even if the client leaves.
bool changes_files(std::string_view tool) {
    return tool == "write_file" || tool == "replace";
}

Response stream_response(Api& api, std::unique_ptr<GuestCall> call, const std::string& tool,
                         const ToolForm& form) {
    ToolStream::Names names{tool, form.tool_call_id};
    ToolStream::Surroundings around{api.conversations.timers(), api.system.heartbeat_interval, {}};
    if (changes_files(tool))
        around.left = [&api, id = *form.sandbox_id](std::unique_ptr<GuestCall> unread) {
            api.detached_calls->keep(std::move(unread), api.conversations.user_of_living(id));
        };
    Response response;
    response.content_type = k_event_stream_type;
    names.events = form.names;
    // nginx buffers responses unless told otherwise.
    response.headers.emplace_back("X-Accel-Buffering", "no");
    ToolForm asked;
    asked.sandbox_id = form.sandbox_id;
    asked.context = form.context;
    auto unavailable = [asked = std::move(asked)](const Error& why) { return unavailable_json(asked, &why); };
    response.source = std::make_unique<ToolStream>(std::move(call), std::move(names), std::move(around),
                                                   std::move(unavailable));
    return kept_from_browsers(std::move(response));
}

Task<Result<Response>> async_call_tool(Api& api, RequestContext& context) {
    const base::ToolSpec* const tool = base::find_tool(context.param("name"));
    if (tool == nullptr)
        co_return Error(Errc::not_found, "There is no such tool: GET /v1/tools lists them.");
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    auto form = read_form(*body);
    if (form.has_error())
        co_return form.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    form->names = *names;
    const std::string name(tool->name);
    log_call(context, name, *form);
    if (!form->sandbox_id || !base::is_id(*form->sandbox_id))
        co_return known_result(context, name, *form, unavailable_json(*form));
    const auto reachable = co_await async_check_sandbox(api, context, *form->sandbox_id);
    if (reachable.has_error() && is_unavailable(reachable.error().code())) {
        const Error why = reachable.error();
        co_return co_await async_without_sandbox(api, context, name, *form, why);
    }
    if (reachable.has_error())
        co_return reachable.error();
    if (tool->effect == base::ToolSpec::Effect::runs) {
        const auto refused = co_await async_read_command(api, context, (*body)["args"], *form);
        if (refused.has_error() && is_unavailable(refused.error().code())) {
            const Error why = refused.error();
            co_return co_await async_without_sandbox(api, context, name, *form, why);
        }
        if (refused.has_error())
            co_return refused.error();
        if (*refused)
            co_return known_result(context, name, *form, **refused);
    }
    auto call = co_await async_begin(api, context, name, *form);
    if (call.has_error() && is_unavailable(call.error().code())) {
        const Error why = call.error();
        co_return co_await async_without_sandbox(api, context, name, *form, why);
    }
    if (call.has_error())
        co_return call.error();
    if (!*call)
        co_return known_result(context, name, *form, command_off_json(form->context));
    (*call)->on_replied([&api, asked = *form](std::string_view reply) { tell_changes(api, asked, reply); });
    if (context.accepts() == MediaType::event_stream)
        co_return stream_response(api, std::move(*call), name, *form);
    // A write that has begun is waited for even if the client leaves, so that the log gets its changes.
    auto waiting = changes_files(name) ? (*call)->async_reply() : (*call)->async_reply_for_client();
    const auto reply = co_await std::move(waiting);
    if (reply.has_error() && ToolStream::means_lost_sandbox(reply.error().code())) {
        const Error why = reply.error();
        co_return known_result(context, name, *form, unavailable_json(*form, &why));
    }
    if (reply.has_error())
        co_return reply.error();
    Response response;
    response.source = std::move(*call);
    co_return kept_from_browsers(std::move(response));
}

Task<Result<Response>> async_list_tools(Api& api, RequestContext& context) {
    const std::string* const asked = context.query_value("format");
    const auto format = asked == nullptr ? ToolFormat::json_schema : tool_format(*asked);
    if (!format)
        co_return Error(Errc::invalid_field, "format must be json-schema, openai, anthropic or gemini.");
    const std::string* const id = context.query_value("sandboxId");
    if (id == nullptr)
        co_return json_response(tool_list(*format).dump());
    if (!base::is_id(*id))
        co_return Error(Errc::not_found, "There is no such sandbox.");
    const auto reachable = co_await async_check_sandbox(api, context, *id);
    if (reachable.has_error())
        co_return reachable.error();
    auto look = [&](conversation::Reply<conversation::ToolSettings> reply) {
        api.conversations.tools(*id, std::move(reply));
    };
    const auto settings = co_await context.async_reply<conversation::ToolSettings>(look);
    if (settings.has_error())
        co_return settings.error();
    co_return json_response(tool_list(*format, *settings).dump());
}

}  // namespace

std::vector<Route> tool_routes(Api& api) {
    api.detached_calls =
        std::make_shared<DetachedCalls>(api.conversations.timers(), api.budgets.exec.user_percent());
    std::vector<Route> routes;
    Route list{Method::get, "/v1/tools", "listTools",
               "The tools for models, with the schemas of their arguments.",
               bind_handler(api, async_list_tools)};
    list.query = {
        {"format", R"({"enum":["json-schema","openai","anthropic","gemini"],"default":"json-schema"})",
         "The form in which a model's API wants its tools."},
        {"sandboxId", R"({"type":"string"})", "Only those that are not switched off in this sandbox."}};
    list.responses = {{200, "The tools.", "ToolList"}};
    list.errors = {Errc::invalid_field, Errc::not_found, Errc::storage_failed};
    list.user_keys = UserKeys::allowed;
    routes.push_back(std::move(list));

    Route call{Method::post, "/v1/tools/{name}", "callTool",
               "Runs a tool in a sandbox; with Accept: text/event-stream its progress streams.",
               bind_handler(api, async_call_tool)};
    call.body = BodyKind::json;
    call.request_schema = "CallTool";
    call.responses = {{200, "The result, whether the tool succeeded or not.", "ToolResult"},
                      {200, "Progress, then the result.", "ToolStream", k_event_stream_type}};
    call.query = {k_named_parameter};
    call.errors = {Errc::not_found, Errc::invalid_field,  Errc::unknown_field, Errc::user_share,
                   Errc::capacity,  Errc::storage_failed, Errc::shutting_down};
    call.user_keys = UserKeys::allowed;
    routes.push_back(std::move(call));
    return routes;
}

}  // namespace atl::http
