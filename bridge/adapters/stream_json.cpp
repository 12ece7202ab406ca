#include "bridge/adapters/stream_json.hpp"

#include <algorithm>
#include <utility>

#include "bridge/protocol.hpp"

namespace atl::adapter {
namespace {

constexpr std::string_view k_allow = "allow";
constexpr std::string_view k_allow_always = "allow_always";
constexpr std::string_view k_reject = "reject";
constexpr std::size_t k_max_claude_session_bytes = 256;

/// The id goes to a command line.
bool is_session_id(std::string_view text) {
    return !text.empty() && text.size() <= k_max_claude_session_bytes && text[0] != '-' &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '_';
           });
}

/// Members that a subagent's tools have in addition.
Json parent_of(const Json& object) {
    const std::string_view parent = text_of(object, "parent_tool_use_id");
    return parent.empty() ? Json::object() : Json{{"parentToolUseId", head_of(parent, k_max_id_bytes)}};
}

bool is_tool_id(std::string_view id) {
    return !id.empty() && id.size() <= k_max_id_bytes;
}

/// A content that is one text counts as a block. Nothing where there are none.
Json blocks_of(const Json& object) {
    const Json* const message = object_of(object, "message");
    const Json* const content = message != nullptr ? member(*message, "content") : nullptr;
    if (content == nullptr)
        return Json::array();
    if (content->is_string())
        return Json::array({{{"type", "text"}, {"text", *content}}});
    return content->is_array() ? *content : Json::array();
}

/// A result that is an error tells it as `result` or as a list of texts.
std::string error_text_of(const Json& result) {
    std::string text(text_of(result, "result"));
    const Json* const errors = text.empty() ? array_of(result, "errors") : nullptr;
    if (errors != nullptr)
        for (const Json& error : *errors)
            if (error.is_string() && text.size() < bridge::k_max_delta_bytes)
                text.append(text.empty() ? "" : "; ").append(*error.get_ptr<const std::string*>());
    return text.empty() ? "the agent ended its turn with an error" : text;
}

Json or_null(const Json* value) {
    return value != nullptr ? *value : Json();
}

}  // namespace

std::vector<std::string> StreamJsonProtocol::flags(const ProtocolSettings& settings) {
    // No settings of the workspace: the model writes there.
    std::vector<std::string> flags{"-p",
                                   "--output-format",
                                   "stream-json",
                                   "--input-format",
                                   "stream-json",
                                   "--verbose",
                                   "--include-partial-messages",
                                   "--permission-prompt-tool",
                                   "stdio",
                                   "--setting-sources="};
    if (!settings.mode.empty())
        flags.insert(flags.end(), {"--permission-mode", settings.mode});
    if (settings.mode == "bypassPermissions")
        flags.emplace_back("--allow-dangerously-skip-permissions");
    if (is_session_id(settings.session))
        flags.insert(flags.end(), {"--resume", settings.session});
    return flags;
}

std::string StreamJsonProtocol::control(const char* subtype) {
    std::string id = "atoll-" + std::to_string(++asked_);
    send({{"type", "control_request"}, {"request_id", id}, {"request", {{"subtype", subtype}}}});
    return id;
}

void StreamJsonProtocol::start() {
    session_ = settings_.session;
    initialize_ = control("initialize");
}

void StreamJsonProtocol::prompt(const std::string& text) {
    streamed_.clear();
    is_streamed_ = is_named_late_ = has_text_ = false;
    send({{"type", "user"},
          {"message", {{"role", "user"}, {"content", text}}},
          {"parent_tool_use_id", nullptr},
          {"session_id", ""}});
}

void StreamJsonProtocol::interrupt() {
    control("interrupt");
}

