// Schemas of conversations and sandboxes, and of what the server reports of a sandbox. The views write them
// (views.cpp).
#include "http/api/forms.hpp"
#include "http/api/openapi.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Property generation() {
    return {"generation", "Counts the starts of the sandbox; 0 before the first.", counter()};
}
Property public_url() {
    return {"sandboxPublicUrl",
            "Where the first port of its preview is shown; null while none is left, and with network `host`.",
            nullable_text()};
}
Property open_ports() {
    return {"openPorts",
            "The TCP ports that its loopback listens on now, as `port_opened` tells them: at most 32.",
            list_of(ref("OpenPort"))};
}
Property limits() {
    return {"limits", "The limits of the sandbox.", ref("Limits")};
}
Property network() {
    return {"network", "The network inside the sandbox.", ref("Network")};
}
Property preview() {
    return {"preview", "What its preview shows, and to whom.", ref("PreviewSettings")};
}
Property metadata() {
    return {"metadata", "What its creator keeps with it.", any_object()};
}
Property enforcement() {
    return {"enforcement", "What enforces its limits on this host.", ref("Enforcement")};
}
Property next_page() {
    return {"next", "The `cursor` of the next page; null: this is the last one.", nullable_text()};
}

void add_words(Schema& out) {
    out["ConversationStatus"] =
        described(one_of({"starting", "active", "paused", "ended", "error"}),
                  "starting: its first sandbox is not ready. active: its sandbox runs. paused: its workspace "
                  "waits for the next message. ended: its time is over, and only its log is left. error: it "
                  "cannot go on.");
    out["SandboxStatus"] =
        described(one_of({"pending", "ready", "frozen", "failed", "terminated"}),
                  "The present generation: pending: it starts. ready: it runs. frozen: its processes are "
                  "stopped and kept. failed: it never became ready. terminated: its processes have ended.");
    Schema reason = one_of({"user", "idle", "oom", "disk", "crash", "evicted", "server_restart", "ttl"});
    reason["type"] = {"string", "null"};
    reason["enum"].push_back(nullptr);
    out["StatusReason"] = described(
        std::move(reason),
        "Why it is paused, or has ended: user: a request. idle: idleSeconds. oom: its memory or its sockets. "
        "disk: "
        "its disk limit. crash: its processes ended. evicted: the server needed room. "
        "server_restart: the server ended. ttl: it has ended, its ttlSeconds are over. null: it is neither.");
}

