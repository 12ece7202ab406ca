// Schemas of what tells of the server itself, and of its problems.
#include "http/access/limit_ceilings.hpp"
#include "http/api/schema_parts.hpp"
#include "http/server/problem.hpp"

namespace atl::http {
namespace {

using base::Errc;

/// All codes, the sentence of each in the description.
Schema error_code() {
    Schema out = text();
    std::string means = "The stable word of an error: decide by it. `docs/errors.md` says what to do.";
    for (int number = 0; number <= static_cast<int>(Errc::internal); ++number) {
        const auto code = static_cast<Errc>(number);
        out["enum"].push_back(base::code_name(code));
        means.append("\n- `").append(base::code_name(code)).append("` (");
        means.append(std::to_string(status_of(code))).append("): ").append(meaning_of(code));
    }
    return described(std::move(out), means);
}

Schema problem_schema() {
    Schema out = object(
        Members::required,
        {{"type", "A relative reference to the code's section of the documentation; as stable as `code`.",
          text()},
         {"title", "The name of the status.", text()},
         {"status", "The status of the response.", counter()},
         {"detail", "What is wrong and what to do, for people; may change.", text()},
         {"code", "The stable word of the error.", ref("ErrorCode")},
         {"pointer", "The JSON pointer (RFC 6901) of the member of the body that is at fault, if one is.",
          text()},
         {"budget",
          "Of user_share, and of capacity where all users share the bound: its name in `budgets` of "
          "`/v1/system`, or `host_memory`, the memory of the host.",
          text()},
         {"logEpoch", "Of log_replaced only: the epoch of the log that is there.", text()},
         {"firstSeq", "Of log_replaced only: the number of the first event that it has.", counter()},
         {"requestId", "Names the request in the server's log.", text()}});
    out["required"] = {"type", "title", "status", "detail", "code", "requestId"};
    return described(std::move(out), "An error (RFC 9457).");
}

Schema budget() {
    Schema used = counter();
    used["type"] = {"integer", "null"};
    return object(
        Members::required,
        {{"name", "The word that refusals name it with.", text()},
         {"unit", "The unit of the numbers.", text()},
         {"total", "The most that all users have together.", counter()},
         {"floor", "How much a user may have whatever the share is, while there is as much.", counter()},
         {"used", "How much all users have now; null for a key with a user.", std::move(used)},
         {"own", "How much the user of the key has now, or a key without a user for itself.", counter()},
         {"freedBy", "What gives room back, for people.", text()}});
}

Schema capacity() {
    return object(
        Members::required,
        {{"livingSandboxes", "Sandboxes with processes.", counter()},
         {"maxSandboxes", "The most of them that there may be.", counter()},
         {"conversations", "Conversations that have not ended, and sandboxes without one.", counter()},
         {"maxConversations", "The most of them that there may be.", counter()},
         {"maxConversationsPerUser", "The most conversations that one user may have.", counter()},
         {"memoryMb", "The memory limits of all living sandboxes together, in MB of 1,048,576 bytes.",
          counter()},
         {"maxMemoryMb", "The most MB that they may be; null: no bound.", nullable_counter()}});
}

Schema histogram() {
    return object(Members::required, {{"count", "How often it was measured.", counter()},
                                      {"p50", "Microseconds that half of them did not exceed.", counter()},
                                      {"p99", "Microseconds that 99 % did not exceed.", counter()},
                                      {"p999", "Microseconds that 99.9 % did not exceed.", counter()},
                                      {"max", "The most microseconds.", counter()}});
}

Schema ceilings() {
    Schema out = limits_schema(Members::required);
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        Schema& property = out["properties"][std::string(limit.api)];
        const std::string means = property["description"];
        property = described(nullable_counter(), means + " Null: no ceiling.");
    }
    return out;
}

Schema client_limits() {
    return object(Members::required,
                  {{"connectionsPerAddress", "Connections of an address at one time.", nullable_counter()},
                   {"requestsPerSecondPerAddress", "Requests of an address in a second.", nullable_counter()},
                   {"requestsPerSecondPerKey", "Requests of a key in a second.", nullable_counter()},
                   {"failedLoginsPerMinute", "Failed logins of an address in a minute.", nullable_counter()},
                   {"streamsPerConversation", "Streams of a conversation at one time.", nullable_counter()},
                   {"streamsPerKey", "Streams of a key at one time.", nullable_counter()}});
}

Schema undying() {
    return object(
        Members::required,
        {{"sandboxId", "The sandbox; null: left by an earlier run of the server, and not known.",
          nullable_text()},
         {"generation", "Which start of it.", counter()},
         {"since", "When it was told to end.", time()},
         {"processes", "Processes that are left; null: this host does not count them.", nullable_counter()}});
}

void add_system_parts(Schema& out) {
    out["Capacity"] = described(capacity(), "What is in use, and how much there may be.");
    out["Budget"] = described(budget(), "A bound that all users share.");
    out["Pool"] = described(object(Members::required, {{"agent", "The agent of these sandboxes.", text()},
                                                       {"size", "How many are kept started.", counter()},
                                                       {"ready", "How many are ready now.", counter()}}),
                            "Sandboxes that wait for a conversation.");
    out["Histogram"] = described(histogram(), "Durations in microseconds.");
    out["Loop"] =
        object(Members::required,
               {{"latenessUs", "How late the loop was, in microseconds.", ref("Histogram")},
                {"handlerCpuUs", "Processor time of each handler, in microseconds.", ref("Histogram")}});
    out["Loop"]["type"] = {"object", "null"};
    out["Loop"]["description"] = "The server's loop; null unless it was started with `--measure-loop`.";
    out["Undying"] =
        described(undying(), "Processes of a sandbox that do not end although they were killed.");
    out["ClientLimits"] = described(client_limits(), "How much one client may ask for; null is no limit.");
    out["LimitCeilings"] =
        described(ceilings(), "The highest limits of a sandbox that the key of the request may ask for.");
}

}  // namespace

