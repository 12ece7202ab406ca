// A schema for each type of event. The text is the OpenAPI document's own; a test compares its types with the
// log's.
#include <algorithm>
#include <array>

#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

// The data of each type: what it means, its members, those that may be missing ("optional"), and whether it
// has members of any name ("open").
constexpr const char* k_data = R"json({
"session_start": {"means": "The conversation was created.", "members": {
    "logEpoch": {"type": "string", "description": "The epoch of the log that this is read from."},
    "agent": {"type": "string", "description": "The agent that answers."},
    "sandboxId": {"type": "string", "description": "The sandbox that the conversation keeps for life."}}},
"turn_start": {"means": "A message was accepted: the first event of its turn.", "members": {
    "by": {"type": "string", "description": "The user of the sender's key, or the key's label."},
    "idempotencyKey": {"type": "string", "description": "The Idempotency-Key of the message."},
    "content": {"type": "string", "description": "The text of the message; several parts are joined by line breaks."}},
    "optional": ["by", "idempotencyKey"]},
"text_delta": {"means": "Text of the answer. The deltas of a turn in order are the answer.", "members": {
    "delta": {"type": "string", "description": "The text."},
    "stream": {"enum": ["stdout", "stderr"], "description": "The stream of a program that wrote it."}},
    "optional": ["stream"]},
"thinking_delta": {"means": "What a model thinks aloud.", "members": {
    "delta": {"type": "string", "description": "The text."}}},
"tool_use": {"means": "The agent uses a tool.", "members": {
    "id": {"type": "string", "description": "Names this use; its result says the same."},
    "name": {"type": "string", "description": "The tool."},
    "input": {"type": "object", "additionalProperties": true, "description": "What the tool is given."}}},
"tool_result": {"means": "The result of a tool.", "members": {
    "toolUseId": {"type": "string", "description": "The `id` of its tool_use."},
    "content": {"description": "What the tool gave back: any JSON."},
    "isError": {"type": "boolean", "description": "Whether the tool failed."}}},
"message": {"means": "An object of the agent's model, as the agent wrote it.", "members": {}, "open": true},
"turn_complete": {"means": "How the turn ended, as the agent says.", "members": {
    "result": {"type": "string", "description": "A word such as `success` or `error`."},
    "exitCode": {"type": "integer", "description": "Of the command, where the agent runs one."}},
    "optional": ["exitCode"]},
"error": {"means": "Something went wrong. A turn may go on after it.", "members": {
    "code": {"type": "string", "description": "A stable word, snake_case. An agent may write words of its own."},
    "message": {"type": "string", "description": "The cause."}}},
"done": {"means": "The turn is over: the last event of every turn.", "members": {}},
"sandbox_ready": {"means": "The first generation of the sandbox runs.", "members": {
    "generation": {"type": "integer", "minimum": 0, "description": "Counts the starts of the sandbox."}}},
"sandbox_paused": {"means": "The sandbox was ended or frozen; its workspace is kept.", "members": {
    "reason": {"$ref": "#/components/schemas/StatusReason", "description": "Why."},
    "mode": {"enum": ["cold", "warm"], "description": "Cold: its processes have ended. Warm: they are frozen."},
    "detail": {"type": "string", "description": "The cause, for people."}}},
"sandbox_resumed": {"means": "The sandbox runs again.", "members": {
    "generation": {"type": "integer", "minimum": 0, "description": "Counts the starts of the sandbox."},
    "mode": {"enum": ["cold", "warm"], "description": "Warm: it went on where it was."}}},
"sandbox_terminated": {"means": "The processes of the sandbox ended by themselves or for a limit.", "members": {
    "class": {"type": "string", "description": "exited, signalled, oom, disk_limit, stopped, killed, setup_failed or lost."},
    "code": {"type": "integer", "description": "The exit status or the signal's number."},
    "detail": {"type": "string", "description": "The cause, for people."},
    "limitBytes": {"type": "integer", "minimum": 0, "description": "The limit that was reached."},
    "peakBytes": {"type": "integer", "minimum": 0, "description": "The most that was used."}},
    "optional": ["limitBytes", "peakBytes"]},
"output_truncated": {"means": "The turn wrote more than its log takes.", "members": {
    "droppedBytes": {"type": "integer", "minimum": 0, "description": "Bytes of events that were dropped."}}},
"resource_warning": {"means": "A limit of the sandbox is near.", "members": {
    "resource": {"type": "string", "description": "The resource: memory, memory_pressure, disk, processes or preview_ports."},
    "used": {"type": "integer", "minimum": 0, "description": "What is used, in bytes, processes or ports."},
    "limit": {"type": "integer", "minimum": 0, "description": "The limit, in the same unit."}}},
