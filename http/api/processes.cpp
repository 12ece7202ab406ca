// Routes of processes that outlive the request that started them. Not here: those that follow one
// (process_follow.cpp).
#include <algorithm>
#include <array>

#include "core/base/ids.hpp"
#include "http/api/api.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/api/process_feeder.hpp"
#include "http/api/process_form.hpp"
#include "http/api/process_lookup.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using conversation::LeaseUse;
using sandbox::ProcessInfo;
using ProcessList = std::vector<ProcessInfo>;
using KeptList = std::vector<sandbox::ProcessSpec>;

/// The process `only`, or all where it is empty. Of a sandbox that does not run none.
Task<Result<ProcessList>> async_find(Api& api, RequestContext& context, const std::string& id,
                                     const std::string& only) {
    auto ask = [&only](sandbox::Operations& operations, conversation::Reply<ProcessList> reply) {
        return operations.list_processes(only, std::move(reply));
    };
    auto found = co_await async_look<ProcessList>(api, context, id, ask);
    if (found.has_error())
        co_return found.error();
    co_return std::move(*found).value_or(ProcessList());
}

/// The processes of a sandbox that are started again in each generation, there or not.
Task<Result<KeptList>> async_kept(Api& api, RequestContext& context, const std::string& id) {
    auto look = [&](conversation::Reply<KeptList> reply) {
        api.conversations.kept_processes(id, std::move(reply));
    };
    co_return co_await context.async_reply<KeptList>(look);
}

template <class Process>
bool holds(const std::vector<Process>& processes, const std::string& id) {
    return std::ranges::any_of(processes, [&id](const Process& process) { return process.id == id; });
}

/// Writes the processes that are there, then those that are only kept.
void write_all(base::JsonWriter& json, const ProcessList& found, const KeptList& kept) {
    for (const ProcessInfo& process : found)
        write_process(json, process, holds(kept, process.id) ? Restart::generation : Restart::never);
    for (const sandbox::ProcessSpec& spec : kept)
        if (!holds(found, spec.id))
            write_stopped(json, spec);
}

Task<Result<Response>> async_show(Api& api, RequestContext& context, const std::string& id,
                                  const std::string& process_id, unsigned status) {
    const auto found = co_await async_find(api, context, id, process_id);
    if (found.has_error())
        co_return found.error();
    auto kept = co_await async_kept(api, context, id);
    if (kept.has_error())
        co_return kept.error();
    std::erase_if(*kept, [&](const sandbox::ProcessSpec& spec) { return spec.id != process_id; });
    const bool is_there = found->size() == 1 && found->front().id == process_id;
    if (!is_there && (kept->empty() || !found->empty()))
        co_return no_process();
    std::string out;
    base::JsonWriter json(out);
    write_all(json, *found, *kept);
    co_return json_response(std::move(out), status);
}

Task<Result<Response>> async_start(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    auto form = read_process_form(*body);
    if (form.has_error())
        co_return form.error();
    sandbox::ProcessSpec& spec = form->spec;
    spec.id = base::new_id();
    // Held until the answer: the process is listed under it.
    const auto lease = co_await async_lease(api, context, *id, LeaseUse::process);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto start = [&](conversation::Reply<pid_t> reply) {
        if (form->restart == Restart::generation) {
            api.conversations.start_kept_process(**lease, spec, std::move(reply));
            return std::unique_ptr<sandbox::Question>();
        }
        return (*operations)->start_process(spec, std::move(reply));
    };
    const auto pid = co_await async_ask<pid_t>(api, context, **lease, start);
    if (pid.has_error())
        co_return co_await async_refuse_program(api, context, *id, pid.error());
    auto response = co_await async_show(api, context, *id, spec.id, 201);
    if (response.has_value())
        response->headers.emplace_back("Location", "/v1/sandboxes/" + *id + "/processes/" + spec.id);
    co_return response;
}

Task<Result<Response>> async_list_processes(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const std::string all;
    auto found = co_await async_find(api, context, *id, all);
    if (found.has_error())
        co_return found.error();
    auto kept = co_await async_kept(api, context, *id);
    if (kept.has_error())
        co_return kept.error();
    if (const std::string* const tag = context.query_value("tag")) {
        std::erase_if(*found, [tag](const ProcessInfo& process) { return process.tag != *tag; });
        std::erase_if(*kept, [tag](const sandbox::ProcessSpec& spec) { return spec.tag != *tag; });
    }
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("processes").begin_array();
    write_all(json, *found, *kept);
    json.end_array().end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_get_process(Api& api, RequestContext& context) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    co_return co_await async_show(api, context, path->sandbox, path->process, 200);
}

