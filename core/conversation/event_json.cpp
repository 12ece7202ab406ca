#include "core/conversation/event_json.hpp"

#include "core/base/json_writer.hpp"

namespace atl::conversation {
namespace {

/// The text of an object with the members that `write` adds.
template <class Write>
std::string object(Write write) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    write(json);
    json.end_object();
    return text;
}

}  // namespace

std::string session_data(const Record& record) {
    return object([&](base::JsonWriter& json) {
        json.key("agent").string(record.agent).key("sandboxId").string(record.sandbox_id);
    });
}

std::string start_data(const Message& message) {
    return object([&](base::JsonWriter& json) {
        if (!message.by.empty())
            json.key("by").string(message.by);
        if (!message.idempotency_key.empty())
            json.key("idempotencyKey").string(message.idempotency_key);
        json.key("content").string(message.content);
    });
}

std::string ready_data(std::uint32_t generation) {
    return object([&](base::JsonWriter& json) { json.key("generation").number(generation); });
}

std::string resumed_data(std::uint32_t generation, PauseMode mode) {
    return object([&](base::JsonWriter& json) {
        json.key("generation").number(generation).key("mode").string(to_string(mode));
    });
}

std::string paused_data(const action::LogSandboxPaused& paused) {
    return object([&](base::JsonWriter& json) {
        json.key("detail").string(paused.detail);
        json.key("mode").string(to_string(paused.mode)).key("reason").string(to_string(paused.reason));
    });
}

std::string exit_data(const sandbox::Exit& exit) {
    return object([&](base::JsonWriter& json) {
        json.key("class").string(to_string(exit.exit_class));
        json.key("code").raw(std::to_string(exit.code)).key("detail").string(exit.detail);
        if (exit.limit_bytes)
            json.key("limitBytes").number(*exit.limit_bytes);
        if (exit.peak_bytes)
            json.key("peakBytes").number(*exit.peak_bytes);
    });
}

std::string warning_data(std::string_view resource, std::uint64_t used, std::uint64_t limit) {
    return object([&](base::JsonWriter& json) {
        json.key("limit").number(limit).key("resource").string(resource).key("used").number(used);
    });
}

std::string preview_data(std::string_view url) {
    return object([&](base::JsonWriter& json) {
        json.key("url");
        if (url.empty())
            json.null();
        else
            json.string(url);
    });
}

std::string port_data(std::uint16_t port) {
    return object([&](base::JsonWriter& json) { json.key("port").number(port); });
}

std::string port_data(std::uint16_t port, const std::string& url) {
    return object([&](base::JsonWriter& json) {
        json.key("port").number(port).key("url");
        if (url.empty())
            json.null();
        else
            json.string(url);
    });
}

std::string files_data(const FileChange& change) {
    return object([&](base::JsonWriter& json) {
        json.key("changedFiles").begin_array();
        for (const std::string& path : change.paths)
            json.string(path);
        json.end_array();
        if (!change.tool_call_id.empty())
            json.key("toolCallId").string(change.tool_call_id);
    });
}

std::string tool_data(const ToolProgress& progress) {
    return object([&](base::JsonWriter& json) {
        json.key("toolCallId");
        if (progress.tool_call_id.empty())
            json.null();
        else
            json.string(progress.tool_call_id);
        json.key("toolName").string(progress.tool).key("status").string(progress.status);
        json.key("progress").null().key("message").string(progress.message);
    });
}

std::string egress_data(const EgressNotice& notice) {
    return object([&](base::JsonWriter& json) {
        json.key("host").string(notice.host).key("port").number(notice.port);
        if (!notice.reason.empty())
            json.key("reason").string(notice.reason);
        else
            json.key("bytesUp")
                .number(notice.bytes_up)
                .key("bytesDown")
                .number(notice.bytes_down)
                .key("ms")
                .number(static_cast<std::uint64_t>(notice.lasted.count()));
        if (!notice.route.empty())
            json.key("route").string(notice.route);
        if (notice.requests > 1)
            json.key("requests").number(notice.requests);
        if (notice.omitted > 0)
            json.key("omitted").number(notice.omitted);
    });
}

std::string question_data(const EgressQuestion& question) {
    return object([&](base::JsonWriter& json) {
        json.key("id").string(question.id).key("host").string(question.host);
        json.key("port").number(question.port);
    });
}

std::string decision_data(std::string_view id, std::string_view decision) {
    return object(
        [&](base::JsonWriter& json) { json.key("id").string(id).key("decision").string(decision); });
}

std::string permission_data(const PermissionDecision& decision) {
    return object([&](base::JsonWriter& json) {
        json.key("id").string(decision.id).key("outcome").string(to_string(decision.outcome));
        json.key("reason").string(to_string(decision.reason));
        if (!decision.option_id.empty())
            json.key("optionId").string(decision.option_id);
    });
}

std::string error_data(std::string_view code, std::string_view message) {
    return object(
        [&](base::JsonWriter& json) { json.key("code").string(code).key("message").string(message); });
}

}  // namespace atl::conversation
