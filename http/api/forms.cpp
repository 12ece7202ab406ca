#include "http/api/forms.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/base/json_dump.hpp"
#include "core/base/json_writer.hpp"
#include "core/plain/operation_limits.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/network_form.hpp"
#include "http/api/preview_form.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using sandbox::LimitChanges;

std::optional<std::uint32_t> read_u32(ObjectReader& reader, std::string_view name, IntRange range) {
    const auto value = reader.integer(name, range);
    return value ? std::optional<std::uint32_t>(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

void keep_error(ObjectReader& reader, const base::Result<void>& result) {
    if (result.has_error())
        reader.fail(result.error());
}

std::optional<std::string> read_metadata(ObjectReader& reader) {
    const Json* metadata = reader.object("metadata");
    if (metadata == nullptr)
        return std::nullopt;
    auto text = base::json_dump(*metadata);
    if (text.size() > base::k_max_metadata_bytes) {
        reader.fail("metadata", "at most " + std::to_string(base::k_max_metadata_bytes) + " bytes as JSON");
        return std::nullopt;
    }
    return text;
}

std::optional<sandbox::LimitChanges> read_limits(ObjectReader& reader,
                                                 const sandbox::LimitChanges& ceilings) {
    const Json* value = reader.object("limits");
    if (value == nullptr)
        return std::nullopt;
    ObjectReader limits(*value, "limits.");
    const auto changes = read_limit_changes(limits);
    keep_error(reader, limits.finish());
    keep_error(reader, check_ceilings(changes, ceilings));
    return changes;
}

conversation::ToolChanges read_tools(ObjectReader& reader) {
    conversation::ToolChanges changes;
    const Json* value = reader.object("tools");
    if (value == nullptr)
        return changes;
    ObjectReader tools(*value, "tools.");
    for (const conversation::ToolSettingEntry& setting : conversation::k_tool_settings)
        changes.*setting.change = tools.boolean(setting.api);
    keep_error(reader, tools.finish());
    return changes;
}

// A string without NUL, which C programs down the line would take for its end.
std::optional<std::string> read_text(ObjectReader& reader, std::string_view name, std::size_t limit_bytes) {
    auto text = reader.string(name, limit_bytes);
    if (text && (text->empty() || text->find('\0') != std::string::npos)) {
        reader.fail(name, "text that is not empty and has no NUL character");
        return std::nullopt;
    }
    return text;
}

/// The meaning of null for a text.
enum class Null : bool { refused, removes };

void read_fields(ObjectReader& reader, const auto& table, auto& changes, Null null) {
    base::each_row(table, [&](const auto& row) {
        auto& change = changes.*row.change;
        if constexpr (std::is_same_v<decltype(change), std::optional<std::string>&>)
            change = null == Null::removes && reader.is_null(row.api) ? std::string()
                                                                      : read_text(reader, row.api, row.most);
        else
            change = read_u32(reader, row.api, {0, std::int64_t(row.most)});
    });
}

std::string read_parts(ObjectReader& reader, const Json& parts) {
    std::string content;
    std::size_t index = 0;
    for (const Json& part : parts) {
        ObjectReader fields(part, "content[" + std::to_string(index) + "].");
        const auto type = fields.string("type", k_max_agent_name_bytes);
        if (!fields.failed() && type != "text")
            fields.fail("type", "\"text\"");
        const auto text = read_text(fields, "text", base::k_max_body_bytes);
        if (!text)
            fields.fail("text", "a string");
        keep_error(reader, fields.finish());
        if (reader.failed())
            return {};
        content.append(index++ == 0 ? "" : "\n").append(*text);
    }
    return content;
}

std::string read_content(ObjectReader& reader) {
    const Json* value = reader.any("content");
    if (value != nullptr && value->is_string())
        return read_text(reader, "content", base::k_max_body_bytes).value_or("");
    if (value != nullptr && value->is_array() && !value->empty())
        return read_parts(reader, *value);
    reader.fail("content", "a string, or an array of {type: \"text\", text} with at least one part");
    return {};
}

}  // namespace

sandbox::Environment read_env(ObjectReader& reader) {
    sandbox::Environment env;
    const Json* value = reader.object("env");
    if (value == nullptr)
        return env;
    if (value->size() > base::k_max_env_entries) {
        reader.fail("env", "at most " + std::to_string(base::k_max_env_entries) + " variables");
        return env;
    }
    for (const auto& [name, text] : value->items()) {
        if (!text.is_string()) {
            reader.fail("env", "an object of strings");
            return env;
        }
        env.emplace_back(name, text.get<std::string>());
    }
    return env;
}

base::Result<std::string> read_idempotency_key(const Request& request) {
    if (!request.has_header("Idempotency-Key"))
        return std::string();
    const auto key = request.header("Idempotency-Key");
    if (!is_visible_ascii(key, base::k_max_idempotency_key_bytes))
        return Error(Errc::invalid_request, "Idempotency-Key must be 1 to " +
                                                std::to_string(base::k_max_idempotency_key_bytes) +
                                                " visible ASCII characters.");
    return std::string(key);
}

base::Result<conversation::CreateRequest> read_create_form(const Json& body,
                                                           const sandbox::LimitChanges& ceilings,
                                                           const sandbox::Limits& defaults,
                                                           const sandbox::PreviewSettings& preview) {
    ObjectReader reader(body);
    conversation::CreateRequest request;
    request.agent = read_text(reader, "agent", k_max_agent_name_bytes).value_or("");
    read_fields(reader, conversation::k_client_fields, request, Null::refused);
    request.user_id = read_text(reader, "userId", base::k_max_user_id_bytes);
    request.metadata = read_metadata(reader).value_or("{}");
    request.env = read_env(reader);
    request.limits = read_limits(reader, ceilings)
                         .value_or(sandbox::LimitChanges{})
                         .applied_to(lowered_to(ceilings, defaults));
    request.network = read_network(reader).value_or(sandbox::NetworkSettings());
    request.preview = read_preview(reader).applied_to(preview);
    request.tools = read_tools(reader).applied_to({});
    request.ttl_seconds = read_u32(reader, "ttlSeconds", k_seconds_range);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return request;
}

base::Result<conversation::PatchRequest> read_patch_form(const Json& body,
                                                         const sandbox::LimitChanges& ceilings) {
    ObjectReader reader(body);
    conversation::PatchRequest form;
    read_fields(reader, conversation::k_client_fields, form, Null::removes);
    form.metadata = read_metadata(reader);
    form.limits = read_limits(reader, ceilings);
    form.network = read_network(reader);
    form.preview = read_preview(reader);
    form.tools = read_tools(reader);
    form.ttl_seconds = read_u32(reader, "ttlSeconds", k_seconds_range);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return form;
}

base::Result<conversation::Manager::SandboxRequest> read_sandbox_form(
    const Json& body, const sandbox::LimitChanges& ceilings, const sandbox::Limits& defaults,
    const sandbox::PreviewSettings& preview) {
    ObjectReader reader(body);
    conversation::Manager::SandboxRequest request;
    request.user_id = read_text(reader, "userId", base::k_max_user_id_bytes);
    request.metadata = read_metadata(reader).value_or("{}");
    request.env = read_env(reader);
    request.limits = read_limits(reader, ceilings)
                         .value_or(sandbox::LimitChanges{})
                         .applied_to(lowered_to(ceilings, defaults));
    request.network = read_network_alone(reader).value_or(sandbox::NetworkSettings());
    request.preview = read_preview(reader).applied_to(preview);
    request.tools = read_tools(reader).applied_to({});
    read_fields(reader, sandbox::k_client_fields, request, Null::refused);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return request;
}

base::Result<conversation::SandboxPatch> read_sandbox_patch_form(const Json& body,
                                                                 const sandbox::LimitChanges& ceilings) {
    ObjectReader reader(body);
    conversation::SandboxPatch form;
    form.limits = read_limits(reader, ceilings);
    form.network = read_network_alone(reader);
    form.preview = read_preview(reader);
    form.tools = read_tools(reader);
    read_fields(reader, sandbox::k_client_fields, form, Null::removes);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return form;
}

base::Result<TokenForm> read_token_form(const Json& body, TokenOf of) {
    ObjectReader reader(body);
    TokenForm form;
    if (const auto ttl = reader.integer("ttlSeconds", k_token_ttl_range))
        form.ttl = std::chrono::seconds(*ttl);
    std::vector<Scope> scopes;
    if (of != TokenOf::execution)
        scopes = {Scope::files, Scope::terminal, Scope::preview};
    if (of != TokenOf::sandbox)
        scopes.insert(scopes.end(), {Scope::read, Scope::chat});
    const auto scope = reader.string("scope", k_max_agent_name_bytes);
    const auto named = std::find_if(scopes.begin(), scopes.end(),
                                    [&](Scope one) { return scope && *scope == scope_name(one); });
    if (named != scopes.end())
        form.scope = *named;
    else if (scope || of == TokenOf::sandbox)
        reader.fail("scope", of == TokenOf::sandbox ? "\"files\", \"terminal\" or \"preview\""
                             : of == TokenOf::execution
                                 ? "\"read\" or \"chat\""
                                 : "\"read\", \"chat\", \"files\", \"terminal\" or \"preview\"");
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return form;
}

base::Result<conversation::PauseMode> read_pause_form(const Json& body) {
    ObjectReader reader(body);
    const auto mode = reader.string("mode", k_max_agent_name_bytes);
    if (mode && *mode != "cold" && *mode != "warm")
        reader.fail("mode", "\"cold\" or \"warm\"");
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return mode == "warm" ? conversation::PauseMode::warm : conversation::PauseMode::cold;
}

base::Result<std::string> read_message_form(const Json& body) {
    ObjectReader reader(body);
    std::string content = read_content(reader);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return content;
}

std::optional<std::string> frame_id(const Json& body) {
    const auto found = body.is_object() ? body.find("id") : body.end();
    if (found == body.end())
        return std::nullopt;
    if (found->is_string()) {
        const auto& text = found->get_ref<const std::string&>();
        if (text.empty() || text.size() > base::k_max_frame_id_bytes)
            return std::nullopt;
        std::string out;
        base::JsonWriter(out).string(text);
        return out;
    }
    const bool is_too_great =
        found->is_number_unsigned() && found->get<std::uint64_t>() > base::k_max_frame_id;
    if (!found->is_number_integer() || is_too_great)
        return std::nullopt;
    const auto number = found->get<std::int64_t>();
    return number < -base::k_max_frame_id ? std::nullopt : std::optional(std::to_string(number));
}

namespace {

/// Reads `optionId` or `outcome`, of which one is there.
std::string read_option(ObjectReader& reader) {
    const auto option = reader.string("optionId", base::k_max_permission_id_bytes);
    const auto outcome = reader.string("outcome", k_max_frame_type_bytes);
    if (outcome && *outcome != "cancelled")
        reader.fail("outcome", "\"cancelled\"");
    else if (option.has_value() == outcome.has_value() || (option && option->empty()))
        reader.fail("optionId", "the id of an option, unless `outcome` is \"cancelled\"");
    return option.value_or("");
}

}  // namespace

base::Result<std::string> read_permission_form(const Json& body) {
    ObjectReader reader(body);
    std::string option = read_option(reader);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return option;
}

base::Result<ClientFrame> read_client_frame(const Json& body) {
    ObjectReader reader(body);
    ClientFrame frame;
    if (reader.any("id") != nullptr) {
        if (auto id = frame_id(body))
            frame.id = std::move(*id);
        else
            reader.fail("id", "a string of 1 to 128 bytes or an integer of at most 53 bits");
    }
    const auto type = reader.string("type", k_max_frame_type_bytes);
    if (type == "message") {
        frame.kind = ClientFrame::Kind::message;
        frame.content = read_content(reader);
        frame.idempotency_key =
            reader.string("idempotencyKey", base::k_max_idempotency_key_bytes).value_or("");
    } else if (type == "interrupt") {
        frame.kind = ClientFrame::Kind::interrupt;
    } else if (type == "permission") {
        frame.kind = ClientFrame::Kind::permission;
        frame.permission_id = reader.string("permissionId", base::k_max_permission_id_bytes).value_or("");
        if (frame.permission_id.empty())
            reader.fail("permissionId", "the id of a permission_request");
        frame.option_id = read_option(reader);
    } else {
        reader.know({"content", "idempotencyKey", "permissionId", "optionId", "outcome"});
        reader.fail("type", "\"message\", \"interrupt\" or \"permission\"");
    }
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return frame;
}

}  // namespace atl::http
