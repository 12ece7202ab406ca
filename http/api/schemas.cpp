// The component schemas of the OpenAPI document. Ranges come from forms.hpp and core/base/limits.hpp, so the
// document has the ranges that the server checks; tests compare the fields with the forms and the views.
#include "http/access/limit_ceilings.hpp"
#include "http/api/forms.hpp"
#include "http/api/openapi.hpp"

namespace atl::http {
namespace {

using OrderedJson = nlohmann::ordered_json;

enum class Members : std::uint8_t { optional, required };

OrderedJson integer(IntRange range) {
    return OrderedJson{{"type", "integer"}, {"minimum", range.least}, {"maximum", range.most}};
}

OrderedJson counter() {
    return OrderedJson{{"type", "integer"}, {"minimum", 0}};
}
OrderedJson text() {
    return OrderedJson{{"type", "string"}};
}
OrderedJson nullable_counter() {
    OrderedJson out = counter();
    out["type"] = OrderedJson::array({"integer", "null"});
    return out;
}

OrderedJson nullable_text() {
    return OrderedJson{{"type", {"string", "null"}}};
}
OrderedJson time() {
    return OrderedJson{{"type", "string"}, {"format", "date-time"}};
}
OrderedJson any_object() {
    return OrderedJson{{"type", "object"}};
}
OrderedJson list_of(OrderedJson items) {
    return OrderedJson{{"type", "array"}, {"items", std::move(items)}};
}
OrderedJson ref(const std::string& name) {
    return OrderedJson{{"$ref", "#/components/schemas/" + name}};
}

OrderedJson text_up_to(std::size_t bytes) {
    return OrderedJson{{"type", "string"}, {"minLength", 1}, {"maxLength", bytes}};
}

OrderedJson one_of(std::initializer_list<const char*> words) {
    OrderedJson list = OrderedJson::array();
    for (const char* word : words)
        list.push_back(word);
    return OrderedJson{{"enum", std::move(list)}};
}

OrderedJson object(Members members, std::initializer_list<std::pair<const char*, OrderedJson>> properties) {
    OrderedJson out{{"type", "object"}};
    OrderedJson names = OrderedJson::array();
    for (const auto& [name, schema] : properties) {
        out["properties"][name] = schema;
        names.push_back(name);
    }
    if (members == Members::required)
        out["required"] = std::move(names);
    else
        out["additionalProperties"] = false;
    return out;
}

OrderedJson ceilings() {
    OrderedJson out = object(Members::required, {});
    for (const LimitName& limit : limit_names()) {
        out["properties"][std::string(limit.api)] = nullable_counter();
        out["required"].push_back(limit.api);
    }
    return out;
}

OrderedJson network() {
    return one_of({"none", "host"});
}

OrderedJson environment() {
    return OrderedJson{{"type", "object"},
                       {"maxProperties", base::k_max_env_entries},
                       {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
                       {"additionalProperties", text()}};
}

OrderedJson message_content() {
    OrderedJson part =
        object(Members::optional, {{"type", OrderedJson{{"const", "text"}}}, {"text", text()}});
    part["required"] = {"type", "text"};
    OrderedJson parts = list_of(std::move(part));
    parts["minItems"] = 1;
    OrderedJson content;
    content["oneOf"] = {text_up_to(base::k_max_body_bytes), std::move(parts)};
    return content;
}

void add_requests(OrderedJson& out) {
    out["LimitChanges"] = object(Members::optional, {{"memoryMb", integer(k_memory_mb_range)},
                                                     {"cpuPercent", integer(k_cpu_percent_range)},
                                                     {"diskMb", integer(k_disk_mb_range)},
                                                     {"maxProcesses", integer(k_max_processes_range)},
                                                     {"maxSockets", integer(k_max_sockets_range)},
                                                     {"maxOpenFiles", integer(k_max_open_files_range)}});
    out["CreateConversation"] = object(Members::optional, {{"agent", text_up_to(k_max_agent_name_bytes)},
                                                           {"userId", text_up_to(base::k_max_user_id_bytes)},
                                                           {"metadata", any_object()},
                                                           {"env", environment()},
                                                           {"limits", ref("LimitChanges")},
                                                           {"network", network()},
                                                           {"idleSeconds", integer(k_seconds_range)},
                                                           {"ttlSeconds", integer(k_seconds_range)}});
    out["PatchConversation"] = object(Members::optional, {{"metadata", any_object()},
                                                          {"limits", ref("LimitChanges")},
                                                          {"idleSeconds", integer(k_seconds_range)},
                                                          {"ttlSeconds", integer(k_seconds_range)}});
    out["CreateStreamToken"] = object(
        Members::optional, {{"ttlSeconds", integer(k_token_ttl_range)}, {"scope", one_of({"read", "chat"})}});
    out["CreateStreamToken"]["properties"]["ttlSeconds"]["default"] = base::k_default_token_ttl.count();
    out["CreateStreamToken"]["properties"]["scope"]["default"] = "read";
    out["PauseConversation"] = object(Members::optional, {{"mode", one_of({"cold", "warm"})}});
    out["PauseConversation"]["properties"]["mode"]["default"] = "cold";
    out["CreateSandbox"] = object(Members::optional, {{"metadata", any_object()},
                                                      {"env", environment()},
                                                      {"limits", ref("LimitChanges")},
                                                      {"network", network()},
                                                      {"ttlSeconds", integer(k_seconds_range)}});
    out["PostMessage"] = object(Members::optional, {{"content", message_content()}});
    out["PostMessage"]["required"] = OrderedJson::array({"content"});
}

void add_parts(OrderedJson& out) {
    out["Limits"] = object(Members::required, {{"memoryMb", integer(k_memory_mb_range)},
                                               {"cpuPercent", integer(k_cpu_percent_range)},
                                               {"diskMb", integer(k_disk_mb_range)},
                                               {"maxProcesses", integer(k_max_processes_range)},
                                               {"maxSockets", integer(k_max_sockets_range)},
                                               {"maxOpenFiles", integer(k_max_open_files_range)}});
    out["Enforcement"] = object(Members::required, {{"filesystem", text()},
                                                    {"network", text()},
                                                    {"syscalls", text()},
                                                    {"uid", text()},
                                                    {"memory", text()},
                                                    {"cpu", text()},
                                                    {"processes", text()},
                                                    {"sockets", one_of({"count", "none"})},
                                                    {"disk", text()}});
    out["ConversationStatus"] = one_of({"starting", "active", "paused", "ended", "error"});
    out["SandboxStatus"] = one_of({"pending", "ready", "frozen", "failed", "terminated"});
    out["StatusReason"] = one_of({"user", "idle", "oom", "disk", "crash", "evicted", "server_restart"});
    out["StatusReason"]["enum"].push_back(nullptr);
}

void add_resources(OrderedJson& out) {
    out["Conversation"] = object(Members::required, {{"id", text()},
                                                     {"agent", text()},
                                                     {"status", ref("ConversationStatus")},
                                                     {"statusReason", ref("StatusReason")},
                                                     {"userId", nullable_text()},
                                                     {"sandboxId", text()},
                                                     {"generation", counter()},
                                                     {"sandboxStatus", ref("SandboxStatus")},
                                                     {"sandboxCreatedAt", time()},
                                                     {"sandboxPublicUrl", nullable_text()},
                                                     {"limits", ref("Limits")},
                                                     {"network", network()},
                                                     {"metadata", any_object()},
                                                     {"idleSeconds", integer(k_seconds_range)},
                                                     {"ttlSeconds", integer(k_seconds_range)},
                                                     {"createdAt", time()},
                                                     {"lastActiveAt", time()},
                                                     {"firstSeq", counter()},
                                                     {"lastSeq", counter()},
                                                     {"enforcement", ref("Enforcement")}});
    out["Sandbox"] = object(Members::required, {{"id", text()},
                                                {"conversationId", nullable_text()},
                                                {"generation", counter()},
                                                {"status", ref("SandboxStatus")},
                                                {"sandboxPublicUrl", nullable_text()},
                                                {"limits", ref("Limits")},
                                                {"network", network()},
                                                {"metadata", any_object()},
                                                {"ttlSeconds", integer(k_seconds_range)},
                                                {"createdAt", time()},
                                                {"enforcement", ref("Enforcement")}});
    out["Pressure"] = object(Members::required, {{"someUs", counter()}, {"fullUs", counter()}});
    out["Pressure"]["type"] = {"object", "null"};
    out["SandboxMetrics"] = object(
        Members::required,
        {{"at", time()},
         {"generation", counter()},
         {"status", ref("SandboxStatus")},
         {"memory", object(Members::required, {{"usedBytes", nullable_counter()},
                                               {"limitBytes", counter()},
                                               {"peakBytes", nullable_counter()}})},
         {"cpu", object(Members::required, {{"usageUs", nullable_counter()}, {"limitPercent", counter()}})},
         {"processes", nullable_counter()},
         {"maxProcesses", counter()},
         {"sockets", nullable_counter()},
         {"maxSockets", counter()},
         {"disk", object(Members::required, {{"usedBytes", nullable_counter()},
                                             {"inodes", nullable_counter()},
                                             {"limitBytes", counter()}})},
         {"pressure",
          object(Members::required,
                 {{"memory", ref("Pressure")}, {"cpu", ref("Pressure")}, {"io", ref("Pressure")}})}});
    out["SandboxLogEntry"] = object(Members::required, {{"seq", counter()},
                                                        {"at", time()},
                                                        {"stream", one_of({"output", "system"})},
                                                        {"generation", counter()},
                                                        {"text", text()}});
    out["SandboxLog"] =
        object(Members::required,
               {{"entries", list_of(ref("SandboxLogEntry"))}, {"firstSeq", counter()}, {"next", counter()}});
    out["ConversationPage"] = object(
        Members::required, {{"conversations", list_of(ref("Conversation"))}, {"next", nullable_text()}});
    out["SandboxPage"] =
        object(Members::required, {{"sandboxes", list_of(ref("Sandbox"))}, {"next", nullable_text()}});
}

void add_events(OrderedJson& out) {
    out["Event"] = object(Members::required, {{"seq", counter()},
                                              {"type", text()},
                                              {"at", time()},
                                              {"turn", nullable_text()},
                                              {"data", any_object()}});
    out["EventPage"] = object(Members::required, {{"events", list_of(ref("Event"))}, {"next", counter()}});
    out["EventStream"] = text();
    out["EventStream"]["description"] =
        "Server-Sent Events: `id` is the event's seq, `event` its type, `data` the Event. A stream that ends "
        "early "
        "says so in a `stream_closed` {code, detail, after} without an id.";
    out["ClientFrame"]["oneOf"] =
        OrderedJson::array({object(Members::optional, {{"type", OrderedJson{{"const", "message"}}},
                                                       {"content", message_content()},
                                                       {"idempotencyKey", text()}}),
                            object(Members::required, {{"type", OrderedJson{{"const", "interrupt"}}}})});
    out["Rejected"] =
        object(Members::required,
               {{"type", OrderedJson{{"const", "rejected"}}}, {"code", text()}, {"detail", text()}});
    out["StreamToken"] = object(Members::required, {{"token", text()}, {"expiresAt", time()}});
    out["TurnTicket"] = object(Members::required, {{"turn", text()}, {"after", counter()}});
}

void add_server(OrderedJson& out) {
    out["Problem"] = object(Members::required, {{"title", text()},
                                                {"status", counter()},
                                                {"detail", text()},
                                                {"code", text()},
                                                {"requestId", text()}});
    out["Health"] = object(Members::required, {{"status", text()}});
    out["Capacity"] = object(Members::required, {{"livingSandboxes", counter()},
                                                 {"maxSandboxes", counter()},
                                                 {"conversations", counter()},
                                                 {"maxConversations", counter()},
                                                 {"maxConversationsPerUser", counter()},
                                                 {"memoryMb", counter()},
                                                 {"maxMemoryMb", nullable_counter()}});
    out["Pool"] = object(Members::required, {{"agent", text()}, {"size", counter()}, {"ready", counter()}});
    out["Histogram"] = object(Members::required, {{"count", counter()},
                                                  {"p50", counter()},
                                                  {"p99", counter()},
                                                  {"p999", counter()},
                                                  {"max", counter()}});
    out["Loop"] =
        object(Members::required, {{"latenessUs", ref("Histogram")}, {"handlerCpuUs", ref("Histogram")}});
    out["Loop"]["type"] = {"object", "null"};  // null unless the server was started with --measure-loop
    out["Undying"] = object(Members::required, {{"sandboxId", nullable_text()},
                                                {"generation", counter()},
                                                {"since", time()},
                                                {"processes", nullable_counter()}});
    out["System"] = object(Members::required, {{"version", text()},
                                               {"agents", list_of(text())},
                                               {"defaultAgent", text()},
                                               {"networks", list_of(network())},
                                               {"enforcement", ref("Enforcement")},
                                               {"notEnforced", any_object()},
                                               {"capacity", ref("Capacity")},
                                               {"pool", list_of(ref("Pool"))},
                                               {"orphans", counter()},
                                               {"undying", list_of(ref("Undying"))},
                                               {"warmPause", one_of({"cgroup2", "cgroup1", "none"})},
                                               {"clientLimits", ref("ClientLimits")},
                                               {"limitCeilings", ceilings()},
                                               {"loop", ref("Loop")}});
    out["ClientLimits"] = object(Members::required, {{"connectionsPerAddress", nullable_counter()},
                                                     {"requestsPerSecondPerAddress", nullable_counter()},
                                                     {"requestsPerSecondPerKey", nullable_counter()},
                                                     {"failedLoginsPerMinute", nullable_counter()},
                                                     {"streamsPerConversation", nullable_counter()},
                                                     {"streamsPerKey", nullable_counter()}});
    out["AnyObject"] = any_object();
    out["ConsoleFile"] = text();
    out["Metrics"] = text();
}

}  // namespace

OrderedJson component_schemas() {
    OrderedJson out = OrderedJson::object();
    add_requests(out);
    add_parts(out);
    add_resources(out);
    add_events(out);
    add_server(out);
    return out;
}

}  // namespace atl::http
