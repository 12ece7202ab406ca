#include "bridge/adapters/acp.hpp"

#include <set>
#include <utility>

#include "core/plain/guest_limits.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::adapter {
namespace {

constexpr int k_protocol_version = 1;
constexpr int k_method_not_found = -32601;
constexpr int k_request_cancelled = -32800;
constexpr int k_authentication_required = -32000;
constexpr std::size_t k_max_acp_session_bytes = 1024;
// The outputs that updates told of the open tools are kept up to so many bytes: several of the longest lines.
constexpr std::size_t k_max_kept_bytes = 4 * base::k_max_event_line_bytes;

std::int64_t number_of(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool has_content(const Json& value) {
    return !value.is_null() && value != "" && !(value.is_structured() && value.empty());
}

/// The block of text that is a content of a tool; null where the content is something else, as a diff is.
const Json* text_block_of(const Json& content) {
    const Json* const block = text_of(content, "type") == "content" ? object_of(content, "content") : nullptr;
    return block != nullptr && text_of(*block, "type") == "text" ? block : nullptr;
}

/// The texts of the contents of a tool, joined; null where one of them is no text.
Json content_texts_of(const Json& contents) {
    std::string text;
    for (const Json& content : contents) {
        const Json* const block = text_block_of(content);
        if (block == nullptr)
            return nullptr;
        text.append(text.empty() ? "" : "\n").append(text_of(*block, "text"));
    }
    return text;
}

bool is_end(std::string_view status) {
    return status == "completed" || status == "failed";
}

/// A member of a tool's last update, or what was kept of the updates before. Null: neither has it.
Json last_of(const Json* told, const std::string& kept) {
    if (told != nullptr && has_content(*told))
        return *told;
    return kept.empty() ? Json() : Json::parse(kept, nullptr, false);
}

std::string describe_error(const Json& error) {
    std::string text(text_of(error, "message"));
    if (text.empty())
        text = "error " + std::to_string(number_of(error, "code"));
    if (const Json* const data = member(error, "data"); data != nullptr && !data->is_null())
        text += ": " + (data->is_string() ? data->get<std::string>() : to_text(*data));
    return text;
}

std::vector<PermissionOption> options_of(const Json& params) {
    std::vector<PermissionOption> options;
    const Json* const list = array_of(params, "options");
    if (list == nullptr)
        return options;
    for (const Json& item : *list) {
        const std::string_view id = text_of(item, "optionId");
        const std::string_view kind = permission_kind(text_of(item, "kind"));
        if (id.empty() || id.size() > k_max_id_bytes || kind.empty() ||
            options.size() == base::k_max_permission_options)
            continue;
        options.push_back(
            {std::string(id), std::string(head_of(text_of(item, "name"), k_max_name_bytes)), kind});
    }
    return options;
}

}  // namespace

void AcpProtocol::request(Step step, const char* method, Json params) {
    step_ = step;
    send({{"jsonrpc", "2.0"}, {"id", ++step_id_}, {"method", method}, {"params", std::move(params)}});
}

void AcpProtocol::start() {
    request(Step::initialize, "initialize",
            {{"protocolVersion", k_protocol_version},
             {"clientCapabilities",
              {{"fs", {{"readTextFile", false}, {"writeTextFile", false}}}, {"terminal", false}}},
             {"clientInfo", {{"name", "atoll"}, {"version", "1"}}}});
}

void AcpProtocol::on_object(const Json& object, std::string_view) {
    const std::string_view method = text_of(object, "method");
    if (method.empty())
        return on_reply(object);
    if (member(object, "id") != nullptr)
        return on_request(object, method);
    const Json* const params = object_of(object, "params");
    if (params == nullptr)
        return;
    if (method == "$/cancel_request") {
        // A request that is withdrawn has a response all the same (ACP, Cancellation).
        const Json* const id = member(*params, "requestId");
        if (id != nullptr && withdraw([id](const Json& request) { return request == *id; }))
            refuse(*id, k_request_cancelled, "withdrawn");
    } else if (method == "session/update") {
        if (const Json* const update = object_of(*params, "update"))
            on_update(*update, text_of(*params, "sessionId"));
    }
}

/// A reply to a prompt ends its turn with what is known. Any other reply says what is not known any more.
void AcpProtocol::on_outline(Json outline, const std::string& why) {
    if (text_of(outline, "method").empty() && step_ != Step::prompt)
        outline["error"] = {{"message", why}};
    on_object(outline, {});
}

void AcpProtocol::on_reply(const Json& object) {
    const Json* const id = member(object, "id");
    if (step_ == Step::none || id == nullptr || *id != Json(step_id_))
        return;
    const Step step = std::exchange(step_, Step::none);
    if (const Json* const error = object_of(object, "error"))
        return on_failed_step(step, *error);
    const Json* const result = object_of(object, "result");
    on_result(step, result != nullptr ? *result : Json::object());
}

void AcpProtocol::on_failed_step(Step step, const Json& error) {
    const std::string why = describe_error(error);
    switch (step) {
        case Step::resume:
            if (can_load_)
                return take_up(Step::load);
            [[fallthrough]];
        case Step::load:
            log("the agent does not resume its session, a new one begins: " + why);
            return create_session();
        case Step::settle:
            return choose_mode();
        case Step::prompt:
            // A missing key is not the fault of the session.
            if (number_of(error, "code") != k_authentication_required && leaves_turn(why))
                return;
            end_turn();
            return events_.fail("agent_error", why);
        case Step::initialize:
            wishes_.failure = "refused to initialize: " + why;
            return;
        case Step::create:
            wishes_.failure = number_of(error, "code") == k_authentication_required
                                  ? "wants to be authenticated: its recipe gives it no key (" + why + ")"
                                  : "begins no session: " + why;
            return;
        case Step::set_mode:
            wishes_.failure = "does not take the mode " + settings_.mode + ": " + why;
            return;
        case Step::none:
            return;
    }
}

void AcpProtocol::on_result(Step step, const Json& result) {
    switch (step) {
        case Step::initialize:
            return on_initialized(result);
        case Step::resume:
        case Step::load:
            session_ = settings_.session;
            memory_of_session_ = Memory::kept;
            // An agent may go on to tell the past behind this answer: what it is asked next, it answers after
            // that; the request for a mode is one. A simple agent has no answer to a method it does not know.
            if (step == Step::resume || !settings_.mode.empty())
                return choose_mode();
            wishes_.settles = true;
            return request(Step::settle, "_atoll/settle", Json::object());
        case Step::settle:
            return choose_mode();
        case Step::create:
            session_ = text_of(result, "sessionId");
            if (session_.empty() || session_.size() > k_max_acp_session_bytes) {
                wishes_.failure = "begins a session without an id";
                return;
            }
            wishes_.session = session_;
            return choose_mode();
        case Step::set_mode:
            return become_ready(memory_of_session_);
        case Step::prompt: {
            const std::string_view reason = text_of(result, "stopReason");
            end_turn();
            return events_.complete(reason == "cancelled" ? "interrupted"
                                    : reason.empty()      ? "end_turn"
                                                          : reason);
        }
        case Step::none:
            return;
    }
}

void AcpProtocol::settled() {
    if (step_ != Step::settle)
        return;
    step_ = Step::none;
    choose_mode();
}

void AcpProtocol::on_initialized(const Json& result) {
    const std::int64_t version = number_of(result, "protocolVersion");
    if (version != k_protocol_version) {
        wishes_.failure = (version == 0 ? "tells no version of ACP"
                                        : "speaks version " + std::to_string(version) + " of ACP") +
                          "; this server speaks version 1: install another release of it";
        return;
    }
    const Json* const capabilities = object_of(result, "agentCapabilities");
    const Json* const of_sessions =
        capabilities != nullptr ? object_of(*capabilities, "sessionCapabilities") : nullptr;
    const Json* const resume = of_sessions != nullptr ? member(*of_sessions, "resume") : nullptr;
    const bool can_resume = resume != nullptr && (resume->is_object() || *resume == true);
    can_load_ = capabilities != nullptr && flag_of(*capabilities, "loadSession");
    if (settings_.session.empty() || (!can_resume && !can_load_))
        return create_session();
    take_up(can_resume ? Step::resume : Step::load);
}

/// The updates of a load come outside of a turn and are dropped.
void AcpProtocol::take_up(Step step) {
    request(step, step == Step::resume ? "session/resume" : "session/load",
            {{"sessionId", settings_.session}, {"cwd", settings_.directory}, {"mcpServers", Json::array()}});
}

void AcpProtocol::create_session() {
    request(Step::create, "session/new", {{"cwd", settings_.directory}, {"mcpServers", Json::array()}});
}

/// `NAME=VALUE` is an option of the session, anything else one of its modes.
void AcpProtocol::choose_mode() {
    const std::string& mode = settings_.mode;
    if (mode.empty())
        return become_ready(memory_of_session_);
    const std::size_t equals = mode.find('=');
    if (equals == std::string::npos)
        return request(Step::set_mode, "session/set_mode", {{"sessionId", session_}, {"modeId", mode}});
    request(
        Step::set_mode, "session/set_config_option",
        {{"sessionId", session_}, {"configId", mode.substr(0, equals)}, {"value", mode.substr(equals + 1)}});
}

void AcpProtocol::prompt(const std::string& text) {
    tools_.clear();
    kept_bytes_ = 0;
    request(Step::prompt, "session/prompt",
            {{"sessionId", session_}, {"prompt", Json::array({{{"type", "text"}, {"text", text}}})}});
}

void AcpProtocol::interrupt() {
    send({{"jsonrpc", "2.0"}, {"method", "session/cancel"}, {"params", {{"sessionId", session_}}}});
}

/// Tools that were announced and never begun are told, too.
void AcpProtocol::end_turn() {
    cancel_permissions();
    for (auto& [id, tool] : tools_)
        tell_tool(id, tool, {});
}

void AcpProtocol::on_request(const Json& object, std::string_view method) {
    if (method == "session/request_permission")
        return on_permission(object);
    refuse(object["id"], k_method_not_found, "this client has no such method");
}

void AcpProtocol::refuse(const Json& request, int code, const char* why) {
    send({{"jsonrpc", "2.0"}, {"id", request}, {"error", {{"code", code}, {"message", why}}}});
}

void AcpProtocol::on_permission(const Json& object) {
    const Json* const params = object_of(object, "params");
    const Json* const call = params != nullptr ? object_of(*params, "toolCall") : nullptr;
    if (call == nullptr)
        return answer(object["id"], nullptr);
    on_tool(*call);
    // An agent may ask before it has announced the tool, or while its input is still empty.
    const std::string id(head_of(text_of(*call, "toolCallId"), k_max_id_bytes));
    if (const auto found = tools_.find(id); found != tools_.end())
        tell_tool(id, found->second, {});
    ask(id, options_of(*params), object["id"]);
}

void AcpProtocol::answer(const Json& request, const std::string* option_id) {
    const Json outcome = option_id == nullptr ? Json{{"outcome", "cancelled"}}
                                              : Json{{"outcome", "selected"}, {"optionId", *option_id}};
    send({{"jsonrpc", "2.0"}, {"id", request}, {"result", {{"outcome", outcome}}}});
}

void AcpProtocol::on_update(const Json& update, std::string_view session) {
    if (!events_.is_open())
        return;
    const std::string_view kind = text_of(update, "sessionUpdate");
    const bool is_tool = kind == "tool_call" || kind == "tool_call_update";
    if (!session.empty() && session != session_ && !is_tool) {
        // An agent's helper may have a session of its own. Its words are not those of the turn.
        Json more = update;
        more["sessionId"] = session;
        return events_.message(to_text(more));
    }
    if (kind == "agent_message_chunk" || kind == "agent_thought_chunk")
        return on_chunk(update, kind);
    if (is_tool)
        return on_tool(update);
    if (kind == "plan") {
        const Json* const entries = array_of(update, "entries");
        return events_.plan(entries != nullptr ? *entries : Json::array());
    }
    // The user's own words are in the log already.
    if (kind != "user_message_chunk")
        events_.message(to_text(update));
}

void AcpProtocol::on_chunk(const Json& update, std::string_view kind) {
    const Json* const content = object_of(update, "content");
    if (content == nullptr || text_of(*content, "type") != "text")
        return events_.message(to_text(update));
    const std::string_view text = text_of(*content, "text");
    kind == "agent_thought_chunk" ? events_.thinking(text) : events_.text(text);
}

/// A `tool_call`, a `tool_call_update`, or the tool of a permission: all have the same members.
void AcpProtocol::on_tool(const Json& update) {
    const std::string_view name = text_of(update, "toolCallId");
    if (!events_.is_open() || name.empty() || name.size() > k_max_id_bytes)
        return;
    const std::string id(name);
    const std::string_view status = text_of(update, "status");
    auto found = tools_.find(id);
    if (found == tools_.end()) {
        // A tool that was told and is not here has ended.
        if (events_.has_tool(id) || tools_.size() == k_max_open_tools)
            return;
        found = tools_.emplace(id, Tool()).first;
    }
    Tool& tool = found->second;
    if (const std::string_view title = text_of(update, "title"); !title.empty())
        tool.title = head_of(title, k_max_name_bytes);
    if (const std::string_view kind = text_of(update, "kind"); !kind.empty())
        tool.kind = head_of(kind, k_max_name_bytes);
    // Its input may come later, until it begins.
    if (!events_.has_tool(id)) {
        if (const Json* const input = member(update, "rawInput"); input != nullptr && has_content(*input))
            tool.input = *input;
    }
    if (!is_end(status)) {
        keep(tool.contents, array_of(update, "content"));
        keep(tool.output, member(update, "rawOutput"));
    }
    if (is_end(status) || status == "in_progress" || !tool.input.is_null())
        tell_tool(id, tool, status);
    if (!is_end(status))
        return;
    tell_result(id, tool, update, status);
    kept_bytes_ -= tool.contents.size() + tool.output.size() + tool.details.size();
    tools_.erase(found);
}

/// An update has only the members that changed. Beyond the bound of all the member stays as it was.
void AcpProtocol::keep(std::string& kept, const Json* told) {
    if (told == nullptr || !has_content(*told))
        return;
    std::string text = to_text(*told);
    const std::size_t bytes = kept_bytes_ - kept.size() + text.size();
    if (bytes > k_max_kept_bytes)
        return;
    kept_bytes_ = bytes;
    kept = std::move(text);
}

/// Once, when it begins. The contents of a tool that has ended already are its result.
void AcpProtocol::tell_tool(const std::string& id, Tool& tool, std::string_view status) {
    if (events_.has_tool(id))
        return;
    Json more = Json::object();
    if (!tool.title.empty())
        more["title"] = tool.title;
    if (!is_end(status)) {
        // An agent may tell a diff beside an input or in place of it, and a text in place of it. The text of
        // a tool that runs is its output.
        const bool has_texts = tool.input.is_null() && status != "in_progress";
        Json details = Json::array();
        for (const Json& content : last_of(nullptr, tool.contents))
            if (has_texts || text_block_of(content) == nullptr)
                details.push_back(content);
        keep(tool.details, &details);
        if (!details.empty())
            more["details"] = std::move(details);
    }
    events_.tool_use(id, tool.kind.empty() ? "other" : tool.kind, tool.input, more);
    tool.input = nullptr;
}

void AcpProtocol::tell_result(const std::string& id, const Tool& tool, const Json& update,
                              std::string_view status) {
    Json content = last_of(member(update, "rawOutput"), tool.output);
    const Json details = last_of(nullptr, tool.details);
    const std::set<Json> told(details.begin(), details.end());
    Json contents = Json::array();
    for (const Json& one : last_of(array_of(update, "content"), tool.contents))
        if (!told.contains(one))
            contents.push_back(one);
    Json texts = content_texts_of(contents);
    Json more = Json::object();
    // Diffs and the like, as the agent tells them.
    if (texts.is_null())
        (content.is_null() ? content : more["details"]) = std::move(contents);
    else if (content.is_null())
        content = std::move(texts);
    events_.tool_result(id, content,
                        status == "failed" ? TurnEvents::Outcome::failed : TurnEvents::Outcome::good, more);
}

}  // namespace atl::adapter