Task<Result<void>> async_control(Api& api, RequestContext& context, const sandbox::ProcessControl& control) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    const auto lease = co_await async_process_lease(api, context, path->sandbox, LeaseUse::no_new_files);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto start = [&](conversation::Reply<void> reply) {
        return (*operations)->control_process(path->process, control, std::move(reply));
    };
    const auto done = co_await async_ask<void>(api, context, **lease, start);
    if (done.has_error())
        co_return process_error(done.error());
    co_return done;
}

Task<Result<Response>> async_answer_control(Api& api, RequestContext& context,
                                            const sandbox::ProcessControl& control) {
    const auto done = co_await async_control(api, context, control);
    if (done.has_error())
        co_return done.error();
    Response response;
    response.status = 204;
    co_return response;
}

/// Ends the restarts of the process in the path. True if it was one that is started again.
Task<Result<bool>> async_forget(Api& api, RequestContext& context) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    auto forget = [&](conversation::Reply<bool> reply) {
        api.conversations.forget_process(path->sandbox, path->process, std::move(reply));
    };
    co_return co_await context.async_reply<bool>(forget);
}

Task<Result<Response>> async_signal(Api& api, RequestContext& context) {
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto number = read_signal_form(*body);
    if (number.has_error())
        co_return number.error();
    sandbox::ProcessControl control;
    control.signal = *number;
    if (!ends_for_good(*number))
        co_return co_await async_answer_control(api, context, control);
    const auto was_kept = co_await async_forget(api, context);
    if (was_kept.has_error())
        co_return was_kept.error();
    auto response = co_await async_answer_control(api, context, control);
    // Such a signal to a kept process succeeds even if it or its generation is over: it does not come back.
    const bool is_over = response.has_error() && (response.error().code() == Errc::not_found ||
                                                  response.error().code() == Errc::process_ended);
    if (!*was_kept || !is_over)
        co_return response;
    Response done;
    done.status = 204;
    co_return done;
}

Task<Result<Response>> async_resize(Api& api, RequestContext& context) {
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto size = read_resize_form(*body);
    if (size.has_error())
        co_return size.error();
    sandbox::ProcessControl control;
    control.size = *size;
    co_return co_await async_answer_control(api, context, control);
}

/// Reads from `eof` if stdin ends behind the bytes of the request. Errors: invalid_field.
Result<sandbox::ProcessControl::Input> wanted_end(const RequestContext& context) {
    using Input = sandbox::ProcessControl::Input;
    const std::string* end = context.query_value("eof");
    if (end != nullptr && *end != "0" && *end != "1")
        return Error(Errc::invalid_field, "The query parameter `eof` must be `0` or `1`.");
    return end != nullptr && *end == "1" ? Input::end : Input::keep;
}

/// Passes the whole body on. Gives the number of its bytes.
Task<Result<std::uint64_t>> async_feed(RequestContext& context, ProcessFeeder& feeder) {
    auto begin = [&](conversation::Reply<void> reply) { feeder.wait(std::move(reply)); };
    const auto begun = co_await context.async_reply<void>(begin);
    if (begun.has_error())
        co_return begun.error();
    context.body->give_up_if([&feeder] { return feeder.cut_off().has_value(); });
    feeder.on_end(context.waker());
    std::uint64_t passed = 0;
    for (std::array<char, 16 * 1024> room;;) {
        const auto size = co_await context.body->async_read_some(room);
        if (const auto cut_off = feeder.cut_off())
            co_return *cut_off;
        if (size.has_error())
            co_return size.error();
        if (*size == 0)
            co_return passed;
        const std::string_view piece(room.data(), *size);
        auto feed = [&](conversation::Reply<void> reply) { feeder.feed(piece, std::move(reply)); };
        const auto fed = co_await context.async_reply<void>(feed);
        if (fed.has_error())
            co_return fed.error();
        passed += *size;
    }
}

