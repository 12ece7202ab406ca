// The route that tells what changes in a sandbox's workspace.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/plain/path_text.hpp"
#include "http/api/api.hpp"
#include "http/api/file_call.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/api/watch_stream.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using WatchPtr = std::unique_ptr<conversation::FileWatch>;

/// The directory of the query, as path text, with each part once. Errors: invalid_field.
Result<std::string> directory_of(const RequestContext& context) {
    const std::string bytes = path_query(context);
    std::string out;
    for (std::string_view left = bytes; !left.empty();) {
        const std::string_view part = left.substr(0, left.find('/'));
        left.remove_prefix(std::min(part.size() + 1, left.size()));
        if (part == "..")
            return Error(Errc::invalid_field, "The query parameter `path` must have no part that is `..`.");
        if (!part.empty() && part != ".")
            out.append(out.empty() ? "" : "/").append(part);
    }
    return base::path_text(out);
}

/// `path`, `recursive` and `all` of the query. Errors: invalid_field.
Result<WatchScope> scope_of(const RequestContext& context) {
    const std::string* const recursive = context.query_value("recursive");
    if (recursive != nullptr && *recursive != "0" && *recursive != "1")
        return Error(Errc::invalid_field, "The query parameter `recursive` must be `0` or `1`.");
    const bool only_entries = recursive != nullptr && *recursive == "0";
    const auto path = directory_of(context);
    const auto all = query_flag(context, "all");
    if (path.has_error() || all.has_error())
        return path.has_error() ? path.error() : all.error();
    return WatchScope(*path, only_entries ? WatchScope::Depth::entries : WatchScope::Depth::all,
                      *all ? WatchScope::Home::shown : WatchScope::Home::left_out);
}

Task<Result<Response>> async_watch(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    auto scope = scope_of(context);
    if (scope.has_error())
        co_return scope.error();
    auto place = context.stream_lease(*id);
    if (place.has_error())
        co_return place.error();
    auto start = [&](conversation::Reply<WatchPtr> reply) {
        api.conversations.watch_files(*id, std::move(reply));
    };
    auto watch = co_await context.async_reply<WatchPtr>(start);
    if (watch.has_error())
        co_return watch.error();
    const auto holder = co_await async_holder(api, context, *id);
    if (holder.has_error())
        co_return holder.error();
    Response response = sse_response(
        std::make_unique<FileWatchStream>(std::move(*watch), std::move(*place), std::move(*scope), *names));
    response.payer = *holder;
    // Names of files are what a sandbox wrote.
    forbid_scripts(response);
    co_return response;
}

}  // namespace

std::vector<Route> watch_routes(Api& api) {
    Route made{
        Method::get, "/v1/sandboxes/{id}/watch", "watchFiles",
        "What changes in the workspace from now on, whoever changes it, as Server-Sent Events. It starts "
        "nothing and keeps nothing running: while the sandbox is paused it waits.",
        bind_handler(api, async_watch)};
    QueryParameter path{
        "path", R"({"type":"string"})",
        "Only changes below this directory of the workspace, which need not be there yet. The `href` of an "
        "entry is such a value as it is."};
    path.is_bytes = true;
    made.query = {path,
                  {"recursive", R"({"enum":["0","1"],"default":"1"})",
                   "0: only changes of the directory's own entries."},
                  k_all_parameter,
                  k_named_parameter,
                  k_token_parameter};
    made.auth = Auth::token_or_key;
    made.token_scope = Scope::files;
    made.responses = {{200, "The changes, live.", "WatchStream", k_event_stream_type}};
    made.errors = {Errc::not_found, Errc::invalid_field, Errc::sandbox_gone, Errc::storage_failed,
                   Errc::too_many_streams};
    std::vector<Route> routes;
    routes.push_back(std::move(made));
    return routes;
}

}  // namespace atl::http