"port_opened": {"means": "A program inside listens on a port, or the address of such a port has changed.", "members": {
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port inside the sandbox."},
    "url": {"type": ["string", "null"], "description": "Where the port is shown; null: the preview does not list it, or it has no address."}}},
"port_closed": {"means": "Nothing listens on the port any more, or its generation has ended.", "members": {
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port inside the sandbox."}}},
"preview_changed": {"means": "The preview of the sandbox has another address from now on.", "members": {
    "url": {"type": ["string", "null"], "description": "As `sandboxPublicUrl`; null: it has none any more."}}},
"egress_denied": {"means": "The proxy of the sandbox refused a request to a host, or cut its tunnel.", "members": {
    "host": {"type": "string", "description": "The host that was asked for, as a name or an address."},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port that was asked for."},
    "reason": {"enum": ["not_listed", "ip_literal", "private_address", "dns", "sni_mismatch", "not_tls", "limit", "rule"], "description": "not_listed, ip_literal: no rule of `network.allow` names it, or no flag of the operator lets it. private_address: it has no address that may be reached. dns: the name has no address. sni_mismatch: the tunnel is TLS for another name, or for none. not_tls: the tunnel began with other bytes. limit: a bound of the sandbox, its user or the server. rule: the rule of a host or of a route has no such method or path, or takes https: alone."},
    "route": {"type": "string", "description": "The rule of `network.routes` that was used."},
    "requests": {"type": "integer", "minimum": 2, "description": "So many requests, since this was told last; else one."},
    "omitted": {"type": "integer", "minimum": 1, "description": "So many requests before this one have no event."}},
    "optional": ["route", "requests", "omitted"]},
"egress_closed": {"means": "A request to a host, or a tunnel, has ended.", "members": {
    "host": {"type": "string", "description": "The host, as a name or an address."},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Its port."},
    "bytesUp": {"type": "integer", "minimum": 0, "description": "Bytes that the host got."},
    "bytesDown": {"type": "integer", "minimum": 0, "description": "Bytes that came from it."},
    "ms": {"type": "integer", "minimum": 0, "description": "How long it took."},
    "route": {"type": "string", "description": "The rule of `network.routes` that was used."},
    "requests": {"type": "integer", "minimum": 2, "description": "The numbers are sums of so many requests, since this was told last; else of one."},
    "omitted": {"type": "integer", "minimum": 1, "description": "So many requests before this one have no event."}},
    "optional": ["route", "requests", "omitted"]},
"egress_request": {"means": "A program inside asks for a host that is not listed, and waits up to 60 s for a decision (decideEgress).", "members": {
    "id": {"type": "string", "description": "The id of the request, for the decision."},
    "host": {"type": "string", "description": "The host that is asked for, as a name or an address. Its name has not been looked up."},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "The port that is asked for."}}},
"egress_resolved": {"means": "A request for a host waits no longer.", "members": {
    "id": {"type": "string", "description": "The `id` of its egress_request."},
    "decision": {"enum": ["once", "always", "deny"], "description": "once: it may go. always: `network.allow` lists it now. deny: it is refused, also because nobody decided in time, the rules have changed or the sandbox has ended."}}},
"permission_request": {"means": "The agent waits for a permission to use a tool. An answer is POST `permissions/{id}` or a PermissionFrame.", "members": {
    "id": {"type": "string", "description": "Names the request in an answer."},
    "toolUseId": {"type": "string", "description": "The `id` of the tool_use; empty: of none."},
    "options": {"type": "array", "description": "What can be answered.", "items": {"type": "object", "properties": {
        "optionId": {"type": "string", "description": "Names the option in an answer."},
        "name": {"type": "string", "description": "The option, for people."},
        "kind": {"type": "string", "description": "allow_once, allow_always, reject_once or reject_always."}}}}}},
"permission_resolved": {"means": "A permission was decided.", "members": {
    "id": {"type": "string", "description": "The `id` of the permission_request."},
    "outcome": {"enum": ["allowed", "denied", "cancelled"], "description": "cancelled: the agent was told so, and takes it for a refusal."},
    "reason": {"enum": ["answered", "policy", "timeout", "unattended", "withdrawn", "turn_ended"], "description": "answered: by a client. policy: that of the agent. timeout: nobody answered in time. unattended: nobody followed the conversation. withdrawn: the agent does not ask any more. turn_ended: its turn was interrupted or is over."},
    "optionId": {"type": "string", "description": "The option that was chosen."}},
    "optional": ["optionId"]},
"plan": {"means": "The plan of the agent as it is now, in place of an earlier one.", "members": {
    "entries": {"type": "array", "items": {}, "description": "The steps, as the agent tells them: `content`, `status` and `priority` in ACP."}}},
"files_changed": {"means": "A tool changed files in the workspace.", "members": {
    "changedFiles": {"type": "array", "items": {"type": "string"}, "description": "Their absolute paths in the sandbox, as in the result of the tool."},
    "toolCallId": {"type": "string", "description": "The `toolCallId` of the call's context."}},
    "optional": ["toolCallId"]},
"tool_progress": {"means": "A call of a tool takes long: how far it is, now and then, and how it ended.", "members": {
    "toolCallId": {"type": ["string", "null"], "description": "The `toolCallId` of the call's context, or null."},
    "toolName": {"type": "string", "description": "The tool."},
    "status": {"enum": ["running", "completed", "failed"], "description": "running: it is at work. The others: it has ended; failed, too, if the call broke off."},
    "progress": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": "The part that is done; null: not known."},
    "message": {"type": "string", "description": "How far it is, for people; may be empty."}}}
})json";