void add_parts(Schema& out) {
    std::vector<Property> tool_settings;
    for (const conversation::ToolSettingEntry& setting : conversation::k_tool_settings)
        tool_settings.push_back({std::string(setting.api), std::string(setting.means), flag()});
    out["ToolSettings"] =
        described(object(Members::required, tool_settings), "How the tools work in a sandbox.");
    out["Limits"] = described(limits_schema(Members::required), "The limits of a sandbox.");
    std::vector<Property> enforcement;
    for (const sandbox::EnforcementEntry& entry : sandbox::k_enforcement_table)
        enforcement.push_back({std::string(entry.api), std::string(entry.means),
                               entry.api == "sockets" ? one_of({"count", "none"}) : text()});
    out["Enforcement"] = described(object(Members::required, enforcement),
                                   "What enforces each limit on this host; `none`: nothing does.");
    out["OpenPort"] = described(
        object(Members::required,
               {{"port", "Its number.", integer({1, 65'535})},
                {"url", "Where it is shown; null: `preview.ports` does not list it, or it has no address.",
                 nullable_text()}}),
        "A TCP port that the loopback of a sandbox listens on.");
    out["OpenTurn"] =
        object(Members::required, {{"turn", "Its name.", text()},
                                   {"startedAt", "When its message was accepted.", time()},
                                   {"content", "The text of its message. Lists leave it out.", text()}});
    out["OpenTurn"]["required"] = {"turn", "startedAt"};
    out["OpenTurn"]["type"] = {"object", "null"};
    out["OpenTurn"]["description"] = "The turn that is open; null: none is.";
}

Schema conversation() {
    std::vector<Property> properties{
        {"id", "Its id: 20 small letters and digits.", text()},
        {"agent", "The agent that answers.", text()},
        {"status", "Whether it runs.", ref("ConversationStatus")},
        {"statusReason", "Why it is paused, or has ended.", ref("StatusReason")},
        {"userId", "The user of your product that it belongs to; null: none.", nullable_text()},
        {"sandboxId", "The id of its sandbox, which it keeps for life.", text()},
        generation(),
        {"sandboxStatus", "The status of its sandbox.", ref("SandboxStatus")},
        {"sandboxCreatedAt", "When its sandbox was created.", time()},
        public_url(),
        open_ports(),
        {"openTurn", "The turn that is open.", ref("OpenTurn")},
        limits(),
        network(),
        preview(),
        {"tools", "How the tools work in its sandbox.", ref("ToolSettings")},
        metadata(),
        {"ttlSeconds", "Seconds from its creation after which it is ended; 0: never.",
         integer(k_seconds_range)},
        {"createdAt", "When it was created.", time()},
        {"lastActiveAt", "When its last message came, or else when it was created.", time()},
        {"logEpoch",
         "A short word: another one begins when the log is no continuation of what clients have "
         "seen, as after a restored backup.",
         text()},
        {"firstSeq", "The number of the first event that the log still has.", counter()},
        {"lastSeq", "The number of the last event.", counter()},
        enforcement()};
    return object(Members::required,
                  with_fields(conversation::k_client_fields, FieldUse::answer, std::move(properties)));
}

Schema sandbox() {
    return object(
        Members::required,
        with_fields(
            sandbox::k_client_fields, FieldUse::answer,
            {{"id", "Its id: 20 small letters and digits.", text()},
             {"conversationId", "The conversation that it belongs to; null: none.", nullable_text()},
             {"userId", "The user of your product that it belongs to; null: none.", nullable_text()},
             generation(),
             {"status", "Whether it runs.", ref("SandboxStatus")},
             {"statusReason",
              "Why it has ended: oom, disk or crash; null: it has not, its conversation says it, or it "
              "ended before the last start of the server.",
              ref("StatusReason")},
             public_url(),
             open_ports(),
             limits(),
             network(),
             preview(),
             {"tools", "How the tools work in it; null: its conversation says.",
              any_of_these({ref("ToolSettings"), Schema{{"type", "null"}}})},
             metadata(),
             {"createdAt", "When it was created.", time()},
             enforcement()}));
}

Schema usage() {
    return object(
        Members::required,
        {{"at", "When this was measured.", time()},
         generation(),
         {"status", "Whether it runs.", ref("SandboxStatus")},
         {"memory", "Memory of all its processes together.",
          object(
              Members::required,
              {{"usedBytes", "Bytes in use, without files that the kernel only caches.", nullable_counter()},
               {"limitBytes", "The limit in bytes, as it holds now.", counter()},
               {"peakBytes", "The most bytes that this generation used.", nullable_counter()}})},
         {"cpu", "Processor time.",
          object(Members::required, {{"usageUs", "Microseconds of processor time that this generation used.",
                                      nullable_counter()},
                                     {"limitPercent", "The limit, in percent of one core.", counter()}})},
         {"processes", "Processes now; threads count.", nullable_counter()},
         {"maxProcesses", "The limit of processes.", counter()},
         {"sockets", "Sockets now.", nullable_counter()},
         {"maxSockets", "The limit of sockets.", counter()},
         {"disk", "The workspace.",
          object(Members::required, {{"usedBytes", "Bytes in use.", nullable_counter()},
                                     {"inodes", "Files and folders.", nullable_counter()},
                                     {"limitBytes", "The limit in bytes.", counter()}})},
         {"pressure", "How long its processes waited for a resource (PSI of the kernel).",
          object(Members::required, {{"memory", "For memory.", ref("Pressure")},
                                     {"cpu", "For processors.", ref("Pressure")},
                                     {"io", "For disks.", ref("Pressure")}})}});
}

}  // namespace

void add_resource_schemas(Schema& out) {
    add_words(out);
    add_parts(out);
    out["Conversation"] =
        described(conversation(), "One chat of a chat product: an agent, a sandbox and a log of events.");
    out["Sandbox"] = described(sandbox(), "An isolated place with a workspace, a host uid and limits.");
    out["ConversationPage"] =
        described(object(Members::required,
                         {{"conversations", "The conversations of this page.", list_of(ref("Conversation"))},
                          next_page()}),
                  "A page of a list. It may be short, or empty, and still have a next one.");
    out["ErasedUser"] = described(
        object(Members::required, {{"conversations", "How many conversations were removed.", counter()},
                                   {"sandboxes", "How many sandboxes without a conversation.", counter()}}),
        "What was removed of a user.");
    out["SandboxPage"] = described(
        object(Members::required,
               {{"sandboxes", "The sandboxes of this page.", list_of(ref("Sandbox"))}, next_page()}),
        "A page of a list. It may be short, or empty, and still have a next one.");
}

void add_report_schemas(Schema& out) {
    out["Pressure"] = object(Members::required,
                             {{"someUs", "Microseconds in which at least one process waited.", counter()},
                              {"fullUs", "Microseconds in which all processes waited.", counter()}});
    out["Pressure"]["type"] = {"object", "null"};
    out["Pressure"]["description"] = "Time lost by waiting; null: this host does not tell.";
    out["SandboxMetrics"] =
        described(usage(), "What a sandbox uses now. Null is what is not known, as without processes.");
    out["SandboxLogEntry"] = described(
        object(Members::required, {{"seq", "Its number in the log, from 1.", counter()},
                                   {"at", "When it was written.", time()},
                                   {"stream", "output: of a program inside. system: a note of the server.",
                                    one_of({"output", "system"})},
                                   generation(),
                                   {"text", "The line, without its line break.", text()}}),
        "A line of a sandbox's log.");
    out["SandboxLog"] = described(
        object(Members::required, {{"entries", "Its lines.", list_of(ref("SandboxLogEntry"))},
                                   {"firstSeq", "The number of the first line that is left.", counter()},
                                   {"next", "The `after` of the next page.", counter()}}),
        "Lines of a sandbox's log.");
}

}  // namespace atl::http
