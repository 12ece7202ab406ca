#include "core/conversation/conversation.hpp"
#include "core/conversation/event_json.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::conversation {

base::Result<View> Conversation::answer_permission(const std::string& permission_id,
                                                   const std::string& option_id) {
    if (auto answered = permissions_.answer(permission_id, option_id); !answered)
        return answered.error();
    touch();
    return view();
}

/// A request of an interrupted turn is cancelled at once: the agent may have written it before it heard.
void Conversation::permission_asked(std::string_view data) {
    const sandbox::AgentSpec* const agent = context_.settings.find_agent(record_.agent);
    const auto attended = log_->is_followed() ? Permissions::Attended::yes : Permissions::Attended::no;
    permissions_.ask(parse_permission_request(data), agent != nullptr ? *agent : sandbox::AgentSpec{},
                     attended);
    if (machine_.interrupting())
        permissions_.end_turn();
}

void Conversation::on_permission(const PermissionDecision& decision) {
    turn_.append_admitted(EventType::permission_resolved, permission_data(decision));
    sandbox::Channel* const guest = machine_.turn_running() ? channel() : nullptr;
    // An agent that asks for more at once than it may waits for the end of its turn.
    if (guest == nullptr || *permits_told_ == base::k_max_open_permissions)
        return;
    ++*permits_told_;
    guest->permit(turn_name(turn_.record().turn), decision.id, decision.option_id,
                  [told = permits_told_](const base::Result<void>&) { --*told; });
}

}  // namespace atl::conversation