struct ErrorEvent {
    std::string_view codes;
    std::string_view means;
};
// The rows of docs/errors.md; a test compares them.
constexpr std::array k_error_events = std::to_array<ErrorEvent>({
    {"`agent_crashed`", "the agent ended in the turn, or its stream broke"},
    {"`agent_error`", "a coding agent ended its turn with an error, which `message` is"},
    {"`agent_failed`",
     "the agent could not be started, or a coding agent ended in the turn; `message` ends with what it said "
     "last"},
    {"`agent_protocol`", "the agent wrote a line that is no event; the line is dropped"},
    {"`bridge_failed`", "the sandbox broke the protocol"},
    {"`conversation_deleted`, `conversation_ended`", "the conversation was deleted; its time was up"},
    {"`disk_limit`, `oom`", "the sandbox was ended for its limit"},
    {"`exec_failed`", "the shell could not be run"},
    {"`interrupt_ignored`", "the agent did not end the turn in time after an interrupt"},
    {"`line_too_long`", "the agent wrote a line over 1 MiB; the line is dropped"},
    {"`no_agent`, `not_ready`", "no agent runs, or it is not ready"},
    {"`paused`", "the conversation was paused or evicted in the turn"},
    {"`process_limit`",
     "no process could be started for the command, also after what earlier turns left running was ended"},
    {"`sandbox_crashed`, `sandbox_failed`", "the sandbox ended, or could not be started"},
    {"`server_restart`, `server_shutdown`", "the server crashed in the turn; it was stopped"},
    {"`turn_in_progress`", "the agent is still busy with another turn"},
});

/// "turn_start" as "TurnStartEvent".
std::string schema_name(std::string_view type) {
    std::string name;
    bool begins_word = true;
    for (const char c : type) {
        if (c != '_')
            name += begins_word ? static_cast<char>(c - 'a' + 'A') : c;
        begins_word = c == '_';
    }
    return name + "Event";
}

Schema data_schema(const Schema& text) {
    Schema data{{"type", "object"}, {"description", "What it says."}};
    if (text.value("open", false))
        data["additionalProperties"] = true;
    const Schema optional = text.value("optional", Schema::array());
    Schema required = Schema::array();
    for (const auto& [member, schema] : text["members"].items()) {
        data["properties"][member] = schema;
        if (std::find(optional.begin(), optional.end(), member) == optional.end())
            required.push_back(member);
    }
    if (!required.empty())
        data["required"] = std::move(required);
    return data;
}

Schema event_schema(const std::string& type, const Schema& text) {
    Schema event = Schema::parse(R"json({"type": "object", "description": "", "properties": {
        "seq": {"type": "integer", "minimum": 1, "description": "Its number in the log, without gaps."},
        "type": {"description": "The type."},
        "at": {"type": "string", "format": "date-time", "description": "The server's time, UTC."},
        "turn": {"type": ["string", "null"], "description": "The turn that it belongs to."}},
        "required": ["seq", "type", "at", "turn", "data"]})json");
    event["description"] = text["means"];
    event["properties"]["type"]["const"] = type;
    event["properties"]["data"] = data_schema(text);
    return event;
}

}  // namespace

void add_event_schemas(Schema& out) {
    Schema any = Schema::array();
    Schema mapping;
    const Schema types = Schema::parse(k_data);
    for (const auto& [type, text] : types.items()) {
        const std::string name = schema_name(type);
        out[name] = event_schema(type, text);
        mapping[type] = "#/components/schemas/" + name;
        any.push_back({{"$ref", mapping[type]}});
    }
    Schema& code = out["ErrorEvent"]["properties"]["data"]["properties"]["code"]["description"];
    std::string means = code;
    for (const ErrorEvent& one : k_error_events)
        means.append("\n- ").append(one.codes).append(": ").append(one.means);
    code = means;
    out["Event"] = Schema{{"description", "An entry of a conversation's log."},
                          {"oneOf", std::move(any)},
                          {"discriminator", {{"propertyName", "type"}, {"mapping", std::move(mapping)}}}};
}

}  // namespace atl::http
