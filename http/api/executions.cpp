// The routes of code mode: run a program, follow, answer, cancel and read its execution; which executors
// there are.
#include "core/execution/executions.hpp"

#include <algorithm>

#include "core/base/json_writer.hpp"
#include "core/execution/declarations.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "http/api/execution_form.hpp"
#include "http/api/execution_socket.hpp"
#include "http/api/execution_stream.hpp"
#include "http/api/forms.hpp"
#include "http/api/ownership.hpp"
#include "http/api/sandbox_tools.hpp"
#include "http/api/tool_checks.hpp"
#include "http/websocket/handshake.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using execution::Execution;
using ExecutionPtr = std::shared_ptr<Execution>;

// It holds what a program wrote: no browser may take it for a page of this origin.
Response execution_response(std::string body, unsigned status = 200) {
    Response response = json_response(std::move(body), status);
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", "attachment; filename=\"execution\"");
    return response;
}

struct Wanted {
    execution::ExecutionRequest request;
    std::vector<execution::ToolSpec> specs;  // of its tools
};

/// The execution that `form` asks for, with an engine and tools that exist. Errors: those of the form and of
/// Engines::choose().
Result<Wanted> wanted_of(Api& api, RequestContext& context, ExecuteForm form, const std::string& sandbox_id) {
    Wanted wanted;
    execution::ExecutionRequest& request = wanted.request;
    request = std::move(form.request);
    if (const auto claimed = claim_user(context.principal, request.user_id); claimed.has_error())
        return claimed.error();
    request.holder =
        request.user_id ? base::ShareHolder::user(*request.user_id) : holder_of(context.principal);
    const auto engine = api.executions->choose(form.executor, form.language);
    if (engine.has_error())
        return engine.error();
    request.engine = *engine;
    request.language = *form.language;
    std::vector<execution::ToolSpec>& specs = wanted.specs;
    specs = SandboxToolHost::specs(form.sandbox_tools, std::move(form.tools));
    if (!form.sandbox_tools.empty())
        request.host = std::make_shared<SandboxToolHost>(api.conversations, api.budgets.exec, request.holder,
                                                         sandbox_id, std::move(form.sandbox_tools));
    const bool waits_for_caller = std::any_of(specs.begin(), specs.end(), [&](const auto& spec) {
        return spec.policy == execution::Policy::ask || !request.host || !request.host->has(spec.name);
    });
    if (waits_for_caller && context.accepts() != MediaType::event_stream &&
        request.on_disconnect == execution::ExecutionRequest::OnDisconnect::cancel)
        return Error(Errc::invalid_field,
                     "With `tools` somebody has to answer: ask with Accept: text/event-stream, or set "
                     "`detached`.")
            .at("/detached");
    if (specs.empty())
        return wanted;
    auto tools = execution::ToolSet::make(specs);
    if (tools.has_error())
        return bad_tools(tools.error());
    request.tools.emplace(std::move(*tools));
    for (const execution::ToolSpec& spec : specs)
        request.tool_names.push_back(spec.name);
    return wanted;
}

Response execution_stream_of(const ExecutionPtr& execution, std::uint64_t after, EventNames names,
                             StreamLease lease, std::unique_ptr<CancelOnDisconnect> canceler) {
    Response response;
    response.content_type = k_event_stream_type;
    // nginx buffers responses unless told otherwise.
    response.headers.emplace_back("X-Accel-Buffering", "no");
    forbid_scripts(response);
    if (execution->user_id())
        response.payer = base::ShareHolder::user(*execution->user_id());
    response.stream =
        std::make_unique<ExecutionStream>(execution, after, names, std::move(lease), std::move(canceler));
    return response;
}

Response begun_response(const Execution& execution) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("executionId").string(execution.id());
    if (!execution.warnings().empty())
        json.key("warnings").raw(execution.warnings());
    json.end_object();
    Response response = json_response(std::move(out), 202);
    response.headers.emplace_back("Location", "/v1/executions/" + execution.id());
    return response;
}

enum class Until : std::uint8_t { begun, ended };

/// Waits for it; the client may leave meanwhile. Errors: why it was refused.
Task<Result<void>> async_wait_for(RequestContext& context, const ExecutionPtr& execution, Until until) {
    Execution::Follower follower(execution);
    follower.on_wake(context.waker());
    const std::function<bool()> is_there = [&execution, until] {
        return execution->has_ended() || (until == Until::begun && execution->has_begun());
    };
    const auto waited = co_await context.async_until(is_there);
    if (waited.has_error())
        co_return waited.error();
    if (execution->refusal())
        co_return *execution->refusal();
    co_return Result<void>();
}

