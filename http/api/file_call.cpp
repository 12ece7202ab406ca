#include "http/api/file_call.hpp"

#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/path_text.hpp"
#include "http/api/leased_sandbox.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

// The command of bridge::cmd::file: this layer knows no bridge.
constexpr std::string_view k_command = "file";
constexpr std::size_t k_max_tag_bytes = 128;

std::string text_of(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::uint64_t> number_of(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned())
        return std::nullopt;
    return found->get<std::uint64_t>();
}

/// A header holds it: RFC 9110 section 8.8.3.
bool is_tag(std::string_view text) {
    return text.size() >= 2 && is_visible_ascii(text, k_max_tag_bytes) && text.front() == '"' &&
           text.find('"', 1) == text.size() - 1;
}

std::string date_of(std::string_view time) {
    const auto parsed = base::parse_rfc3339(time);
    if (!parsed)
        return {};
    return http_date(std::chrono::floor<std::chrono::seconds>(*parsed).time_since_epoch().count());
}

}  // namespace

FileMembers::FileMembers(std::string_view op) {
    text("op", op);
}

FileMembers& FileMembers::add(std::string_view name, std::string_view json) {
    json_.append(json_.empty() ? "" : ",");
    base::append_json_string(json_, name);
    json_.append(":").append(json);
    return *this;
}

FileMembers& FileMembers::path(std::string_view bytes) {
    return text("path", base::path_text(bytes));
}

FileMembers& FileMembers::target(std::string_view bytes) {
    return text("to", base::path_text(bytes));
}

FileMembers& FileMembers::text(std::string_view name, std::string_view value) {
    std::string json;
    base::append_json_string(json, value);
    return add(name, json);
}

FileMembers& FileMembers::number(std::string_view name, std::uint64_t value) {
    return add(name, std::to_string(value));
}

FileMembers& FileMembers::flag(std::string_view name, bool value) {
    return add(name, value ? "true" : "false");
}

// A field may have bytes that are no UTF-8 (RFC 9110 section 5.5), as the command may not. The guest's tags
// have neither those nor what stands in their place here.
FileMembers& FileMembers::tags(std::string_view name, std::string_view field) {
    std::string ascii(field);
    for (char& each : ascii)
        if (static_cast<unsigned char>(each) >= 0x80)
            each = '?';
    return text(name, ascii);
}

FileMembers& FileMembers::conditions(const Request& request) {
    if (const auto field = list_field(request, "If-Match"))
        tags("ifMatch", *field);
    if (const auto field = list_field(request, "If-None-Match"))
        tags("ifNoneMatch", *field);
    return *this;
}

sandbox::CallSpec FileMembers::spec() const {
    return {k_command, json_};
}

Result<FileReply> parse_file_reply(std::string_view json) {
    const Json reply = Json::parse(json, nullptr, false);
    const auto entry = reply.is_object() ? reply.find("entry") : reply.end();
    if (!reply.is_object() || entry == reply.end() || !entry->is_object())
        return Error(Errc::bridge_failed, "The sandbox did not say what file it is.");
    FileReply out;
    out.entry = entry->dump();
    out.name = text_of(*entry, "name");
    out.etag = text_of(*entry, "etag");
    out.modified = date_of(text_of(*entry, "mtime"));
    out.size = number_of(*entry, "size").value_or(0);
    out.length = number_of(reply, "length").value_or(0);
    const auto created = reply.find("created");
    out.created = created != reply.end() && *created == true;
    if ((!out.etag.empty() && !is_tag(out.etag)) || out.length > out.size)
        return Error(Errc::bridge_failed, "The sandbox says of the file what no file can have.");
    return out;
}

Task<Result<FileAnswer>> async_file_call(Api& api, RequestContext& context, const FileMembers& members,
                                         OnDisconnect on_disconnect) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const sandbox::CallSpec spec = members.spec();
    auto call = co_await async_call(api, context, *id, spec);
    if (call.has_error())
        co_return call.error();
    auto waiting =
        on_disconnect == OnDisconnect::cancel ? (*call)->async_reply_for_client() : (*call)->async_reply();
    const auto json = co_await std::move(waiting);
    if (json.has_error())
        co_return json.error();
    auto reply = parse_file_reply(*json);
    if (reply.has_error())
        co_return reply.error();
    FileAnswer answer;
    answer.call = std::move(*call);
    answer.reply = std::move(*reply);
    co_return answer;
}

// RFC 9110 section 5.3: the lines are one list. One without elements is a comma, which means the same.
std::optional<std::string> list_field(const Request& request, std::string_view name) {
    std::optional<std::string> joined;
    for (const HeaderField& field : request.fields) {
        if (!iequals(field.name, name))
            continue;
        if (joined)
            joined->append(", ").append(field.value);
        else
            joined.emplace(field.value);
    }
    if (joined && joined->empty())
        joined = ",";
    return joined;
}

Result<void> check_change_conditions(const Request& request) {
    if (request.has_header("If-Unmodified-Since"))
        return Error(Errc::invalid_request, "`If-Unmodified-Since` is not supported: send `If-Match`.");
    return {};
}

std::string_view inner_path(std::string_view path) noexcept {
    constexpr std::string_view k_workspace = base::k_inner_workspace;
    if (!path.starts_with(k_workspace))
        return path;
    const std::string_view rest = path.substr(k_workspace.size());
    if (rest.empty())
        return rest;
    return rest.front() == '/' ? rest.substr(1) : path;
}

std::string path_query(const RequestContext& context) {
    const std::string* const path = context.query_value("path");
    return path == nullptr ? std::string() : std::string(inner_path(*path));
}

Result<bool> query_flag(const RequestContext& context, std::string_view name) {
    const std::string* const value = context.query_value(name);
    if (value == nullptr || *value == "0")
        return false;
    if (*value == "1")
        return true;
    return Error(Errc::invalid_field, "The query parameter `" + std::string(name) + "` must be 0 or 1.");
}

std::vector<Errc> file_errors(std::initializer_list<Errc> more) {
    std::vector<Errc> errors = lease_errors();
    errors.insert(errors.end(), {Errc::invalid_field, Errc::file_not_found, Errc::not_a_directory,
                                 Errc::outside_workspace, Errc::invalid_path, Errc::permission_denied});
    errors.insert(errors.end(), more);
    return errors;
}

}  // namespace atl::http
