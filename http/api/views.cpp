#include "http/api/views.hpp"

#include <type_traits>

#include "http/api/network_form.hpp"
#include "http/api/preview_form.hpp"

namespace atl::http {
namespace {

void write_limits(base::JsonWriter& json, const sandbox::Limits& limits) {
    json.begin_object();
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        json.key(limit.api).number(limits.*limit.value);
    json.end_object();
}

void write_text_or_null(base::JsonWriter& json, std::string_view text) {
    if (text.empty())
        json.null();
    else
        json.string(text);
}

void write_fields(base::JsonWriter& json, const auto& table, const auto& record) {
    base::each_row(table, [&](const auto& row) {
        const auto& value = record.*row.value;
        json.key(row.api);
        if constexpr (std::is_same_v<decltype(value), const std::string&>)
            write_text_or_null(json, value);
        else
            json.number(value);
    });
}

template <class T>
void write_number_or_null(base::JsonWriter& json, const std::optional<T>& number) {
    if (number)
        json.number(*number);
    else
        json.null();
}

void write_pressure(base::JsonWriter& json, const std::optional<sandbox::Pressure>& pressure) {
    if (!pressure) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("someUs").number(pressure->some_usec);
    json.key("fullUs").number(pressure->full_usec);
    json.end_object();
}

std::uint64_t bytes_of_mb(std::uint32_t megabytes) {
    return std::uint64_t{megabytes} * 1024 * 1024;
}

void write_open_ports(base::JsonWriter& json, const conversation::PortUrls& ports) {
    json.begin_array();
    for (const auto& [port, url] : ports) {
        json.begin_object().key("port").number(port);
        write_text_or_null(json.key("url"), url);
        json.end_object();
    }
    json.end_array();
}

void write_tools(base::JsonWriter& json, const sandbox::ToolSettings& tools) {
    json.begin_object();
    for (const sandbox::ToolSettingEntry& setting : sandbox::k_tool_settings)
        json.key(setting.api).raw(tools.*setting.value ? "true" : "false");
    json.end_object();
}

}  // namespace

void write_enforcement(base::JsonWriter& json, const sandbox::Enforcement& enforcement) {
    json.begin_object();
    for (const sandbox::EnforcementEntry& entry : sandbox::k_enforcement_table)
        json.key(entry.api).string(enforcement.*entry.by);
    json.end_object();
}

void write_open_turn(base::JsonWriter& json, const std::optional<conversation::OpenTurn>& turn,
                     TurnContent content) {
    if (!turn) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("turn").string(conversation::turn_name(turn->turn));
    json.key("startedAt").string(base::rfc3339(turn->started_at));
    if (content == TurnContent::written && turn->start)
        json.key("content").raw(conversation::start_content(*turn->start));
    json.end_object();
}

std::string preview_url(const PublicUrl& url, const std::string& sandbox_id, sandbox::NetworkMode network,
                        const sandbox::PreviewSettings& preview) {
    return url && sandbox::has_own_net(network) ? url(sandbox_id, preview.ports.front()) : "";
}

void write_conversation(base::JsonWriter& json, const conversation::View& view, TurnContent content,
                        const PublicUrl& url) {
    const auto& record = view.record;
    json.begin_object();
    json.key("id").string(record.id);
    write_fields(json, conversation::k_client_fields, record);
    json.key("agent").string(record.agent);
    json.key("status").string(to_string(record.status));
    write_text_or_null(json.key("statusReason"), to_string(record.reason));
    json.key("userId").string_or_null(record.user_id);
    json.key("sandboxId").string(record.sandbox_id);
    json.key("generation").number(view.generation);
    json.key("sandboxStatus").string(to_string(view.sandbox_status));
    json.key("sandboxCreatedAt").string(base::rfc3339(view.sandbox_created_at));
    write_text_or_null(json.key("sandboxPublicUrl"),
                       record.status == conversation::Status::ended
                           ? ""
                           : preview_url(url, record.sandbox_id, view.network.mode, view.preview));
    write_open_ports(json.key("openPorts"), view.open_ports);
    write_open_turn(json.key("openTurn"), view.open_turn, content);
    write_limits(json.key("limits"), view.limits);
    write_network(json.key("network"), view.network);
    write_preview(json.key("preview"), view.preview);
    write_tools(json.key("tools"), record.tools);
    json.key("metadata").raw(record.metadata.empty() ? "{}" : record.metadata);
    json.key("ttlSeconds").number(record.ttl_seconds);
    json.key("createdAt").string(base::rfc3339(record.created_at));
    json.key("lastActiveAt").string(base::rfc3339(record.last_active_at));
    json.key("logEpoch").string(view.log_epoch);
    json.key("firstSeq").number(record.first_seq);
    json.key("lastSeq").number(record.last_seq);
    write_enforcement(json.key("enforcement"), view.enforcement);
    json.end_object();
}

void write_sandbox(base::JsonWriter& json, const conversation::Manager::SandboxView& view,
                   const PublicUrl& url) {
    const auto& record = view.record;
    // A sandbox without a conversation has one generation.
    const bool has_ended = record.conversation_id.empty() && (view.status == sandbox::Status::terminated ||
                                                              view.status == sandbox::Status::failed);
    json.begin_object();
    json.key("id").string(record.id);
    write_text_or_null(json.key("conversationId"), record.conversation_id);
    json.key("userId").string_or_null(record.user_id);
    json.key("generation").number(record.generation);
    json.key("status").string(to_string(view.status));
    write_text_or_null(json.key("statusReason"), to_string(view.reason));
    write_text_or_null(json.key("sandboxPublicUrl"),
                       has_ended ? "" : preview_url(url, record.id, record.network, record.preview));
    write_open_ports(json.key("openPorts"), view.open_ports);
    write_limits(json.key("limits"), record.limits);
    write_network(json.key("network"), {record.network, record.egress});
    write_preview(json.key("preview"), record.preview);
    if (record.conversation_id.empty())
        write_tools(json.key("tools"), record.tools);
    else
        json.key("tools").null();
    json.key("metadata").raw(record.metadata.empty() ? "{}" : record.metadata);
    write_fields(json, sandbox::k_client_fields, record);
    json.key("createdAt").string(base::rfc3339(record.created_at));
    write_enforcement(json.key("enforcement"), view.enforcement);
    json.end_object();
}

std::string conversation_json(const conversation::View& view, const PublicUrl& url) {
    std::string out;
    base::JsonWriter json(out);
    write_conversation(json, view, TurnContent::written, url);
    return out;
}

std::string sandbox_usage_json(const conversation::Manager::SandboxUsage& report) {
    std::string out;
    base::JsonWriter json(out);
    const sandbox::Usage& usage = report.usage;
    const sandbox::Limits& limits = report.view.record.limits;
    json.begin_object();
    json.key("at").string(base::rfc3339(report.at));
    json.key("generation").number(report.view.record.generation);
    json.key("status").string(to_string(report.view.status));
    json.key("memory").begin_object();
    write_number_or_null(json.key("usedBytes"), usage.memory_bytes);
    json.key("limitBytes").number(bytes_of_mb(report.memory_limit_mb));
    write_number_or_null(json.key("peakBytes"), usage.memory_peak_bytes);
    json.end_object();
    json.key("cpu").begin_object();
    write_number_or_null(json.key("usageUs"), usage.cpu_usec);
    json.key("limitPercent").number(limits.cpu_percent);
    json.end_object();
    write_number_or_null(json.key("processes"), usage.processes);
    json.key("maxProcesses").number(limits.max_processes);
    write_number_or_null(json.key("sockets"), usage.sockets);
    json.key("maxSockets").number(limits.max_sockets);
    json.key("disk").begin_object();
    write_number_or_null(json.key("usedBytes"),
                         report.disk ? std::optional(report.disk->bytes) : std::nullopt);
    write_number_or_null(json.key("inodes"), report.disk ? std::optional(report.disk->inodes) : std::nullopt);
    json.key("limitBytes").number(bytes_of_mb(limits.disk_mb));
    json.end_object();
    json.key("pressure").begin_object();
    write_pressure(json.key("memory"), usage.memory_pressure);
    write_pressure(json.key("cpu"), usage.cpu_pressure);
    write_pressure(json.key("io"), usage.io_pressure);
    json.end_object();
    json.end_object();
    return out;
}

std::string log_page_json(const sandbox::LogPage& page) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("entries").begin_array();
    for (const sandbox::LogEntry& entry : page.entries) {
        json.begin_object();
        json.key("seq").number(entry.seq);
        json.key("at").string(base::rfc3339(entry.at));
        json.key("stream").string(to_string(entry.stream));
        json.key("generation").number(entry.generation);
        json.key("text").string(entry.text);
        json.end_object();
    }
    json.end_array();
    json.key("firstSeq").number(page.first_seq);
    json.key("next").number(page.next);
    json.end_object();
    return out;
}

std::string sandbox_json(const conversation::Manager::SandboxView& view, const PublicUrl& url) {
    std::string out;
    base::JsonWriter json(out);
    write_sandbox(json, view, url);
    return out;
}

}  // namespace atl::http