void add_server_schemas(Schema& out) {
    out["ErrorCode"] = error_code();
    out["Problem"] = problem_schema();
    out["Health"] = described(object(Members::required, {{"status", "A word: `ok`, or `ready`.", text()}}),
                              "The server answers.");
    add_system_parts(out);
    Schema gaps = any_object();
    gaps["additionalProperties"] = text();
    out["ConsoleParts"] = described(
        object(Members::required,
               {{"terminal",
                 "Whether it has a terminal. A build has one if `scripts/setup` could fetch the npm package.",
                 flag()}}),
        "What the web console has.");
    out["EgressOffer"] = described(
        object(Members::required,
               {{"groups", "The groups of hosts that a list may have, each as `@NAME`.", list_of(text())}}),
        "What the operator made for the network `egress`.");
    Schema agent =
        object(Members::optional,
               {{"name", "The name, as in a create.", text()},
                {"adapter", "How it is spoken to.", one_of({"built-in", "lines", "acp", "stream-json"})},
                {"installed", "Whether a create may name it now.", flag()},
                {"reason", "Why not.", text()},
                {"setup", "The command that installs it.", text()}},
               {"name", "adapter", "installed"});
    out["AgentList"] = described(
        object(Members::required, {{"agents", "Agents of this server.",
                                    list_of(described(std::move(agent), "An agent of this server."))}}),
        "The agents that a conversation may have.");
    out["System"] = described(
        object(
            Members::required,
            {{"version", "The version of the server.", text()},
             {"bubblewrap", "The version of bubblewrap, such as 0.8.0.", text()},
             {"agents", "The agents that a conversation may have.", list_of(text())},
             {"defaultAgent", "The agent of a conversation that names none.", text()},
             {"console", "What the web console of this build has.", ref("ConsoleParts")},
             {"networks", "The networks that a request with this key may ask for.",
              list_of(ref("NetworkMode"))},
             {"egress", "What a request for the network `egress` may name.", ref("EgressOffer")},
             {"codeMode", "The languages in which programs of code mode can run now.", list_of(text())},
             {"enforcement", "What enforces limits on this host.", ref("Enforcement")},
             {"notEnforced", "Limits that this host does not enforce, each with the reason.",
              std::move(gaps)},
             {"capacity", "What is in use, and how much there may be.", ref("Capacity")},
             {"userSharePercent", "How much of what the others leave of a budget one user may have.",
              counter()},
             {"budgets", "Bounds that all users share.", list_of(ref("Budget"))},
             {"pool", "Sandboxes that wait for a conversation, by agent.", list_of(ref("Pool"))},
             {"orphans", "Workspaces without a record, as the start found them.", counter()},
             {"undying", "Processes that do not end; none for a key with a user.", list_of(ref("Undying"))},
             {"warmPause", "What freezes sandboxes; none: a warm pause is a cold one.",
              one_of({"cgroup2", "cgroup1", "none"})},
             {"clientLimits", "How much one client may ask for.", ref("ClientLimits")},
             {"limitCeilings", "The highest limits that this key may ask for.", ref("LimitCeilings")},
             {"loop", "How late the server is.", ref("Loop")}}),
        "What the server is and has.");
    out["OpenApi"] = described(any_object(), "An OpenAPI document.");
    out["DocsPage"] = described(text(), "A page of HTML.");
    out["ConsoleFile"] = described(text(), "A file of the web console.");
    out["Metrics"] = described(text(), "Metrics in the text format of Prometheus.");
}

}  // namespace atl::http
