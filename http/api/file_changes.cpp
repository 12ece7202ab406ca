// Routes that change files of a sandbox: PUT, DELETE, and what a POST names. The guest does all of it.
#include <charconv>

#include "core/plain/operation_limits.hpp"
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

Result<std::optional<std::uint64_t>> mode_of(const RequestContext& context) {
    const std::string* const text = context.query_value("mode");
    if (text == nullptr)
        return std::optional<std::uint64_t>();
    const bool is_octal =
        !text->empty() && text->size() <= 4 && text->find_first_not_of("01234567") == std::string::npos;
    const std::uint64_t mode = is_octal ? std::stoull(*text, nullptr, 8) : 0;
    if (!is_octal || mode > 0777)
        return Error(Errc::invalid_field,
                     "The query parameter `mode` must be permissions in octal, as 0644.");
    return std::optional(mode);
}

/// The body is the file as it is: nothing here decodes it or puts it together.
Result<void> check_put(const Request& request) {
    const auto coding = request.header("Content-Encoding");
    if (!coding.empty() && !iequals(coding, "identity"))
        return Error(Errc::unsupported_media_type, "Send the bytes without a `Content-Encoding`.");
    if (request.has_header("Content-Range"))
        return Error(Errc::invalid_request, "A PUT has the whole file: `Content-Range` is not supported.");
    return check_change_conditions(request);
}

bool is_in_place(const RequestContext& context) {
    const std::string* const asked = context.query_value("inplace");
    return asked != nullptr && *asked == "1";
}

/// The bytes that a PUT adds to the workspace before anything goes: the old file stays until all of the new
/// one is there. None where nobody knows: the old content goes first, or the body has no length.
std::optional<std::uint64_t> growth_of(const RequestContext& context) {
    const std::string_view length = context.request.header("Content-Length");
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (is_in_place(context) || length.empty() || error != std::errc() ||
        end != length.data() + length.size())
        return std::nullopt;
    return bytes;
}

Result<FileMembers> put_members(const RequestContext& context) {
    const Request& request = context.request;
    if (const auto checked = check_put(request); checked.has_error())
        return checked.error();
    const auto mode = mode_of(context);
    if (mode.has_error())
        return mode.error();
    const std::string* const in_place = context.query_value("inplace");
    if (in_place != nullptr && *in_place != "0" && *in_place != "1")
        return Error(Errc::invalid_field, "The query parameter `inplace` must be 0 or 1.");
    FileMembers members("write");
    members.path(context.param("path")).flag("inplace", is_in_place(context));
    if (*mode)
        members.number("mode", **mode);
    members.conditions(request);
    return members;
}

Response entry_response(const FileReply& file, unsigned status) {
    Response response = json_response(file.entry, status);
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "entry.json"));
    if (!file.etag.empty())
        response.headers.emplace_back("ETag", file.etag);
    return response;
}

/// The answer of what made or changed an entry.
Result<Response> entry_answer(std::string_view json) {
    const auto reply = parse_file_reply(json);
    if (reply.has_error())
        return reply.error();
    return entry_response(*reply, reply->created ? 201 : 200);
}

Task<Result<Response>> async_put(Api& api, RequestContext& context) {
    const auto members = put_members(context);
    if (members.has_error())
        co_return members.error();
    const ChangeCall change{"write", OnDisconnect::finish, entry_answer, context.body, growth_of(context)};
    co_return co_await async_change_files(api, context, *members, change);
}

Result<Response> removal_answer(std::string_view) {
    Response response;
    response.status = 204;
    return response;
}

Task<Result<Response>> async_delete(Api& api, RequestContext& context) {
    if (const auto checked = check_change_conditions(context.request); checked.has_error())
        co_return checked.error();
    const std::string* const recursive = context.query_value("recursive");
    if (recursive != nullptr && *recursive != "0" && *recursive != "1")
        co_return Error(Errc::invalid_field, "The query parameter `recursive` must be 0 or 1.");
    FileMembers members("remove");
    members.path(context.param("path")).flag("recursive", recursive != nullptr && *recursive == "1");
    members.conditions(context.request);
    const ChangeCall change{"delete", OnDisconnect::finish, removal_answer};
    auto done = co_await async_change_files(api, context, members, change);
    if (done.has_error() && done.error().code() == Errc::directory_not_empty) {
        const Error told(Errc::directory_not_empty,
                         done.error().detail() + "; `?recursive=1` removes it with all that is in it.");
        co_return told;
    }
    co_return done;
}

struct ChangeForm {
    std::string op;
    std::string target;  // bytes
    bool overwrite = false;
};

/// `to`, which is text as it is, or `toHref`, which names any bytes: one of the two. Bytes.
std::string read_target(ObjectReader& reader) {
    const auto to = reader.string("to", k_max_target_bytes);
    const auto href = reader.string("toHref", k_max_target_bytes);
    if (to.has_value() == href.has_value()) {
        reader.fail("to", "a path in the workspace, or left out where there is `toHref`");
        return {};
    }
    if (to)
        return std::string(inner_path(*to));
    const auto decoded = percent_decoded(*href);
    if (!decoded)
        reader.fail("toHref", "a path that is percent-encoded, as `href` of an entry");
    return decoded.value_or("");
}

