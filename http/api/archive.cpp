// Routes of archives: the workspace, or a part of it, as tar, out and in. The guest does all of it.
#include <nlohmann/json.hpp>

#include "core/base/json_writer.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"
#include "http/api/api.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/file_call.hpp"
#include "http/api/file_stream.hpp"
#include "http/api/forms.hpp"
#include "http/wire/download.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

constexpr std::string_view k_tar = "application/x-tar";

/// "src" of "/src/", "workspace" of "".
std::string archive_name(std::string_view path) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return std::string(name.empty() || name == "." ? "workspace" : name).append(".tar");
}

/// The names that the reply tells as left out, for a header: of those that it may tell.
std::string left_out_names(std::string_view reply) {
    const Json told = Json::parse(reply, nullptr, false);
    const auto found = told.is_object() ? told.find("leftOut") : told.end();
    const std::string text = told.is_object() && found != told.end() && found->is_string()
                                 ? found->get<std::string>()
                                 : std::string();
    std::string names;
    for (const std::string_view name : base::k_home_names) {
        if (text.find(name) != std::string::npos)
            names.append(names.empty() ? "" : ", ").append(name);
    }
    return names;
}

Task<Result<Response>> async_get_archive(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto all = query_flag(context, "all");
    if (all.has_error())
        co_return all.error();
    const std::string path = path_query(context);
    FileMembers members("pack");
    members.path(path).flag("all", *all);
    const sandbox::CallSpec spec = members.spec();
    auto call = co_await async_call(api, context, *id, spec);
    if (call.has_error())
        co_return call.error();
    const auto reply = co_await (*call)->async_reply_for_client();
    if (reply.has_error())
        co_return reply.error();
    Response response;
    response.content_type = k_tar;
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition",
                                  content_disposition("attachment", archive_name(base::shown_path(path))));
    if (std::string names = left_out_names(*reply); !names.empty())
        response.headers.emplace_back("Atoll-Left-Out", std::move(names));
    response.source = std::move(*call);
    co_return response;
}

/// The reply's two numbers. Nothing else of it goes on.
Result<Response> unpacked_answer(std::string_view reply) {
    const Json told = Json::parse(reply, nullptr, false);
    const auto number = [&told](const char* name) {
        return told.is_object() && told.contains(name) && told[name].is_number_unsigned()
                   ? std::optional(told[name].get<std::uint64_t>())
                   : std::nullopt;
    };
    const auto entries = number("entries");
    const auto bytes = number("bytes");
    if (!entries || !bytes)
        return Error(Errc::bridge_failed, "The sandbox did not say what it unpacked.");
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("entries").number(*entries).key("bytes").number(*bytes).end_object();
    return json_response(std::move(out));
}

Task<Result<Response>> async_put_archive(Api& api, RequestContext& context) {
    const auto coding = context.request.header("Content-Encoding");
    if (!coding.empty() && !iequals(coding, "identity"))
        co_return Error(Errc::unsupported_media_type, "Send the tar without a `Content-Encoding`.");
    FileMembers members("unpack");
    members.path(path_query(context));
    const ChangeCall change{"unpack", OnDisconnect::finish, unpacked_answer, context.body};
    co_return co_await async_change_files(api, context, members, change);
}

}  // namespace

std::vector<Route> archive_routes(Api& api) {
    QueryParameter path{"path", R"({"type":"string"})",
                        "The part of the workspace that is meant; without it the whole. The `href` of an "
                        "entry is such a value as it is."};
    path.is_bytes = true;
    std::vector<Route> routes;
    Route get{
        Method::get, "/v1/sandboxes/{id}/archive", "getArchive",
        "The workspace, or a part of it, as a tar archive. Names in it begin below the directory asked for. "
        "The header `Atoll-Left-Out` names what is left out without `all=1`.",
        bind_handler(api, async_get_archive)};
    get.auth = Auth::token_or_key;
    get.token_scope = Scope::files;
    get.query = {path, k_all_parameter, k_token_parameter};
    get.responses = {{200, "The archive (POSIX pax).", "", k_tar}};
    get.errors = file_errors({Errc::not_a_file, Errc::file_changed});
    routes.push_back(std::move(get));

    Route put{
        Method::put, "/v1/sandboxes/{id}/archive", "putArchive",
        "Unpacks a tar archive into the workspace or a directory of it, which is made. An entry that leads "
        "out, or is no file, directory or link, ends it; what was unpacked before stays.",
        bind_handler(api, async_put_archive)};
    put.body = BodyKind::stream;
    put.query = {path, k_named_parameter};
    put.responses = {{200, "All of it is unpacked.", "Unpacked"},
                     {200, "Progress, then the numbers.", "FileStream", k_event_stream_type}};
    put.errors = file_errors({Errc::invalid_archive, Errc::is_directory, Errc::already_exists,
                              Errc::file_changed, Errc::directory_not_empty, Errc::unsupported_media_type});
    routes.push_back(std::move(put));
    return routes;
}

}  // namespace atl::http
