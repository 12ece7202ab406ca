#include "bridge/guest/start_command.hpp"

namespace atl::guest {

void StartCommand::begin(Connection& connection, Command& command) {
    if (started_)
        return refuse(connection, "already started");
    const std::optional<AgentChoice> choice = parse_agent(command.agent);
    if (!choice)
        return refuse(connection, "start without an agent");
    std::unique_ptr<AgentRuntime> agent = make_agent(services_, *choice);
    if (!agent && choice->kind != bridge::agent_kind::none)
        return refuse(connection, "unknown kind of agent");
    started_ = true;
    control_ = &connection;
    with_ports_ = command.with_ports;
    if (!agent)
        return tell_ready({});
    slot_.launch(
        std::move(agent), [this](const std::string& error) { tell_ready(error); },
        [this](const std::string& detail) { tell_agent_exit(detail); });
}

void StartCommand::tell_ready(const std::string& error) {
    if (control_ == nullptr)
        return;
    control_->write(error.empty() ? std::string(bridge::k_reply_ok) : bridge::encode_refusal(error));
    // Nothing may come before the reply.
    if (error.empty() && with_ports_)
        ports_.begin([this](const std::vector<std::uint16_t>& ports) { return tell_ports(ports); });
}

bool StartCommand::tell_ports(const std::vector<std::uint16_t>& ports) {
    if (control_ == nullptr || !control_->wants_more())
        return false;
    control_->write(bridge::encode_ports(ports));
    return true;
}

void StartCommand::tell_agent_exit(const std::string& detail) {
    if (control_ != nullptr)
        control_->write(bridge::encode_agent_exit(detail));
}

void StartCommand::on_closed(Connection& connection) {
    if (&connection != control_)
        return;
    // No word of it in the log: either nobody reads that any more, or the host ends this sandbox.
    control_ = nullptr;
    services_.loop.stop(0);
}

}  // namespace atl::guest
