#include "bridge/guest/query_command.hpp"

#include <utility>

namespace atl::guest {

void QueryCommand::begin(Connection& connection, Command& command) {
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr) {
        connection.write(bridge::encode_error_event("no_agent", "no agent runs in this sandbox"));
        connection.write(bridge::k_done_line);
        return connection.finish();
    }
    agent->begin(TurnRequest{std::move(command.turn), std::move(command.prompt), command.line}, connection);
}

void QueryCommand::on_drained(Connection& connection) {
    if (AgentRuntime* const agent = slot_.agent())
        agent->resume(connection);
}

void QueryCommand::on_closed(Connection& connection) {
    if (AgentRuntime* const agent = slot_.agent())
        agent->abandon(connection);
}

void InterruptCommand::begin(Connection& connection, Command& command) {
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr || !agent->interrupt(command.turn))
        return refuse(connection, "no such turn");
    reply_ok(connection);
}

}  // namespace atl::guest
