#include "bridge/adapters/agent_protocol.hpp"

#include <algorithm>
#include <utility>

#include "core/plain/guest_limits.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/utf8.hpp"

namespace atl::adapter {
namespace {

// A turn logs no more lines that are none.
constexpr std::size_t k_max_complaints = 10;
// An agent that writes so much of them before it is ready does not speak its protocol.
constexpr std::size_t k_max_noise_bytes = 1024UL * 1024;
static_assert(k_max_noise_bytes <= base::k_max_event_line_bytes);

std::string describe_long_line(std::string_view line) {
    return "the agent wrote a line beyond " + std::to_string(base::k_max_event_line_bytes) +
           " bytes, which was dropped; the line: " + base::excerpt(line, base::k_quoted_line_bytes);
}

}  // namespace

void AgentProtocol::send(const Json& object) {
    wishes_.to_agent.append(to_text(object)).push_back('\n');
}

void AgentProtocol::log(std::string_view text) {
    wishes_.log.append(text).push_back('\n');
}

void AgentProtocol::agent_line(std::string_view line) {
    if (line.empty() || line == "\r")
        return;
    if (const std::optional<Json> object = parse_line(line)) {
        on_object(*object, line);
        return begin_waiting();
    }
    if (complaints_++ < k_max_complaints)
        log("the agent wrote a line that is no JSON object: " +
            base::excerpt(line, base::k_quoted_line_bytes));
    note_noise(line.size());
}

void AgentProtocol::agent_long_line(std::string_view head) {
    const std::string text = describe_long_line(head);
    log(text);
    events_.error("line_too_long", text);
    if (!head.starts_with('{'))
        note_noise(base::k_max_event_line_bytes);
}

void AgentProtocol::agent_long_line_end(std::string_view outline) {
    on_outline(parse_outline(outline), describe_long_line(outline));
    begin_waiting();
}

void AgentProtocol::note_noise(std::size_t bytes) {
    noise_bytes_ += bytes;
    if (!ready_ && noise_bytes_ >= k_max_noise_bytes && wishes_.failure.empty())
        wishes_.failure = "floods its stdout with lines that are no JSON objects";
}

void AgentProtocol::begin_waiting() {
    if (waiting_ && can_begin())
        command(*std::exchange(waiting_, std::nullopt));
}

void AgentProtocol::command(const HostCommand& command) {
    switch (command.kind) {
        case HostCommand::Kind::query:
            if (!can_begin()) {
                waiting_ = command;
                return;
            }
            return begin_turn(command);
        case HostCommand::Kind::interrupt:
            if (waiting_ && waiting_->turn == command.turn && !events_.is_open()) {
                events_.begin(std::exchange(waiting_, std::nullopt)->turn);
                events_.mark_interrupted();
                return events_.complete({});
            }
            if (!events_.is_open() || command.turn != events_.turn() || events_.is_interrupted())
                return;
            events_.mark_interrupted();
            cancel_permissions();
            return interrupt();
        case HostCommand::Kind::permission: {
            auto found = permissions_.extract(command.permission);
            if (found.empty())
                return;
            const std::vector<PermissionOption>& options = found.mapped().options;
            const auto chosen =
                std::find_if(options.begin(), options.end(), [&](const PermissionOption& option) {
                    return command.option_id && option.id == *command.option_id;
                });
            if (chosen == options.end())
                return refuse(found.mapped());
            if (chosen->kind.starts_with("reject"))
                events_.refuse(found.mapped().tool);
            return answer(found.mapped().request, &chosen->id);
        }
        case HostCommand::Kind::resume:
            past_ = command.past;
            return;
        case HostCommand::Kind::shutdown:
        case HostCommand::Kind::unknown:
            return;
    }
}

void AgentProtocol::begin_turn(const HostCommand& query) {
    // Until then the agent may not have got what its first prompt told.
    if (events_.has_answered()) {
        past_.clear();
        query_.reset();
        memory_ = Memory::proven;
    }
    events_.begin(query.turn);
    complaints_ = 0;
    if (memory_ == Memory::kept)
        query_ = query;
    prompt((memory_ == Memory::none ? past_ : std::string()) + query.prompt);
}

bool AgentProtocol::leaves_turn(std::string_view why) {
    if (is_left_)
        return true;
    if (memory_ != Memory::kept || !events_.is_open() || events_.has_answered() || events_.is_interrupted())
        return false;
    log("the agent does not go on with its session, a new one begins: " + std::string(why));
    events_.leave();
    waiting_ = std::exchange(query_, std::nullopt);
    wishes_.renews = is_left_ = true;
    return true;
}

LeftTurn AgentProtocol::left() {
    return {std::exchange(waiting_, std::nullopt), std::exchange(past_, {}), is_announced_};
}

void AgentProtocol::agent_ended(std::string_view why) {
    if (waiting_ && !events_.is_open())
        events_.begin(waiting_->turn);
    events_.error("agent_failed", why);
}

void AgentProtocol::become_ready(Memory memory) {
    memory_ = memory;
    ready_ = true;
    if (!std::exchange(is_announced_, true))
        wishes_.to_host += "{\"ev\":\"ready\",\"data\":{}}\n";
    begin_waiting();
}

void AgentProtocol::ask(std::string_view tool_id, std::vector<PermissionOption> options, Json request) {
    if (!events_.is_open() || events_.is_interrupted() || permissions_.size() == base::k_max_open_permissions)
        return refuse({std::string(tool_id), {}, std::move(request)});
    const std::string id = events_.permission_request(tool_id, options);
    if (options.empty()) {
        events_.permission_cancel(id);
        return refuse({std::string(tool_id), {}, std::move(request)});
    }
    permissions_.emplace(id, Permission{std::string(tool_id), std::move(options), std::move(request)});
}

void AgentProtocol::refuse(const Permission& permission) {
    events_.refuse(permission.tool);
    answer(permission.request, nullptr);
}

void AgentProtocol::cancel_permissions() {
    for (const auto& [id, permission] : std::exchange(permissions_, {}))
        refuse(permission);
}

}  // namespace atl::adapter