void StreamJsonProtocol::on_object(const Json& object, std::string_view line) {
    const std::string_view type = text_of(object, "type");
    if (type == "control_request")
        return on_control_request(object);
    if (type == "control_response")
        return on_control_response(object);
    if (type == "control_cancel_request") {
        const Json id = or_null(member(object, "request_id"));
        withdraw([&id](const Json& request) { return or_null(member(request, "id")) == id; });
        return;
    }
    if (type == "keep_alive")
        return;
    if (type == "system")
        on_system(object);
    if (!events_.is_open())
        return;
    if (type == "stream_event")
        return on_stream_event(object);
    tell_object(object, line);
    if (type == "assistant")
        on_assistant(object);
    else if (type == "user")
        on_user(object);
    else if (type == "result")
        on_result(object);
}

void StreamJsonProtocol::on_outline(Json outline, const std::string& why) {
    const std::string_view type = text_of(outline, "type");
    if (type == "control_request")
        return on_control_request(outline);
    if (type == "system")
        return on_system(outline);
    if (type == "result" && events_.is_open())
        return on_result(outline);
    if (type != "control_response" || is_ready())
        return;
    on_control_response(outline);
    // Its outline may have met its bound before the id of the request.
    if (!is_ready() && wishes_.failure.empty())
        wishes_.failure = "refused to initialize: " + why;
}

/// The object goes on as it came where an event can hold it so.
void StreamJsonProtocol::tell_object(const Json& object, std::string_view line) {
    const bool is_plain =
        std::none_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    events_.message(is_plain ? std::string(line) : to_text(object));
}

void StreamJsonProtocol::on_system(const Json& object) {
    if (text_of(object, "subtype") != "init")
        return;
    if (const std::string_view session = text_of(object, "session_id");
        is_session_id(session) && session != session_) {
        session_ = session;
        wishes_.session = session_;
    }
    // A release that does not know the first request begins all the same.
    begin_ready();
}

void StreamJsonProtocol::begin_ready() {
    if (!is_ready())
        become_ready(is_session_id(settings_.session) ? Memory::kept : Memory::none);
}

void StreamJsonProtocol::on_stream_event(const Json& object) {
    const Json* const event = object_of(object, "event");
    if (event == nullptr || !text_of(object, "parent_tool_use_id").empty())
        return;
    const std::string_view type = text_of(*event, "type");
    if (type == "message_start") {
        const Json* const message = object_of(*event, "message");
        streamed_ = message != nullptr ? head_of(text_of(*message, "id"), k_max_id_bytes) : "";
        is_streamed_ = is_named_late_ = false;
        return;
    }
    const Json* const delta = type == "content_block_delta" ? object_of(*event, "delta") : nullptr;
    if (delta == nullptr)
        return;
    const std::string_view kind = text_of(*delta, "type");
    if (kind != "text_delta" && kind != "thinking_delta")
        return;
    is_streamed_ = true;
    if (std::exchange(is_named_late_, false))
        streamed_.clear();
    if (kind == "text_delta")
        tell_text(text_of(*delta, "text"));
    else
        events_.thinking(text_of(*delta, "thinking"));
}

void StreamJsonProtocol::tell_text(std::string_view text) {
    has_text_ |= !text.empty();
    events_.text(text);
}

/// True if the texts of this message came in pieces.
bool StreamJsonProtocol::is_told(const Json& message) {
    const std::string_view id = head_of(text_of(message, "id"), k_max_id_bytes);
    if (!is_streamed_ || (!streamed_.empty() && id != streamed_))
        return false;
    if (streamed_.empty()) {
        // Pieces without a name belong to the message that comes next.
        streamed_ = id;
        is_named_late_ = true;
        is_streamed_ = !id.empty();
    }
    return true;
}