/// Gives `read` the body, or its parts where its tools have more values than the loop parses: in the line
/// of the sender, since the user in the body is not read yet. Neither body nor JSON outlives this.
template <class Form, class Read>
Task<Result<Form>> async_take_form(Api& api, RequestContext& context, Read& read) {
    const auto body = context.json_body();
    if (body.has_error() && (body.error().code() != Errc::body_too_large || api.checks == nullptr))
        co_return body.error();
    if (!body.has_error()) {
        Result<Form> form = read(*body);
        context.drop_body();
        co_return form;
    }
    const std::string user = holder_of(context.principal).name();
    auto parts = co_await async_split_body(api, context, user, execution::k_tools_member);
    if (parts.has_error())
        co_return parts.error();
    co_return read(std::move(*parts));
}

Task<Result<Response>> async_run(Api& api, RequestContext& context, const std::string& sandbox_id) {
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    const auto offered = sandbox_id.empty() ? SandboxTools::none : SandboxTools::offered;
    auto read = [&](auto&& body) {
        return read_execute_form(std::forward<decltype(body)>(body), api.executions->settings().max_memory_mb,
                                 offered, ceilings_for(context.principal, api.system.ceilings));
    };
    auto form = co_await async_take_form<ExecuteForm>(api, context, read);
    if (form.has_error())
        co_return form.error();
    auto wanted = wanted_of(api, context, std::move(*form), sandbox_id);
    if (wanted.has_error())
        co_return wanted.error();
    execution::ExecutionRequest& request = wanted->request;
    if (request.tools && !request.tools->is_compiled()) {
        const std::string user = request.holder.name();
        const auto verified = co_await async_verify(api, context, user, wanted->specs);
        if (verified.has_error())
            co_return verified.error();
        request.tools->set_warnings(*verified);
    }
    const bool is_stream = context.accepts() == MediaType::event_stream;
    StreamLease place;
    if (is_stream) {
        auto leased = context.stream_lease("execute");
        if (leased.has_error())
            co_return leased.error();
        place = std::move(*leased);
    }
    const auto begun = api.executions->begin(std::move(request));
    if (begun.has_error())
        co_return begun.error();
    const ExecutionPtr execution = *begun;
    if (execution->refusal())
        co_return *execution->refusal();
    if (execution->is_detached() && !is_stream) {
        execution->keep_result();
        co_return begun_response(*execution);
    }
    auto canceler = std::make_unique<CancelOnDisconnect>(execution);
    const Until until = is_stream ? Until::begun : Until::ended;
    const auto waited = co_await async_wait_for(context, execution, until);
    if (waited.has_error())
        co_return waited.error();
    if (is_stream)
        co_return execution_stream_of(execution, 0, *names, std::move(place), std::move(canceler));
    std::string out;
    execution->write_result(out);
    co_return execution_response(std::move(out));
}

Task<Result<Response>> async_execute(Api& api, RequestContext& context) {
    const std::string nowhere;
    co_return co_await async_run(api, context, nowhere);
}

