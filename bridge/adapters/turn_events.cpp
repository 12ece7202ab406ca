#include "bridge/adapters/turn_events.hpp"

#include "bridge/protocol.hpp"

namespace atl::adapter {
namespace {

void add_members(Json& data, const Json& more) {
    if (more.is_object())
        data.update(more);
}

}  // namespace

std::string_view permission_kind(std::string_view text) {
    for (const std::string_view kind : {"allow_once", "allow_always", "reject_once", "reject_always"})
        if (text == kind)
            return kind;
    // Agents have kinds of their own. An allowance of an unknown extent counts as the wide one.
    if (text.starts_with("allow"))
        return "allow_always";
    return text.starts_with("reject") || text.starts_with("deny") ? "reject_once" : "";
}

void TurnEvents::begin(std::string_view turn) {
    turn_ = turn;
    interrupted_ = false;
    answered_ = false;
    asked_ = 0;
    tools_.clear();
}

void TurnEvents::write(std::string_view name, const Json& data) {
    if (!is_open())
        return;
    out_.append("{\"ev\":\"").append(name).append("\",\"data\":").append(to_text(data)).append("}\n");
}

void TurnEvents::text(std::string_view delta) {
    if (!is_open())
        return;
    answered_ |= !delta.empty();
    bridge::append_text_deltas(out_, delta);
}

void TurnEvents::thinking(std::string_view delta) {
    answered_ |= is_open() && !delta.empty();
    while (!delta.empty()) {
        const std::string_view head = head_of(delta, bridge::k_max_delta_bytes);
        write("thinking_delta", {{"delta", head}});
        delta.remove_prefix(head.size());
    }
}

void TurnEvents::message(std::string_view data) {
    if (is_open())
        out_.append("{\"ev\":\"message\",\"data\":").append(data).append("}\n");
}

void TurnEvents::plan(const Json& entries) {
    write("plan", {{"entries", entries}});
}

void TurnEvents::tool_use(std::string_view id, std::string_view name, const Json& input, const Json& more) {
    if (!is_open() || has_tool(id))
        return;
    answered_ = true;
    if (tools_.size() == k_max_open_tools)
        std::erase_if(tools_, [](const auto& tool) { return tool.second == Tool::ended; });
    if (tools_.size() == k_max_open_tools)
        return;
    tools_.emplace(id, Tool::begun);
    Json data = {{"id", id}, {"name", head_of(name, k_max_name_bytes)}};
    data["input"] = input.is_object() ? input : input.is_null() ? Json::object() : Json{{"value", input}};
    add_members(data, more);
    write("tool_use", data);
}

void TurnEvents::tool_result(std::string_view id, const Json& content, Outcome outcome, const Json& more) {
    const auto found = tools_.find(std::string(id));
    if (found == tools_.end() || found->second == Tool::ended)
        return;
    found->second = Tool::ended;
    Json data = {{"toolUseId", id}, {"content", content}, {"isError", outcome == Outcome::failed}};
    add_members(data, more);
    write("tool_result", data);
}

void TurnEvents::refuse(std::string_view id) {
    const auto found = tools_.find(std::string(id));
    if (found != tools_.end() && found->second == Tool::begun)
        found->second = Tool::refused;
}

/// Some agents say no more of a tool that was refused.
void TurnEvents::end_refused() {
    for (const auto& [id, state] : tools_)
        if (state == Tool::refused)
            tool_result(id, "it was not permitted", Outcome::failed, Json::object());
}

std::string TurnEvents::permission_request(std::string_view tool_id,
                                           const std::vector<PermissionOption>& options) {
    answered_ = true;
    const std::string id = turn_ + "." + std::to_string(++asked_);
    Json list = Json::array();
    for (const PermissionOption& option : options)
        list.push_back({{"optionId", option.id}, {"name", option.name}, {"kind", option.kind}});
    write("permission_request", {{"id", id}, {"toolUseId", tool_id}, {"options", std::move(list)}});
    return id;
}

void TurnEvents::permission_cancel(std::string_view id) {
    write("permission_cancel", {{"id", id}});
}

void TurnEvents::error(std::string_view code, std::string_view text) {
    if (is_open())
        out_ += bridge::encode_error_event(code, head_of(text, bridge::k_max_delta_bytes));
}

void TurnEvents::complete(std::string_view result) {
    answered_ |= !interrupted_;
    end_refused();
    write("turn_complete", {{"result", interrupted_ ? "interrupted" : head_of(result, k_max_name_bytes)}});
    end();
}

void TurnEvents::fail(std::string_view code, std::string_view text) {
    if (interrupted_)
        return complete({});
    end_refused();
    error(code, text);
    end();
}

void TurnEvents::end() {
    if (is_open())
        out_ += bridge::k_done_line;
    turn_.clear();
    tools_.clear();
}

}  // namespace atl::adapter