Task<Result<Response>> async_write(Api& api, RequestContext& context) {
    const auto path = process_path(context);
    if (path.has_error())
        co_return path.error();
    const auto end = wanted_end(context);
    if (end.has_error())
        co_return end.error();
    auto lease = co_await async_process_lease(api, context, path->sandbox, LeaseUse::no_new_files);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    ProcessFeeder feeder(std::move(*lease), **operations, path->process, api.conversations.timers());
    const auto passed = co_await async_feed(context, feeder);
    if (passed.has_error())
        co_return process_error(passed.error());
    sandbox::ProcessControl control;
    control.input = *end;
    if (*end == sandbox::ProcessControl::Input::end)
        if (const auto done = co_await async_control(api, context, control); done.has_error())
            co_return done.error();
    co_return json_response("{\"bytes\":" + std::to_string(*passed) + "}");
}

Route start_route(Api& api) {
    Route made{Method::post, "/v1/sandboxes/{id}/processes", "startProcess",
               "Starts a program that outlives the request, with pipes or with a terminal.",
               bind_handler(api, async_start)};
    made.body = BodyKind::json;
    made.request_schema = "StartProcess";
    made.responses = {{201, "The process, running.", "Process"}};
    made.errors = lease_errors({Errc::invalid_field, Errc::invalid_env, Errc::invalid_cwd,
                                Errc::too_many_processes, Errc::too_many_kept_processes});
    return made;
}

Route input_route(Api& api) {
    Route made{
        Method::post, "/v1/sandboxes/{id}/processes/{processId}/stdin", "writeToProcess",
        "Passes the bytes of the body on to a process's stdin, or types them into its terminal. Answers "
        "when the process's pipe or terminal has taken them.",
        bind_handler(api, async_write)};
    made.body = BodyKind::stream;
    made.query = {{"eof", R"({"enum":["0","1"],"default":"0"})",
                   "`1`: stdin ends behind the bytes. Has no effect on a terminal: type Ctrl-D (byte 4)."}};
    made.responses = {{200, "All were taken.", "ProcessInput"}};
    made.errors = lease_errors({Errc::invalid_field, Errc::process_ended, Errc::request_timeout});
    return made;
}

Route control_route(Api& api, std::string_view pattern, std::string_view name, std::string_view summary,
                    std::string_view schema, ApiHandler handler) {
    Route made{Method::post, pattern, name, summary, bind_handler(api, handler)};
    made.body = BodyKind::json;
    made.request_schema = schema;
    made.responses = {{204, "It is done.", ""}};
    made.errors = lease_errors({Errc::invalid_field, Errc::process_ended});
    return made;
}

}  // namespace

std::vector<Route> process_routes(Api& api) {
    std::vector<Route> routes;
    routes.push_back(start_route(api));

    Route list{
        Method::get, "/v1/sandboxes/{id}/processes", "listProcesses",
        "The processes of a sandbox that were started so, in the order of their starts; those that have "
        "ended are listed for ten minutes. Of a sandbox that does not run only those that are started again "
        "with it, as `stopped`.",
        bind_handler(api, async_list_processes)};
    list.query = {{"tag", R"({"type":"string"})", "Only those with this tag."}};
    list.responses = {{200, "The processes.", "ProcessList"}};
    list.errors = lease_errors();
    routes.push_back(std::move(list));

    Route get{Method::get, "/v1/sandboxes/{id}/processes/{processId}", "getProcess", "One process.",
              bind_handler(api, async_get_process)};
    get.responses = {{200, "The process.", "Process"}};
    get.errors = lease_errors();
    routes.push_back(std::move(get));

    for (Route& route : process_follow_routes(api))
        routes.push_back(std::move(route));
    routes.push_back(input_route(api));
    routes.push_back(control_route(
        api, "/v1/sandboxes/{id}/processes/{processId}/signal", "signalProcess",
        "Sends a signal to a process's group, and to the foreground group of its terminal; SIGKILL to "
        "its whole session. SIGTERM and SIGKILL end it for good: it is not started again whatever its "
        "`restart`.",
        "ProcessSignal", async_signal));
    routes.push_back(control_route(api, "/v1/sandboxes/{id}/processes/{processId}/resize", "resizeProcess",
                                   "Gives the terminal of a process another size.", "TerminalSize",
                                   async_resize));
    for (Route& route : routes) {
        route.auth = Auth::token_or_key;
        route.token_scope = Scope::terminal;
        route.query.push_back(k_token_parameter);
    }
    return routes;
}

}  // namespace atl::http
