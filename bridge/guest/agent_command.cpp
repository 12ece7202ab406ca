#include "bridge/guest/agent_command.hpp"

#include <utility>

namespace atl::guest {

void AgentCommand::begin(Connection& connection, Command& command) {
    if (!control_.is_started())
        return refuse(connection, "not started");
    if (const std::string_view why = slot_.why_busy(); !why.empty())
        return refuse(connection, why);
    const std::optional<AgentChoice> choice = parse_agent(command.agent);
    if (!choice)
        return refuse(connection, "no agent is named");
    std::unique_ptr<AgentRuntime> agent = make_agent(services_, *choice);
    if (!agent)
        return refuse(connection, "unknown kind of agent");
    starter_ = &connection;
    slot_.launch(
        std::move(agent), [this](const std::string& error) { tell_ready(error); },
        [this](const std::string& detail) { control_.tell_agent_exit(detail); });
}

void AgentCommand::tell_ready(const std::string& error) {
    Connection* const starter = std::exchange(starter_, nullptr);
    if (starter == nullptr)
        return;
    if (error.empty())
        return reply_ok(*starter);
    refuse(*starter, error);
}

void AgentCommand::on_closed(Connection& connection) {
    if (&connection != starter_)
        return;
    starter_ = nullptr;
    slot_.cancel_start();
}

}  // namespace atl::guest
