// The component schemas of the OpenAPI document: bodies of requests, and the whole list. Ranges come from
// forms.hpp and core/base/limits.hpp, so the document has the ranges that the server checks; tests compare
// the fields with the forms and the views.
#include "http/api/forms.hpp"
#include "http/api/network_form.hpp"
#include "http/api/openapi.hpp"
#include "http/api/preview_form.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema environment() {
    return Schema{{"type", "object"},
                  {"maxProperties", base::k_max_env_entries},
                  {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
                  {"additionalProperties", text()}};
}

Property user_id() {
    return {"userId",
            "The user of your product that it is for. A key with a user may leave it out or name that user.",
            text_up_to(base::k_max_user_id_bytes)};
}
Property metadata_schema() {
    return {"metadata", "What you want to keep with it, at most 16 KiB of JSON. The server does not read it.",
            any_object()};
}
Property environment_of_all() {
    return {"env", "Environment variables of every program inside, at most 128 and 32 KiB. Never told again.",
            environment()};
}
Property limit_changes() {
    return {"limits", "Limits that differ from the defaults.", ref("LimitChanges")};
}
Property network_schema() {
    return {"network", "The network inside; `none` unless it is named.", ref("Network")};
}
Property network_change() {
    return {"network", "Another network, which takes the place of the one before as a whole.",
            ref("Network")};
}
Property preview_schema() {
    return {"preview", "What its preview shows, and to whom.", ref("PreviewChanges")};
}
Property tools() {
    return {"tools", "How the tools work in the sandbox.", ref("ToolChanges")};
}
Property ttl_seconds() {
    return {"ttlSeconds", std::string(sandbox::k_ttl_seconds_asked), integer(k_seconds_range)};
}

void add_creates(Schema& out) {
    std::vector<Property> tool_changes;
    for (const conversation::ToolSettingEntry& setting : conversation::k_tool_settings)
        tool_changes.push_back({std::string(setting.api),
                                std::string(setting.means) + (conversation::ToolSettings().*setting.value
                                                                  ? " True unless it is set."
                                                                  : " False unless it is set."),
                                flag()});
    out["ToolChanges"] = described(object(Members::optional, tool_changes),
                                   "How the tools are to work; what is not named stays.");
    out["CreateConversation"] = described(
        object(Members::optional,
               with_fields(conversation::k_client_fields, FieldUse::make,
                           {{"agent", "The agent that answers; the server's default unless it is named.",
                             text_up_to(k_max_agent_name_bytes)},
                            user_id(),
                            metadata_schema(),
                            environment_of_all(),
                            limit_changes(),
                            network_schema(),
                            preview_schema(),
                            tools(),
                            ttl_seconds()})),
        "A new conversation. An empty body takes all defaults.");
    out["CreateSandbox"] =
        described(object(Members::optional,
                         with_fields(sandbox::k_client_fields, FieldUse::make,
                                     {user_id(), metadata_schema(), environment_of_all(), limit_changes(),
                                      network_schema(), preview_schema(), tools()})),
                  "A new sandbox without a conversation. An empty body takes all defaults.");
}

void add_changes(Schema& out) {
    out["PatchConversation"] = described(
        object(Members::optional,
               with_fields(conversation::k_client_fields, FieldUse::patch,
                           {{"metadata",
                             "A merge patch (RFC 7396): a member that is null is removed, one that is not "
                             "named stays.",
                             any_object()},
                            limit_changes(),
                            network_change(),
                            preview_schema(),
                            tools(),
                            ttl_seconds()})),
        "The members to change; what is not named stays.");
    out["PatchSandbox"] =
        described(object(Members::optional,
                         with_fields(sandbox::k_client_fields, FieldUse::patch,
                                     {limit_changes(), network_change(), preview_schema(), tools()})),
                  "The members to change; what is not named stays.");
    out["AnswerPermission"] = described(
        object(Members::optional,
               {{"optionId", "The chosen option of the permission_request.", text()},
                {"outcome", "In place of an option: the request is cancelled.", constant("cancelled")}}),
        "An answer to a permission_request: one of the two members.");
    Schema mode = one_of({"cold", "warm"});
    mode["default"] = "cold";
    out["DecideEgress"] = described(
        object(Members::required,
               {{"decision",
                 "once: the requests that wait may go. always: the host and the port become a rule of "
                 "`network.allow`, too. deny: the requests are refused.",
                 one_of({"once", "always", "deny"})}}),
        "A person's decision on a host.");
    out["PauseConversation"] = described(
        object(Members::optional,
               {{"mode",
                 "Cold: the sandbox is ended, its workspace kept. Warm: it is frozen for some time, with "
                 "all its processes, where the server can.",
                 std::move(mode)}}),
        "How to pause.");
    Schema ttl = integer(k_token_ttl_range);
    ttl["default"] = base::k_default_token_ttl.count();
    Schema scope = one_of({"read", "chat", "files", "terminal", "preview"});
    scope["default"] = "read";
    const Property seconds{"ttlSeconds", "Seconds for which the token is good.", std::move(ttl)};
    out["CreateStreamToken"] = described(
        object(Members::optional,
               {seconds,
                {"scope",
                 "Read: follow. Chat: also send messages and interrupt, on a WebSocket. Files: read the "
                 "files of the conversation's sandbox. Terminal: start and use its processes. Preview: "
                 "see what listens on its ports.",
                 std::move(scope)}}),
        "A new stream token. An empty body takes all defaults.");
    out["CreateSandboxToken"] =
        described(object(Members::optional,
                         {seconds,
                          {"scope",
                           "Files: read files, their archive and their changes. Terminal: start "
                           "and use processes. Preview: see what listens on its ports.",
                           one_of({"files", "terminal", "preview"})}},
                         {"scope"}),
                  "A new token for the files, the terminal or the preview of a sandbox.");
}

void add_message(Schema& out) {
    const Schema part = object(
        Members::optional, {{"type", "The kind of part.", constant("text")}, {"text", "Its text.", text()}},
        {"type", "text"});
    Schema parts = list_of(described(part, "A part of a message."));
    parts["minItems"] = 1;
    out["MessageContent"] =
        described(any_of_these({text_up_to(base::k_max_body_bytes), std::move(parts)}),
                  "The text of a message, or parts of it that are joined by line breaks.");
    out["PostMessage"] =
        described(object(Members::optional, {{"content", "What the agent is asked.", ref("MessageContent")}},
                         {"content"}),
                  "A message: the question of a turn.");
}

}  // namespace

Schema limits_schema(Members members) {
    std::vector<Property> properties;
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        properties.push_back(
            {std::string(limit.api), std::string(limit.means), integer({limit.least, limit.most})});
    return object(members, properties);
}

void add_request_schemas(Schema& out) {
    out["LimitChanges"] = described(limits_schema(Members::optional),
                                    "Limits of a sandbox; one that is not named stays, or is the default.");
    add_network_schemas(out);
    add_preview_schemas(out);
    add_creates(out);
    add_changes(out);
    add_message(out);
}

Schema component_schemas() {
    Schema out = Schema::object();
    add_request_schemas(out);
    add_resource_schemas(out);
    add_report_schemas(out);
    add_file_schemas(out);
    add_event_schemas(out);
    add_frame_schemas(out);
    add_exec_schemas(out);
    add_process_schemas(out);
    add_tool_schemas(out);
    add_execution_schemas(out);
    add_secret_schemas(out);
    add_server_schemas(out);
    return out;
}

}  // namespace atl::http
