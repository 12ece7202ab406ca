// Persons who decide on hosts that a conversation's list does not have.
#include <utility>

#include "core/conversation/conversation.hpp"
#include "core/conversation/event_json.hpp"

namespace atl::conversation {

bool Conversation::on_egress_question(const EgressQuestion& question) {
    const std::string data = question_data(question);
    if (erasing_ || !machine_.sandbox_up() || machine_.is_borrowed() || !log_->window()->has_followers() ||
        !log_->has_room(data.size()))
        return false;
    log_in_turn(EventType::egress_request, data);
    return true;
}

void Conversation::on_egress_decision(const std::string& id, std::string_view decision) {
    if (!erasing_ && machine_.status() != Status::ended)
        log_in_turn(EventType::egress_resolved, decision_data(id, decision));
}

void Conversation::allow_host(const std::string& rule, Reply<View> reply) {
    PatchRequest change;
    change.network = sandbox::NetworkSettings{sandbox_record_.network, sandbox_record_.egress};
    change.network->egress.allow.push_back(rule);
    patch(change, std::move(reply));
}

}  // namespace atl::conversation
