// Routes of archives: the workspace, or a part of it, as tar, tar.gz or zip, out and in. The guest does all
// of it.
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

struct ArchiveFormat {
    std::string_view name;  // in queries, to the guest, and at the end of a file's name
    std::string_view media_type;
};

constexpr ArchiveFormat k_archive_formats[] = {
    {"tar", "application/x-tar"}, {"tar.gz", "application/gzip"}, {"zip", "application/zip"}};

/// `?format=`; null without it.
Result<const ArchiveFormat*> format_query(const RequestContext& context) {
    const std::string* const asked = context.query_value("format");
    if (asked == nullptr)
        return nullptr;
    for (const ArchiveFormat& format : k_archive_formats)
        if (format.name == *asked)
            return &format;
    return Error(Errc::invalid_field, "The query parameter `format` must be tar, tar.gz or zip.");
}

/// The format of a body as its media type tells it; null: its first bytes do. `application/x-tar` is said of
/// compressed ones, too.
const ArchiveFormat* format_of_body(const Request& request) {
    std::string_view fields = request.header("Content-Type");
    const std::string_view type = take_element(fields, ';');
    for (const ArchiveFormat& format : k_archive_formats)
        if (format.name != "tar" && iequals(type, format.media_type))
            return &format;
    return nullptr;
}

/// "src.tar" of "/src/", "workspace.tar" of "".
std::string archive_name(std::string_view path, const ArchiveFormat& format) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return std::string(name.empty() || name == "." ? "workspace" : name).append(".").append(format.name);
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
    const auto asked = format_query(context);
    if (asked.has_error())
        co_return asked.error();
    const ArchiveFormat& format = *asked != nullptr ? **asked : k_archive_formats[0];
    const std::string path = path_query(context);
    FileMembers members("pack");
    members.path(path).flag("all", *all).text("format", format.name);
    const sandbox::CallSpec spec = members.spec();
    auto call = co_await async_call(api, context, *id, spec);
    if (call.has_error())
        co_return call.error();
    const auto reply = co_await (*call)->async_reply_for_client();
    if (reply.has_error())
        co_return reply.error();
    Response response;
    response.content_type = format.media_type;
    forbid_scripts(response);
    response.headers.emplace_back(
        "Content-Disposition",
        content_disposition("attachment", archive_name(base::shown_path(path), format)));
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
        co_return Error(Errc::unsupported_media_type, "Send the archive without a `Content-Encoding`.");
    const auto asked = format_query(context);
    if (asked.has_error())
        co_return asked.error();
    FileMembers members("unpack");
    members.path(path_query(context));
    const ArchiveFormat* const format = *asked != nullptr ? *asked : format_of_body(context.request);
    if (format != nullptr)
        members.text("format", format->name);
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
        "The workspace, or a part of it, as an archive. Names in it begin below the directory asked for. "
        "The header `Atoll-Left-Out` names what is left out without `all=1`.",
        bind_handler(api, async_get_archive)};
    get.auth = Auth::token_or_key;
    get.token_scope = Scope::files;
    get.query = {
        path,
        {"format", R"({"enum":["tar","tar.gz","zip"],"default":"tar"})", "The format of the archive."},
        k_all_parameter,
        k_token_parameter};
    for (const ArchiveFormat& format : k_archive_formats)
        get.responses.push_back({200, "The archive.", "", format.media_type});
    get.errors = file_errors({Errc::not_a_file, Errc::file_changed});
    routes.push_back(std::move(get));

    Route put{Method::put, "/v1/sandboxes/{id}/archive", "putArchive",
              "Unpacks a tar, tar.gz or zip into the workspace or a directory of it, which is made. An entry "
              "that leads "
              "out, or is no file, directory or link, ends it; what was unpacked before stays.",
              bind_handler(api, async_put_archive)};
    put.body = BodyKind::stream;
    put.query = {
        path,
        {"format", R"({"enum":["tar","tar.gz","zip"]})",
         "The format of the body. Without it the Content-Type `application/zip` or `application/gzip` "
         "tells it, or else the first bytes."},
        k_named_parameter};
    put.responses = {{200, "All of it is unpacked.", "Unpacked"},
                     {200, "Progress, then the numbers.", "FileStream", k_event_stream_type}};
    put.errors = file_errors({Errc::invalid_archive, Errc::is_directory, Errc::already_exists,
                              Errc::file_changed, Errc::directory_not_empty, Errc::unsupported_media_type});
    routes.push_back(std::move(put));
    return routes;
}

}  // namespace atl::http