void StreamJsonProtocol::on_assistant(const Json& object) {
    const Json blocks = blocks_of(object);
    const Json more = parent_of(object);
    if (blocks.empty())
        return;
    const bool has_told = !more.empty() || is_told(object["message"]);
    for (const Json& block : blocks) {
        const std::string_view type = text_of(block, "type");
        if (type == "tool_use" && is_tool_id(text_of(block, "id")))
            events_.tool_use(text_of(block, "id"), text_of(block, "name"), or_null(member(block, "input")),
                             more);
        else if (type == "text" && !has_told)
            tell_text(text_of(block, "text"));
        else if (type == "thinking" && !has_told)
            events_.thinking(text_of(block, "thinking"));
    }
}

void StreamJsonProtocol::on_user(const Json& object) {
    for (const Json& block : blocks_of(object)) {
        if (text_of(block, "type") != "tool_result")
            continue;
        const auto outcome =
            flag_of(block, "is_error") ? TurnEvents::Outcome::failed : TurnEvents::Outcome::good;
        events_.tool_result(text_of(block, "tool_use_id"), or_null(member(block, "content")), outcome,
                            parent_of(object));
    }
}

void StreamJsonProtocol::on_result(const Json& object) {
    cancel_permissions();
    const std::string_view subtype = text_of(object, "subtype");
    if (text_of(object, "terminal_reason") == "aborted_streaming")
        events_.mark_interrupted();
    if (subtype == "success" && !flag_of(object, "is_error")) {
        // An answer of the program itself, as that to a command, is no message.
        if (!has_text_)
            tell_text(text_of(object, "result"));
        return events_.complete("success");
    }
    const std::string text = error_text_of(object);
    if (!leaves_turn(text))
        events_.fail(
            subtype == "success" || subtype.empty() ? "agent_error" : head_of(subtype, k_max_id_bytes), text);
}

void StreamJsonProtocol::on_control_response(const Json& object) {
    const Json* const response = object_of(object, "response");
    if (response == nullptr || is_ready() || text_of(*response, "request_id") != initialize_)
        return;
    if (text_of(*response, "subtype") == "error") {
        wishes_.failure = "refused to initialize: " + std::string(text_of(*response, "error"));
        return;
    }
    begin_ready();
}

void StreamJsonProtocol::on_control_request(const Json& object) {
    const Json* const asked = object_of(object, "request");
    const Json id = or_null(member(object, "request_id"));
    if (asked == nullptr || text_of(*asked, "subtype") != "can_use_tool")
        return send(
            {{"type", "control_response"},
             {"response",
              {{"subtype", "error"}, {"request_id", id}, {"error", "this client has no such request"}}}});
    const std::string_view tool = text_of(*asked, "tool_use_id");
    const Json input = or_null(member(*asked, "input"));
    if (is_tool_id(tool))
        events_.tool_use(tool, text_of(*asked, "tool_name"), input, Json::object());
    std::vector<PermissionOption> options{{std::string(k_allow), "Allow", permission_kind("allow_once")}};
    Json request = {{"id", id}, {"input", input}};
    if (const Json* const rules = array_of(*asked, "permission_suggestions");
        rules != nullptr && !rules->empty()) {
        request["rules"] = *rules;
        options.push_back({std::string(k_allow_always), "Always allow", permission_kind("allow_always")});
    }
    options.push_back({std::string(k_reject), "Reject", permission_kind("reject_once")});
    ask(head_of(tool, k_max_id_bytes), std::move(options), std::move(request));
}

void StreamJsonProtocol::answer(const Json& request, const std::string* option_id) {
    Json decision = {{"behavior", "deny"},
                     {"message", option_id != nullptr ? "the user refused it" : "nobody permitted it"}};
    if (option_id != nullptr && *option_id != k_reject)
        decision = {{"behavior", "allow"}, {"updatedInput", request["input"]}};
    if (option_id != nullptr && *option_id == k_allow_always && request.contains("rules"))
        decision["updatedPermissions"] = request["rules"];
    send({{"type", "control_response"},
          {"response",
           {{"subtype", "success"}, {"request_id", request["id"]}, {"response", std::move(decision)}}}});
}

}  // namespace atl::adapter
