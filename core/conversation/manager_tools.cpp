// The settings of tools, and the events that calls of tools leave in a log.
#include "core/conversation/manager.hpp"

namespace atl::conversation {

void Manager::tools(const std::string& sandbox_id, Reply<ToolSettings> reply) {
    with_owner(sandbox_id, [this, sandbox_id, reply](const base::Result<Conversation*>& owner) {
        if (!owner)
            return reply(owner.error());
        reply(*owner != nullptr ? (*owner)->record().tools : standalone_tools(sandbox_id));
    });
}

ToolSettings Manager::tools(const Lease& lease) const {
    const Conversation* const conversation = residents_.find_by_sandbox(lease.sandbox_id());
    return conversation != nullptr ? conversation->record().tools : standalone_tools(lease.sandbox_id());
}

ToolSettings Manager::standalone_tools(const std::string& sandbox_id) const {
    const sandbox::Record* const record = context_.sandboxes.find(sandbox_id);
    return record != nullptr ? record->tools : ToolSettings();
}

void Manager::files_changed(const std::string& sandbox_id, const FileChange& change) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        conversation->on_files_changed(change);
}

void Manager::tool_progress(const std::string& sandbox_id, const ToolProgress& progress) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id);
        conversation && !shutting_down_)
        conversation->on_tool_progress(progress);
}

void Manager::on_egress(const std::string& sandbox_id, const EgressNotice& notice) {
    Conversation* const conversation = residents_.find_by_sandbox(sandbox_id);
    if (shutting_down_ || (conversation != nullptr && conversation->on_egress(notice)))
        return;
    context_.sandboxes.note(sandbox_id, std::string(to_string(type_of(notice))) + ' ' + egress_data(notice));
}

bool Manager::on_egress_question(const std::string& sandbox_id, const EgressQuestion& question) {
    Conversation* const conversation = residents_.find_by_sandbox(sandbox_id);
    return !shutting_down_ && conversation != nullptr && conversation->on_egress_question(question);
}

void Manager::on_egress_decision(const std::string& sandbox_id, const std::string& id,
                                 std::string_view decision) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        conversation->on_egress_decision(id, decision);
}

void Manager::allow_host(const std::string& sandbox_id, const std::string& rule,
                         const std::string& by_user_id, Reply<View> reply) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        return conversation->allow_host(rule, by_user_id, std::move(reply));
    reply(base::Error(base::Errc::not_found));
}

const Record* Manager::record_of_sandbox(const std::string& sandbox_id) const {
    const Conversation* const conversation = residents_.find_by_sandbox(sandbox_id);
    return conversation == nullptr ? nullptr : &conversation->record();
}

}  // namespace atl::conversation
