// Routes that read files of a sandbox: bytes, what there is to know of a file, the entries of a directory.
// The guest does all of it; here are HTTP's conditions, ranges and fields.
#include <limits>

#include "core/plain/entity_tag.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"
#include "http/api/api.hpp"
#include "http/api/file_call.hpp"
#include "http/api/forms.hpp"
#include "http/server/problem.hpp"
#include "http/wire/byte_range.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::TagComparison;
using base::Task;

constexpr IntRange k_depth_range{1, base::k_max_list_depth};
constexpr std::uint64_t k_all_bytes = std::numeric_limits<std::uint64_t>::max();

Task<Result<Response>> async_stat(Api& api, RequestContext& context) {
    FileMembers members("stat");
    members.path(context.param("path"));
    const auto answer = co_await async_file_call(api, context, members, OnDisconnect::finish);
    if (answer.has_error())
        co_return answer.error();
    Response response = json_response(answer->reply.entry);
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "entry.json"));
    co_return response;
}

/// True if the path text `cursor` names something below the directory `path`.
bool is_cursor_of(std::string_view path, std::string_view cursor) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    const std::string below = path.empty() ? std::string() : std::string(path) + '/';
    const std::string named = base::path_bytes(cursor);
    return named.size() > below.size() && named.starts_with(below);
}

/// The guest writes the whole body: a page may have ten thousand entries.
Task<Result<Response>> async_list_files(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    const auto depth = context.query_integer("depth", k_depth_range);
    const auto limit = context.query_integer("limit", k_page_range);
    const auto all = query_flag(context, "all");
    if (id.has_error() || depth.has_error() || limit.has_error())
        co_return id.has_error() ? id.error() : depth.has_error() ? depth.error() : limit.error();
    if (all.has_error())
        co_return all.error();
    FileMembers members("list");
    members.path(context.param("path")).number("depth", depth->value_or(1));
    members.number("limit", limit->value_or(base::k_default_page_items)).flag("all", *all);
    const std::string* const cursor = context.query_value("cursor");
    if (cursor != nullptr && !is_cursor_of(context.param("path"), *cursor))
        co_return Error(Errc::invalid_field,
                        "The query parameter `cursor` must be `next` of a page of this list.");
    if (cursor != nullptr)
        members.text("after", *cursor);
    const sandbox::CallSpec spec = members.spec();
    auto call = co_await async_call(api, context, *id, spec);
    if (call.has_error())
        co_return call.error();
    const auto reply = co_await (*call)->async_reply_for_client();
    if (reply.has_error())
        co_return reply.error();
    Response response;
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "list.json"));
    response.source = std::move(*call);
    co_return response;
}

/// The fields of a response with a file's bytes, or of one that says that they have not changed.
void set_validators(Response& response, const FileReply& file) {
    if (!file.etag.empty())
        response.headers.emplace_back("ETag", file.etag);
    if (!file.modified.empty())
        response.headers.emplace_back("Last-Modified", file.modified);
    response.cache_control = "private, no-cache";
}

/// RFC 9110 section 13.2.2: If-Match first. Nothing: go on.
Result<std::optional<Response>> check_conditions(const Request& request, const FileReply& file) {
    const auto match = list_field(request, "If-Match");
    if (match && !base::names_tag(*match, file.etag, TagComparison::strong))
        return Error(Errc::precondition_failed);
    const auto none_match = list_field(request, "If-None-Match");
    if (!none_match || !base::names_tag(*none_match, file.etag, TagComparison::weak))
        return std::optional<Response>();
    std::optional<Response> unchanged(std::in_place);
    unchanged->status = 304;
    unchanged->content_type = {};
    set_validators(*unchanged, file);
    return unchanged;
}

/// The bytes that the request asks for. The guest chooses them, by the size that the file has when it opens
/// it.
void ask_for_range(FileMembers& members, const RangeSpec& range) {
    if (!range.if_range.empty())
        members.tags("ifRange", range.if_range);
    if (!range.first) {
        members.number("suffix", range.suffix);
        return;
    }
    members.number("offset", *range.first);
    const std::uint64_t behind = range.last ? *range.last - *range.first : k_all_bytes;
    if (behind != k_all_bytes)
        members.number("length", behind + 1);
}

