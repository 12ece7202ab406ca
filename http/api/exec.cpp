// The route that runs a program in a sandbox and answers with what it wrote and how it ended.
#include "core/base/json_writer.hpp"
#include "http/api/api.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/exec_answer.hpp"
#include "http/api/exec_form.hpp"
#include "http/api/exec_stream.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using LeasePtr = std::unique_ptr<conversation::Lease>;

// It holds what a sandbox wrote: no browser may take it for a page of this origin.
void keep_from_browsers(Response& response) {
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", "attachment; filename=\"exec\"");
}

Response whole_response(ExecEnd end, std::unique_ptr<ExecCollector> collector) {
    collector->close();
    const std::size_t size = collector->output(sandbox::OutputKind::standard).bytes.size() +
                             collector->output(sandbox::OutputKind::error).bytes.size();
    auto answer = std::make_unique<ExecAnswer>(end, std::move(collector));
    Response response;
    keep_from_browsers(response);
    if (size > base::k_exec_whole_answer_bytes) {
        response.source = std::move(answer);
        return response;
    }
    while (answer->next(response.body)) {
    }
    return response;
}

Task<Result<Response>> async_exec_whole(Api& api, RequestContext& context, const std::string& id,
                                        ExecForm& form, const base::ShareHolder& holder) {
    auto share = api.budgets.exec.take(holder, reserved_output_bytes(form.max_output_bytes));
    if (share.has_error())
        co_return share.error();
    auto lease = co_await async_lease(api, context, id, conversation::LeaseUse::request);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto collector =
        std::make_unique<ExecCollector>(std::move(*share), form.max_output_bytes, api.spare_blocks);
    ExecRun run(std::move(*lease), **operations, std::move(form), *collector, api.conversations.clock(),
                api.conversations.timers());
    run.on_change([&run, wake = context.waker()] {
        if (run.end())
            wake();
    });
    const std::function<bool()> has_ended = [&run] { return run.end().has_value(); };
    const auto waited = co_await context.async_until(has_ended);
    if (waited.has_error())
        co_return waited.error();
    if (run.end()->has_error())
        co_return co_await async_refuse_program(api, context, id, run.end()->error());
    co_return whole_response(**run.end(), std::move(collector));
}

Task<Result<Response>> async_exec_stream(Api& api, RequestContext& context, const std::string& id,
                                         ExecForm& form, EventNames names, const base::ShareHolder& holder) {
    auto place = context.stream_lease(id);
    if (place.has_error())
        co_return place.error();
    auto lease = co_await async_lease(api, context, id, conversation::LeaseUse::request);
    if (lease.has_error())
        co_return lease.error();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto stream = std::make_unique<ExecStream>(std::move(*place), names, form.max_output_bytes);
    stream->keep_within(OutputRoom(api.budgets.connections, holder));
    ExecRun& run = stream->start(std::move(*lease), **operations, std::move(form), api.conversations.clock(),
                                 api.conversations.timers());
    run.on_change(context.waker());
    const std::function<bool()> is_known = [&run] { return run.has_started() || run.end(); };
    const auto waited = co_await context.async_until(is_known);
    if (waited.has_error())
        co_return waited.error();
    if (!run.has_started() && run.end()->has_error())
        co_return co_await async_refuse_program(api, context, id, run.end()->error());
    Response response;
    response.content_type = k_event_stream_type;
    response.headers.emplace_back("X-Accel-Buffering", "no");
    keep_from_browsers(response);
    response.stream = std::move(stream);
    response.payer = holder;
    co_return response;
}

// The body and its JSON, a multiple of what the form keeps, do not outlive this.
Result<ExecForm> take_form(RequestContext& context) {
    const auto body = context.json_body();
    if (body.has_error())
        return body.error();
    auto form = read_exec_form(*body);
    context.drop_body();
    return form;
}

Task<Result<Response>> async_exec(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    auto form = take_form(context);
    if (form.has_error())
        co_return form.error();
    const auto holder = co_await async_holder(api, context, *id);
    if (holder.has_error())
        co_return holder.error();
    auto input_share = api.budgets.exec.take(*holder, form->input.size());
    if (input_share.has_error())
        co_return input_share.error();
    form->input_share = std::move(*input_share);
    if (context.accepts() != MediaType::event_stream)
        co_return co_await async_exec_whole(api, context, *id, *form, *holder);
    co_return co_await async_exec_stream(api, context, *id, *form, *names, *holder);
}

}  // namespace

std::vector<Route> exec_routes(Api& api) {
    api.spare_blocks = std::make_shared<SpareBlocks>(api.conversations.timers());
    Route exec;
    exec.method = Method::post;
    exec.pattern = "/v1/sandboxes/{id}/exec";
    exec.name = "exec";
    exec.summary =
        "Runs a program in a sandbox and answers when it has ended; with Accept: text/event-stream its "
        "output "
        "comes while it runs. A client that leaves ends the program.";
    exec.handler = bind_handler(api, async_exec);
    exec.body = BodyKind::json;
    exec.request_schema = "Exec";
    exec.query = {k_named_parameter};
    exec.responses = {{200, "What it wrote, and how it ended.", "ExecResult"},
                      {200, "What it writes, and how it ends.", "ExecStream", k_event_stream_type}};
    exec.errors = lease_errors();
    for (const Errc code : {Errc::invalid_field, Errc::invalid_env, Errc::invalid_cwd,
                            Errc::too_many_processes, Errc::too_many_streams, Errc::request_timeout})
        exec.errors.push_back(code);
    std::vector<Route> routes;
    routes.push_back(std::move(exec));
    return routes;
}

}  // namespace atl::http
