// Schemas of what goes over streams and WebSockets, and of what makes them. OpenAPI has no place for frames:
// EventStream and WebSocketFrames say in their descriptions what they stand for.
#include "http/api/forms.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema frame_id() {
    const Schema number{
        {"type", "integer"}, {"minimum", -base::k_max_frame_id}, {"maximum", base::k_max_frame_id}};
    return any_of_these({text_up_to(base::k_max_frame_id_bytes), number});
}
Property own_id() {
    return {"id", "Comes back in the answer. Without it an accepted frame has no answer.", frame_id()};
}
Property after(const char* means) {
    return {"after", means, counter()};
}

Property log_epoch(const char* means) {
    return {"logEpoch", means, text()};
}

/// A schema that accepts any of `schemas`, told apart by `type`.
Schema by_type(std::initializer_list<std::pair<const char*, const char*>> schemas) {
    Schema out;
    for (const auto& [type, name] : schemas) {
        out["oneOf"].push_back(ref(name));
        out["discriminator"]["propertyName"] = "type";
        out["discriminator"]["mapping"][type] = ref(name)["$ref"];
    }
    return out;
}

void add_client_frames(Schema& out) {
    out["MessageFrame"] = described(
        object(Members::optional,
               {{"type", "The type.", constant("message")},
                {"content", "What the agent is asked.", ref("MessageContent")},
                {"idempotencyKey", "Makes sending it again safe: 1 to 256 visible ASCII characters.", text()},
                own_id()},
               {"type", "content"}),
        "Starts a turn.");
    out["InterruptFrame"] = described(
        object(Members::optional, {{"type", "The type.", constant("interrupt")}, own_id()}, {"type"}),
        "Asks the agent to stop the open turn.");
    out["PermissionFrame"] =
        described(object(Members::optional,
                         {{"type", "The type.", constant("permission")},
                          {"permissionId", "The `id` of the permission_request.", text()},
                          {"optionId", "The chosen option; or `outcome`.", text()},
                          {"outcome", "The request is cancelled.", constant("cancelled")},
                          own_id()},
                         {"type", "permissionId"}),
                  "Answers a permission that the agent of the open turn asks for.");
    out["ClientFrame"] = described(by_type({{"message", "MessageFrame"},
                                            {"interrupt", "InterruptFrame"},
                                            {"permission", "PermissionFrame"}}),
                                   "A text frame of a WebSocket's client.");
}

void add_frame_answers(Schema& out) {
    out["Accepted"] = described(
        object(Members::required,
               {{"type", "The type.", constant("accepted")},
                {"id", "The `id` of the frame.", frame_id()},
                {"turn", "The turn that it began, or is about.", text()},
                after("The turn's events, or those after the interrupt, have a greater seq.")}),
        "Answers a client's frame that has an `id`: it is stored, and comes whatever happens to the server.");
    out["Rejected"] =
        described(object(Members::required, {{"type", "The type.", constant("rejected")},
                                             {"id", "The `id` of the frame, if it had one.", frame_id()},
                                             {"code", "The stable word of the error.", ref("ErrorCode")},
                                             {"detail", "What is wrong, for people.", text()}}),
                  "Answers a client's frame that is refused and changes nothing. Where `code` is "
                  "`storage_failed`, the `detail` of a message says whether its turn runs.");
    out["Rejected"]["required"] = {"type", "code", "detail"};
    out["StreamClosed"] = described(
        object(Members::required, {log_epoch("Of a conversation's stream: the epoch of its log."),
                                   {"type", "The type.", constant("stream_closed")},
                                   {"code", "Why, as the stable word of an error.", ref("ErrorCode")},
                                   {"detail", "Why, for people.", text()},
                                   after("The seq of the last event that was sent: go on from there.")}),
        "The last frame of an event stream that the server ends. It has no seq.");
    out["StreamClosed"]["required"] = {"type", "code", "detail", "after"};
}

}  // namespace

void add_frame_schemas(Schema& out) {
    add_client_frames(out);
    add_frame_answers(out);
    out["EventPage"] =
        described(object(Members::required, {log_epoch("The epoch of the log."),
                                             {"events", "Events, the oldest first.", list_of(ref("Event"))},
                                             {"next", "The `after` of the next page.", counter()}}),
                  "Events of a conversation's log.");
    out["EventStream"] = described(
        text(),
        "Server-Sent Events: `id` is the event's seq and the log's epoch, `SEQ-EPOCH`, `data` the Event; "
        "`event`, its type, is there with "
        "`?named=1` only. A stream that the server ends has a StreamClosed without an id as its last frame. "
        "`contentSchema` is that of each `data`.");
    out["EventStream"]["contentMediaType"] = "text/event-stream";
    out["EventStream"]["contentSchema"] = any_of_these({ref("Event"), ref("StreamClosed")});
    out["WebSocketFrames"] = described(
        object(Members::required,
               {{"client", "A text frame of the client.", ref("ClientFrame")},
                {"server", "A text frame of the server: an Event, or the answer to a frame of the client.",
                 any_of_these({ref("Event"), ref("Accepted"), ref("Rejected")})}}),
        "No body: what the text frames of the WebSocket are, each way.");
    out["Transcript"] = described(
        text(), "The transcript: Markdown to read, or one JSON object a line: {role, turn, at, ...}.");
    out["StreamToken"] =
        described(object(Members::required, {{"token", "The token, for `?token=`. It is a secret.", text()},
                                             {"expiresAt", "When its time is over.", time()},
                                             {"url",
                                              "Of scope `preview` only: the address that a browser opens; "
                                              "null: the sandbox has no preview.",
                                              nullable_text()}}),
                  "A token with which a browser opens what its scope names, of one conversation or sandbox.");
    out["StreamToken"]["required"] = {"token", "expiresAt"};
    out["TurnTicket"] = described(object(Members::required, {{"turn", "The name of the turn.", text()},
                                                             after("Its events have a greater seq.")}),
                                  "A turn that has started.");
}

}  // namespace atl::http