/// RFC 9110 section 15.5.17: a problem that tells the size.
Response refuse_range(const RequestContext& context, const ByteRange& range, const FileReply& file) {
    const Error error(Errc::range_not_satisfiable,
                      "The file has " + std::to_string(file.size) + " bytes: ask for some of them.");
    Response refusal = problem(error, context.request_id);
    set_validators(refusal, file);
    set_range(refusal, range, file.size);
    return refusal;
}

Task<Result<Response>> async_bytes(Api& api, RequestContext& context, Showing showing) {
    const Request& request = context.request;
    FileMembers members("read");
    members.path(context.param("path"));
    if (request.method == Method::head)
        members.number("length", 0);
    else if (const auto asked = asked_range(request))
        ask_for_range(members, *asked);
    auto answer = co_await async_file_call(api, context, members, OnDisconnect::finish);
    if (answer.has_error() && answer.error().code() == Errc::is_directory) {
        const Error told(Errc::is_directory, answer.error().detail() + "; `?list=1` lists what is in it.");
        co_return told;
    }
    if (answer.has_error())
        co_return answer.error();
    const FileReply& file = answer->reply;
    auto unchanged = check_conditions(request, file);
    if (unchanged.has_error())
        co_return unchanged.error();
    if (*unchanged)
        co_return std::move(**unchanged);
    const ByteRange range = choose_range(request, file.size, file.etag);
    if (range.kind == ByteRange::Kind::unsatisfiable)
        co_return refuse_range(context, range, file);
    Response response;
    set_download(response, file.name, showing);
    set_validators(response, file);
    set_range(response, range, file.size);
    if (request.method != Method::head && file.length != range.length)
        co_return Error(Errc::bridge_failed, "The sandbox gives other bytes than those asked for.");
    response.source = std::move(answer->call);
    co_return response;
}

Task<Result<Response>> async_get_file(Api& api, RequestContext& context) {
    const auto stat = query_flag(context, "stat");
    const auto list = query_flag(context, "list");
    const auto shown = query_flag(context, "inline");
    if (stat.has_error() || list.has_error() || shown.has_error())
        co_return stat.has_error() ? stat.error() : list.has_error() ? list.error() : shown.error();
    if (*stat)
        co_return co_await async_stat(api, context);
    if (*list)
        co_return co_await async_list_files(api, context);
    const Showing showing = *shown ? Showing::if_harmless : Showing::never;
    co_return co_await async_bytes(api, context, showing);
}

}  // namespace

std::vector<Route> file_routes(Api& api) {
    std::vector<Route> routes;
    Route get{Method::get, "/v1/sandboxes/{id}/files/{path...}", "getFile",
              "A file's bytes; with `stat=1` what there is to know of a file, with `list=1` the entries of a "
              "directory. A paused sandbox is brought up for it.",
              bind_handler(api, async_get_file)};
    get.query = {
        {"stat", R"({"enum":["0","1"]})", "1: the entry itself as JSON. A link is not followed."},
        {"list", R"({"enum":["0","1"]})",
         "1: a page of the entries of a directory, in the order of the bytes of their names, what "
         "is inside a "
         "directory right behind it. What the workspace keeps for its shells and package managers is "
         "left out without `all=1`, and counted as `hidden`."},
        {"depth", R"({"type":"integer","minimum":1,"maximum":64,"default":1})",
         "Of a list: 1 is the directory's own entries."},
        {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})",
         "Of a list: entries in a page."},
        {"cursor", R"({"type":"string"})", "Of a list: `next` of the page before."},
        k_all_parameter,
        {"inline", R"({"enum":["0","1"]})",
         "1: a browser may show it, if it is a PNG, JPEG, GIF, WebP, PDF or a text by its name."},
        k_token_parameter};
    get.auth = Auth::token_or_key;
    get.token_scope = Scope::files;
    get.headers = {{"Range", "One range of bytes; several get the whole."},
                   {"If-Range", "An ETag: the range holds only for this content."},
                   {"If-None-Match", "ETags: 304 if the content has one of them."},
                   {"If-Match", "ETags: 412 unless the content has one of them."}};
    get.responses = {{200, "The bytes, an entry or a page of a list.", "FileInfo"},
                     {200, "The bytes.", "", "*/*"},
                     {206, "The bytes of the range.", "", "*/*"},
                     {304, "The client has this content already.", ""}};
    get.errors = file_errors({Errc::is_directory, Errc::not_a_file, Errc::file_changed,
                              Errc::precondition_failed, Errc::range_not_satisfiable});
    routes.push_back(std::move(get));
    return routes;
}

}  // namespace atl::http