Result<ChangeForm> read_change_form(const Json& body) {
    ObjectReader reader(body);
    ChangeForm form;
    form.op = reader.string("op", base::k_max_told_word_bytes).value_or("");
    const bool has_target = form.op == "move" || form.op == "copy";
    const bool is_mkdir = form.op == "mkdir";
    if (!is_mkdir && !has_target)
        reader.fail("op", "`mkdir`, `move` or `copy`");
    if (has_target)
        form.target = read_target(reader);
    for (const char* const name : {"to", "toHref"})
        if (!has_target && reader.any(name) != nullptr && is_mkdir)
            reader.fail(name, "left out of a `mkdir`");
    const Json* const overwrite = reader.any("overwrite");
    if (overwrite != nullptr && (!overwrite->is_boolean() || is_mkdir))
        reader.fail("overwrite", is_mkdir ? "left out of a `mkdir`" : "a boolean");
    form.overwrite = overwrite != nullptr && *overwrite == true;
    if (const auto finished = reader.finish(); finished.has_error())
        return finished.error();
    return form;
}

Task<Result<Response>> async_change(Api& api, RequestContext& context) {
    if (const auto checked = check_change_conditions(context.request); checked.has_error())
        co_return checked.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto form = read_change_form(*body);
    if (form.has_error())
        co_return form.error();
    FileMembers members(form->op);
    members.path(context.param("path"));
    if (form->op != "mkdir")
        members.target(form->target).flag("overwrite", form->overwrite).conditions(context.request);
    // A copy that breaks off leaves nothing.
    const ChangeCall change = form->op == "copy"   ? ChangeCall{"copy", OnDisconnect::cancel, entry_answer}
                              : form->op == "move" ? ChangeCall{"move", OnDisconnect::finish, entry_answer}
                                                   : ChangeCall{"mkdir", OnDisconnect::finish, entry_answer};
    co_return co_await async_change_files(api, context, members, change);
}

Route put_route(Api& api) {
    Route put{Method::put, "/v1/sandboxes/{id}/files/{path...}", "putFile",
              "Writes a file; parents are made. The new content takes the place of the old one when all of "
              "it has come. A paused sandbox is brought up for it.",
              bind_handler(api, async_put)};
    put.body = BodyKind::stream;
    put.query = {{"mode", R"({"type":"string","pattern":"^[0-7]{1,4}$"})",
                  "Permissions in octal; else those of the file that is there, or 0644."},
                 {"inplace", R"({"enum":["0","1"]})",
                  "1: write into the file that is there, from its beginning; what comes is there at once, "
                  "also if the rest does not."},
                 k_named_parameter};
    put.headers = {{"If-Match", "ETags: 412 unless the file is there and has one of them."},
                   {"If-None-Match", "`*`: 412 if there is a file already; or ETags that it must not have."}};
    put.responses = {{201, "The file is new.", "FileEntry"},
                     {200, "It replaced another.", "FileEntry"},
                     {200, "Progress, then the entry.", "FileStream", k_event_stream_type}};
    put.errors = file_errors({Errc::is_directory, Errc::not_a_file, Errc::file_changed,
                              Errc::precondition_failed, Errc::unsupported_media_type});
    return put;
}

}  // namespace

std::vector<Route> file_change_routes(Api& api) {
    std::vector<Route> routes;
    routes.push_back(put_route(api));

    Route remove{Method::delete_, "/v1/sandboxes/{id}/files/{path...}", "deleteFile",
                 "Removes a file, a link itself or a directory.", bind_handler(api, async_delete)};
    remove.query = {{"recursive", R"({"enum":["0","1"]})", "1: a directory with all that is in it."},
                    k_named_parameter};
    remove.responses = {{204, "It is gone.", ""},
                        {200, "Progress, then the end.", "FileStream", k_event_stream_type}};
    remove.headers = {{"If-Match", "ETags: 412 unless what is there has one of them."},
                      {"If-None-Match", "ETags: 412 if what is there has one of them."}};
    remove.errors = file_errors({Errc::directory_not_empty, Errc::file_changed, Errc::precondition_failed});
    routes.push_back(std::move(remove));

    Route change{
        Method::post, "/v1/sandboxes/{id}/files/{path...}", "changeFile",
        "Makes a directory with its parents, or moves or copies a file, a link itself or a directory.",
        bind_handler(api, async_change)};
    change.body = BodyKind::json;
    change.request_schema = "ChangeFile";
    change.responses = {{201, "What was made.", "FileEntry"},
                        {200, "What was moved, or the directory that was there.", "FileEntry"},
                        {200, "Progress, then the entry.", "FileStream", k_event_stream_type}};
    change.query = {k_named_parameter};
    change.headers = {{"If-Match", "Of a move or a copy: 412 unless what is moved has one of these ETags."},
                      {"If-None-Match", "Of a move or a copy: 412 if what is moved has one of these ETags."}};
    change.errors = file_errors({Errc::precondition_failed, Errc::already_exists, Errc::is_directory,
                                 Errc::not_a_file, Errc::file_changed, Errc::directory_not_empty});
    routes.push_back(std::move(change));
    return routes;
}

}  // namespace atl::http
