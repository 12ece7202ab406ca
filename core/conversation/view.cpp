#include "core/conversation/view.hpp"

#include <utility>

#include "core/conversation/actions.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {
namespace {

sandbox::Record without_env(sandbox::Record record) {
    record.env.clear();
    return record;
}

// The ports that a generation told last stand until it is cleaned up.
bool is_living(sandbox::Status status) {
    return status == sandbox::Status::ready || status == sandbox::Status::frozen;
}

}  // namespace

View view_of(const Context& context, Record record, const sandbox::Record& sandbox_record) {
    View view;
    view.log_epoch = context.settings.log_epoch;
    view.generation = sandbox_record.generation;
    view.sandbox_status = context.sandboxes.status(sandbox_record.id);
    view.sandbox_created_at = sandbox_record.created_at;
    view.network = {sandbox_record.network, sandbox_record.egress};
    view.limits = sandbox_record.limits;
    view.preview = sandbox_record.preview;
    if (is_living(view.sandbox_status))
        view.open_ports = open_ports_of(context, sandbox_record);
    view.enforcement =
        context.sandboxes.enforcement(context.sandboxes.network(sandbox_record), sandbox_record.id);
    view.record = std::move(record);
    return view;
}

SandboxView view_of(const Context& context, const sandbox::Record& record) {
    SandboxView view;
    view.record = without_env(record);
    view.status = context.sandboxes.status(record.id);
    const auto end = record.conversation_id.empty() ? context.sandboxes.last_end(record.id)
                                                    : std::optional<sandbox::Exit>();
    if (end && !sandbox::is_own_doing(end->exit_class))
        view.reason = pause_reason_of(end->exit_class);
    if (is_living(view.status))
        view.open_ports = open_ports_of(context, record);
    view.enforcement = context.sandboxes.enforcement(context.sandboxes.network(record), record.id);
    return view;
}

PortUrls open_ports_of(const Context& context, const sandbox::Record& record) {
    PortUrls ports;
    for (const std::uint16_t port : context.sandboxes.ports(record.id)) {
        const bool is_listed = context.port_url && record.preview.lists(port);
        ports.emplace(port, is_listed ? context.port_url(record, port) : std::string());
    }
    return ports;
}

PreviewView preview_of(const Context& context, const sandbox::Record& record) {
    PreviewView view;
    view.conversation_id = record.conversation_id;
    view.generation = record.generation;
    view.status = context.sandboxes.status(record.id);
    view.has_ended = record.gone || context.sandboxes.is_being_removed(record.id);
    view.network = context.sandboxes.network(record);
    view.settings = record.preview;
    view.max_sockets = record.limits.max_sockets;
    view.owner = sandbox::user_of(record);
    return view;
}

}  // namespace atl::conversation