Task<Result<Response>> async_execute_in_sandbox(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto look = [&](conversation::Reply<conversation::SandboxView> reply) {
        api.conversations.get_sandbox(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::SandboxView>(look);
    if (view.has_error())
        co_return view.error();
    co_return co_await async_run(api, context, *id);
}

/// The execution of the path, which the guard has admitted.
Result<ExecutionPtr> execution_of(Api& api, const RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        return id.error();
    ExecutionPtr found = api.executions->find(*id);
    if (found == nullptr)
        return Error(Errc::not_found);
    return found;
}

Result<Response> execution_told(Execution& execution) {
    std::string out;
    execution.write(out, Execution::Detail::whole);
    execution.note_read();
    return execution_response(std::move(out));
}

Task<Result<Response>> async_get_execution(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    co_return execution_told(**execution);
}

Task<Result<Response>> async_cancel_execution(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    (*execution)->cancel("the caller cancelled it");
    co_return execution_told(**execution);
}

Task<Result<Response>> async_list_executions(Api& api, RequestContext& context) {
    const auto limit = context.query_integer("limit", k_page_range);
    if (limit.has_error())
        co_return limit.error();
    const auto cursor = context.query_integer("cursor", k_seq_range);
    if (cursor.has_error())
        co_return cursor.error();
    std::optional<std::string> user_id;
    if (const std::string* const asked = context.query_value("userId"))
        user_id = *asked;
    if (const auto claimed = claim_user(context.principal, user_id); claimed.has_error())
        co_return claimed.error();
    const std::size_t most = limit->value_or(base::k_default_page_items);
    auto found = api.executions->list(user_id, most + 1, cursor->value_or(UINT64_MAX));
    const bool has_more = found.size() > most;
    if (has_more)
        found.pop_back();
    std::string out = "{\"executions\":[";
    for (const ExecutionPtr& execution : found) {
        if (out.back() != '[')
            out += ',';
        execution->write(out, Execution::Detail::brief);
    }
    out += "],\"next\":";
    out += has_more ? "\"" + std::to_string(found.back()->key()) + "\"" : std::string("null");
    co_return execution_response(out + "}");
}

Result<std::uint64_t> after_of(const RequestContext& context) {
    const auto after = context.query_integer("after", k_seq_range);
    if (after.has_error())
        return after.error();
    return resume_point(context.request, after->value_or(0));
}

Task<Result<Response>> async_get_execution_events(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    const auto after = after_of(context);
    if (after.has_error())
        co_return after.error();
    if (context.accepts() == MediaType::event_stream) {
        auto lease = context.stream_lease((*execution)->id());
        if (lease.has_error())
            co_return lease.error();
        co_return execution_stream_of(*execution, *after, *names, std::move(*lease), nullptr);
    }
    std::string out = "{\"events\":[";
    std::uint64_t next = *after;
    for (const execution::ExecutionEvent& event : (*execution)->events(*after)) {
        if (out.size() > base::k_list_page_bytes)
            break;
        if (out.back() != '[')
            out += ',';
        event.write(out);
        next = event.seq;
    }
    if (next == (*execution)->last_seq())
        (*execution)->note_read();
    out.append("],\"next\":").append(std::to_string(next)).append("}");
    co_return execution_response(std::move(out));
}

/// The answer in the body. Where it takes long to read, the call is looked for before that.
Task<Result<execution::CallAnswer>> async_read_answer(Api& api, RequestContext& context,
                                                      const ExecutionPtr& execution) {
    if (api.checks == nullptr || !is_long_answer(context.request.body)) {
        const auto body = context.json_body(k_short_answer_json);
        if (body.has_error())
            co_return body.error();
        co_return read_call_answer(*body);
    }
    if (const auto awaited = execution->awaits_answer(context.param("callId")); awaited.has_error())
        co_return awaited.error();
    const std::string user = execution->holder().name();
    auto parts = co_await async_split_body(api, context, user, k_answer_value);
    if (parts.has_error())
        co_return parts.error();
    co_return read_call_answer(std::move(*parts));
}

Task<Result<Response>> async_answer_call(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    const auto answer = co_await async_read_answer(api, context, *execution);
    if (answer.has_error())
        co_return answer.error();
    if (const auto done = (*execution)->answer(context.param("callId"), *answer); done.has_error())
        co_return done.error();
    Response response;
    response.status = 204;
    co_return response;
}

Task<Result<Response>> async_open_execution(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    if (const auto valid = check_handshake(context.request); valid.has_error())
        co_return valid.error();
    const auto after = context.query_integer("after", k_seq_range);
    if (after.has_error())
        co_return after.error();
    auto lease = context.stream_lease((*execution)->id());
    if (lease.has_error())
        co_return lease.error();
    auto session =
        std::make_unique<ExecutionSocket>(*execution, api.checks, after->value_or(0), std::move(*lease),
                                          frame_limit(context), context.principal.expires_at);
    Response response = accept_handshake(context.request, std::move(session));
    if ((*execution)->user_id())
        response.payer = base::ShareHolder::user(*(*execution)->user_id());
    co_return response;
}

Task<Result<Response>> async_create_execution_token(Api& api, RequestContext& context) {
    const auto execution = execution_of(api, context);
    if (execution.has_error())
        co_return execution.error();
    const auto body = context.json_body_or_empty();
    if (body.has_error())
        co_return body.error();
    const auto form = read_token_form(*body, TokenOf::execution);
    if (form.has_error())
        co_return form.error();
    const auto issued = api.tokens->issue((*execution)->id(), form->scope, form->ttl);
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("token").string(issued.token);
    json.key("expiresAt").string(base::rfc3339(issued.expires_at));
    json.end_object();
    co_return json_response(std::move(out), 201);
}

Task<Result<Response>> async_list_executors(Api& api, RequestContext&) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("executors").begin_array();
    for (const execution::Engine& engine : api.executions->engines_now().all()) {
        json.begin_object();
        json.key("name").string(engine.name);
        json.key("available").raw(engine.is_available() ? "true" : "false");
        if (!engine.is_available())
            json.key("reason").string(engine.reason);
        json.key("version");
        if (engine.version.empty())
            json.null();
        else
            json.string(engine.version);
        json.key("languages").begin_array();
        for (const execution::Language language : engine.languages)
            json.string(to_string(language));
        json.end_array();
        json.key("isolates").string(engine.isolates);
        json.key("weaknesses").begin_array();
        for (const std::string& weakness : engine.weaknesses)
            json.string(weakness);
        json.end_array().end_object();
    }
    json.end_array().end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_make_prompt(Api& api, RequestContext& context) {
    auto read = [](auto&& body) { return read_prompt_form(std::forward<decltype(body)>(body)); };
    const auto tools = co_await async_take_form<std::vector<execution::ToolSpec>>(api, context, read);
    if (tools.has_error())
        co_return tools.error();
    auto set = execution::ToolSet::make(*tools);
    if (set.has_error())
        co_return bad_tools(set.error());
    std::string declarations;
    if (set->is_compiled()) {
        declarations = execution::typescript_declarations(*tools);
    } else {
        const std::string user = holder_of(context.principal).name();
        auto declared = co_await async_declare(api, context, user, *tools, *set);
        if (declared.has_error())
            co_return declared.error();
        declarations = std::move(*declared);
    }
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("declarations").string(declarations);
    if (!set->warnings().empty())
        json.key("warnings").raw(set->warnings());
    json.end_object();
    co_return json_response(std::move(out));
}

Route execute_route(std::string_view pattern, std::string_view name, std::string_view summary,
                    std::string_view schema, Handler handler) {
    Route made{Method::post, pattern, name, summary, std::move(handler)};
    made.body = BodyKind::json;
    made.request_schema = schema;
    made.query = {k_named_parameter};
    made.responses = {{200, "What became of the program, once it began.", "ExecutionResult"},
                      {200, "Its events, to `done`.", "ExecutionStream", k_event_stream_type},
                      {202, "It is detached: it runs, or waits in the line.", "ExecutionBegun"}};
    made.errors = {
        Errc::executor_unavailable, Errc::too_many_executions, Errc::too_many_streams, Errc::user_share,
        Errc::user_not_allowed,     Errc::limit_not_allowed,   Errc::capacity,         Errc::sandbox_failed,
        Errc::storage_failed,       Errc::shutting_down,       Errc::request_timeout,  Errc::host_unsupported,
        Errc::bridge_failed,        Errc::deadline_exceeded};
    return made;
}

void add_execute_routes(Api& api, std::vector<Route>& routes) {
    Route run =
        execute_route("/v1/execute", "executeProgram",
                      "Runs a program that a model wrote, in a sandbox made for it alone; with Accept: "
                      "text/event-stream its "
                      "events come while it runs. A client that leaves ends it, unless it is detached.",
                      "Execute", bind_handler(api, async_execute));
    run.user_keys = UserKeys::allowed;
    routes.push_back(std::move(run));
    Route within = execute_route(
        "/v1/sandboxes/{id}/execute", "executeWithSandbox",
        "The same, and the program may call the tools of this sandbox, which answers them itself. "
        "The program does not run in it.",
        "ExecuteWithSandbox", bind_handler(api, async_execute_in_sandbox));
    within.errors.push_back(Errc::not_found);
    routes.push_back(std::move(within));
}

void add_follow_routes(Api& api, std::vector<Route>& routes) {
    Route events{
        Method::get, "/v1/executions/{id}/events", "getExecutionEvents",
        "The events of an execution; with Accept: text/event-stream live, to its `done`. They can be "
        "read until 10 minutes after the end.",
        bind_handler(api, async_get_execution_events)};
    events.query = {
        {"after", R"({"type":"integer","minimum":0,"default":0})", "Only events with a greater seq."},
        k_named_parameter,
        k_token_parameter};
    events.headers = {{"Last-Event-ID", "As `after`, which it overrides: browsers send it."}};
    events.auth = Auth::token_or_key;
    events.responses = {{200, "A page.", "ExecutionEventPage"},
                        {200, "Events, to `done`.", "ExecutionStream", k_event_stream_type}};
    events.errors = {Errc::not_found, Errc::invalid_field, Errc::too_many_streams};
    routes.push_back(std::move(events));

    Route socket{Method::get, "/v1/executions/{id}/ws", "openExecution",
                 "A WebSocket: each text frame of the server is one ExecutionEvent from `after` on, live, or "
                 "Accepted or Rejected; the client's are ExecutionClientFrame. It is closed behind `done`. A "
                 "close frame's reason is `{code, after, detail?}`.",
                 bind_handler(api, async_open_execution)};
    socket.query = {
        {"after", R"({"type":"integer","minimum":0,"default":0})", "Only events with a greater seq."},
        k_token_parameter};
    socket.auth = Auth::token_or_key;
    socket.token_scope = Scope::chat;
    socket.opens = Opens::websocket;
    socket.headers = {{"Upgrade", "`websocket`."},
                      {"Sec-WebSocket-Key", "16 random bytes as base64 (RFC 6455)."},
                      {"Sec-WebSocket-Version", "`13`."}};
    socket.responses = {{101, "The WebSocket.", "ExecutionFrames"}};
    socket.errors = {Errc::not_found, Errc::invalid_field, Errc::upgrade_required, Errc::too_many_streams};
    routes.push_back(std::move(socket));

    Route answer{Method::post, "/v1/executions/{id}/calls/{callId}", "answerCall",
                 "Answers a call of a tool, or decides whether it may go on.",
                 bind_handler(api, async_answer_call)};
    answer.body = BodyKind::json;
    answer.request_schema = "CallAnswer";
    answer.responses = {{204, "It is done.", ""}};
    answer.errors = {Errc::not_found,           Errc::execution_ended, Errc::call_answered,
                     Errc::too_many_executions, Errc::user_share,      Errc::deadline_exceeded};
    routes.push_back(std::move(answer));

    if (api.tokens == nullptr)
        return;
    Route token{
        Method::post, "/v1/executions/{id}/tokens", "createExecutionToken",
        "Makes a token for `?token=`, with which a browser follows this execution, or answers its calls "
        "on a WebSocket.",
        bind_handler(api, async_create_execution_token)};
    token.body = BodyKind::optional_json;
    token.request_schema = "CreateExecutionToken";
    token.responses = {{201, "The token.", "StreamToken"}};
    token.errors = {Errc::not_found};
    routes.push_back(std::move(token));
}

void add_report_routes(Api& api, std::vector<Route>& routes) {
    Route list{Method::get, "/v1/executions", "listExecutions",
               "Lists executions that run, wait, or ended within the last 10 minutes; the latest first.",
               bind_handler(api, async_list_executions)};
    list.query = {
        {"userId", R"({"type":"string"})", "Only those of this user."},
        {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})", "Items in a page."},
        {"cursor", R"({"type":"string"})", "`next` of the page before."}};
    list.responses = {{200, "A page.", "ExecutionPage"}};
    list.errors = {Errc::invalid_field, Errc::user_not_allowed};
    list.user_keys = UserKeys::allowed;
    routes.push_back(std::move(list));

    Route get{Method::get, "/v1/executions/{id}", "getExecution",
              "One execution, with its result once it has ended.", bind_handler(api, async_get_execution)};
    get.responses = {{200, "The execution.", "Execution"}};
    get.errors = {Errc::not_found};
    routes.push_back(std::move(get));

    Route cancel{Method::delete_, "/v1/executions/{id}", "cancelExecution",
                 "Ends an execution; one that has ended stays as it is.",
                 bind_handler(api, async_cancel_execution)};
    cancel.responses = {{200, "The execution, ended.", "Execution"}};
    cancel.errors = {Errc::not_found};
    routes.push_back(std::move(cancel));

    Route executors{Method::get, "/v1/executors", "listExecutors",
                    "The engines that run programs, whether each can here, and what it isolates.",
                    bind_handler(api, async_list_executors)};
    executors.responses = {{200, "The executors.", "ExecutorList"}};
    executors.user_keys = UserKeys::allowed;
    routes.push_back(std::move(executors));

    Route prompt{Method::post, "/v1/executors/prompt", "makeToolPrompt",
                 "Tools as TypeScript declarations, to put into the prompt of a model.",
                 bind_handler(api, async_make_prompt)};
    prompt.body = BodyKind::json;
    prompt.request_schema = "ToolPrompt";
    prompt.responses = {{200, "The declarations.", "ToolDeclarations"}};
    prompt.errors = {Errc::too_many_executions, Errc::user_share, Errc::deadline_exceeded};
    prompt.user_keys = UserKeys::allowed;
    routes.push_back(std::move(prompt));
}

}  // namespace

std::vector<Route> execution_routes(Api& api) {
    std::vector<Route> routes;
    if (api.executions == nullptr)
        return routes;
    add_execute_routes(api, routes);
    add_follow_routes(api, routes);
    add_report_routes(api, routes);
    return routes;
}

}  // namespace atl::http
