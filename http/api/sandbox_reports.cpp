// Routes that report the usage of a sandbox, and its log.
#include "core/base/clock.hpp"
#include "core/base/json_writer.hpp"
#include "http/api/api.hpp"
#include "http/api/forms.hpp"
#include "http/api/views.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

Task<Result<Response>> async_sandbox_metrics(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto start = [&](conversation::Reply<conversation::SandboxUsage> reply) {
        api.conversations.sandbox_usage(*id, std::move(reply));
    };
    const auto report = co_await context.async_reply<conversation::SandboxUsage>(start);
    if (report.has_error())
        co_return report.error();
    co_return json_response(sandbox_usage_json(*report));
}

Result<std::optional<sandbox::LogStream>> stream_of(const RequestContext& context) {
    const std::string* name = context.query_value("stream");
    if (name == nullptr)
        return std::optional<sandbox::LogStream>();
    const auto stream = sandbox::parse_log_stream(*name);
    if (!stream)
        return Error(Errc::invalid_field, "The query parameter `stream` must be `output` or `system`.");
    return stream;
}

Task<Result<Response>> async_logs(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto after = context.query_integer("after", k_seq_range);
    if (after.has_error())
        co_return after.error();
    const auto stream = stream_of(context);
    if (stream.has_error())
        co_return stream.error();
    auto start = [&](conversation::Reply<sandbox::LogPage> reply) {
        api.conversations.sandbox_log(*id, after->value_or(0), *stream, std::move(reply));
    };
    const auto page = co_await context.async_reply<sandbox::LogPage>(start);
    if (page.has_error())
        co_return page.error();
    // It holds what the sandbox wrote.
    Response response = json_response(log_page_json(*page));
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "log.json"));
    co_return response;
}

}  // namespace

std::vector<Route> sandbox_report_routes(Api& api) {
    std::vector<Route> routes;
    Route metrics{
        Method::get, "/v1/sandboxes/{id}/metrics", "getSandboxMetrics",
        "What a sandbox uses now of its memory, processors, processes and disk; null is what is not "
        "known, as without a living generation.",
        bind_handler(api, async_sandbox_metrics)};
    metrics.responses = {{200, "What it uses.", "SandboxMetrics"}};
    metrics.errors = {Errc::not_found};
    routes.push_back(std::move(metrics));

    Route logs{
        Method::get, "/v1/sandboxes/{id}/logs", "getSandboxLogs",
        "The end of what a sandbox wrote to stdout and stderr, and the server's notes of its life, line "
        "by line. Kept for a while after the sandbox is gone, not over a restart of the server.",
        bind_handler(api, async_logs)};
    logs.query = {
        {"after", R"({"type":"integer","minimum":0,"default":0})", "Only entries with a greater seq."},
        {"stream", R"({"enum":["output","system"]})", "Only what the sandbox wrote, or only notes."}};
    logs.responses = {{200, "The lines.", "SandboxLog"}};
    logs.errors = {Errc::not_found, Errc::invalid_field};
    routes.push_back(std::move(logs));
    return routes;
}

}  // namespace atl::http
