// The questions of a conversation to people: about hosts that its list does not have, and permissions of its
// agent.
#include <utility>

#include "core/base/limits.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/event_json.hpp"
#include "core/conversation/settings.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::conversation {

bool Conversation::on_egress_question(const EgressQuestion& question) {
    const std::string data = question_data(question);
    if (erasing_ || !machine_.sandbox_up() || machine_.is_borrowed() || !is_attended() ||
        !log_->has_room(data.size()))
        return false;
    log_in_turn(EventType::egress_request, data);
    ++open_egress_questions_;
    return true;
}

void Conversation::on_egress_decision(const std::string& id, std::string_view decision) {
    open_egress_questions_ -= open_egress_questions_ == 0 ? 0U : 1U;
    if (!erasing_ && machine_.status() != Status::ended)
        log_in_turn(EventType::egress_resolved, decision_data(id, decision));
}

void Conversation::allow_host(const std::string& rule, const std::string& by_user_id, Reply<View> reply) {
    if (auto open = check_open(); !open)
        return reply(open.error());
    sandbox::NetworkSettings network{sandbox_record_.network, sandbox_record_.egress};
    network.egress.add_rule(rule, by_user_id);
    // A secret that other rules need may be gone by now: that does not stop this decision.
    sandbox::NetworkSettings list = network;
    list.egress.routes.clear();
    list.egress.hosts.clear();
    if (auto may = check_network(context_, list); !may)
        return reply(may.error());
    change_sandbox(context_, sandbox_record_, network, {});
    store_change(std::move(reply));
}

void Conversation::store_change(Reply<View> reply) {
    run(action::Persist{});
    arm_life();
    std::vector<Reply<View>> waiting{std::move(reply)};
    answer(waiting, std::nullopt);
}

void Conversation::on_unattended() {
    if (permissions_.is_empty() && open_egress_questions_ == 0)
        return;
    context_.timers.cancel(std::exchange(unattended_timer_, 0));
    unattended_timer_ = context_.timers.arm(base::k_unattended_grace, [this] {
        unattended_timer_ = 0;
        if (is_attended())
            return;
        permissions_.leave_unattended();
        if (open_egress_questions_ != 0 && context_.unattended)
            context_.unattended(record_.sandbox_id);
    });
}

base::Result<View> Conversation::answer_permission(const std::string& permission_id,
                                                   const std::string& option_id) {
    if (auto answered = permissions_.answer(permission_id, option_id); !answered)
        return answered.error();
    touch();
    return view();
}

/// A request of an interrupted turn is cancelled at once: the agent may have written it before it heard.
void Conversation::permission_asked(std::string_view data, Logged logged) {
    const sandbox::AgentSpec* const agent = context_.settings.find_agent(record_.agent);
    const auto attended =
        logged == Logged::yes && is_attended() ? Permissions::Attended::yes : Permissions::Attended::no;
    permissions_.ask(parse_permission_request(data), agent != nullptr ? *agent : sandbox::AgentSpec{},
                     attended);
    if (machine_.interrupting())
        permissions_.end_turn();
}

void Conversation::on_permission(const PermissionDecision& decision) {
    turn_.append_admitted(EventType::permission_resolved, permission_data(decision));
    if (machine_.turn_running())
        tell_permission(turn_.record().turn, decision.id, decision.option_id);
}

void Conversation::tell_permission(std::uint64_t turn, const std::string& id, const std::string& option_id) {
    sandbox::Channel* const guest =
        machine_.turn_running() && turn_.record().turn == turn ? channel() : nullptr;
    // An agent that asks for more at once than it may waits for the end of its turn.
    if (guest == nullptr || *permits_told_ == base::k_max_open_permissions)
        return;
    ++*permits_told_;
    const std::weak_ptr<std::size_t> told = permits_told_;
    guest->permit(turn_name(turn), id, option_id,
                  [this, told, turn, id, option_id](const base::Result<void>& done) {
                      const auto count = told.lock();
                      if (!count)
                          return;
                      if (done || done.error().code() != base::Errc::bridge_failed) {
                          --*count;
                          return;
                      }
                      // The log says already how it was decided. It stays on its way meanwhile.
                      context_.timers.arm(base::k_interrupt_retry, [this, told, turn, id, option_id] {
                          if (const auto left = told.lock()) {
                              --*left;
                              tell_permission(turn, id, option_id);
                          }
                      });
                  });
}

}  // namespace atl::conversation
