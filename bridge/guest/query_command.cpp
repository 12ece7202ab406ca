#include "bridge/guest/query_command.hpp"

#include <string>
#include <utility>

#include "bridge/guest/log.hpp"

namespace atl::guest {

namespace {

void end_with_error(Connection& connection, std::string_view code, std::string_view message) {
    connection.write(bridge::encode_error_event(code, message));
    connection.write(bridge::k_done_line);
    connection.finish();
}

}  // namespace

void QueryCommand::begin(Connection& connection, Command& command) {
    TurnRequest request{std::move(command.turn), std::move(command.prompt), command.line};
    if (request.line.ends_with(bridge::k_end_leftovers) || strays_.is_crowded())
        return make_room(connection, std::move(request));
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr)
        return end_with_error(connection, "no_agent", "no agent runs in this sandbox");
    if (agent->begin(request, connection) == Begun::no_room)
        make_room(connection, std::move(request));
}

void QueryCommand::make_room(Connection& connection, TurnRequest request) {
    std::string line(request.line);
    if (line.ends_with(bridge::k_end_leftovers))
        line.replace(line.size() - bridge::k_end_leftovers.size(), std::string::npos, "}");
    Waiting& turn = waiting_.emplace_back(&connection, std::move(line), std::move(request));
    turn.request.line = turn.line;
    if (waiting_.size() == 1)
        strays_.end([this](std::size_t ended) { go_on(ended); });
}

void QueryCommand::go_on(std::size_t ended) {
    while (!waiting_.empty()) {
        std::list<Waiting> turn;
        turn.splice(turn.begin(), waiting_, waiting_.begin());
        begin_again(turn.front(), std::exchange(ended, 0));
    }
}

void QueryCommand::begin_again(const Waiting& turn, std::size_t ended) {
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr)
        return end_with_error(*turn.connection, "no_agent", "no agent runs in this sandbox");
    if (ended > 0) {
        const std::string what = ended == 1 ? "1 process" : std::to_string(ended) + " processes";
        const std::string notice = "atoll: the sandbox was at its limit of processes; ended " + what +
                                   " that earlier commands had left running\n";
        log(notice.substr(0, notice.size() - 1));
        turn.connection->write(bridge::encode_notice(notice));
    }
    if (agent->begin(turn.request, *turn.connection) == Begun::no_room)
        end_with_error(*turn.connection, "process_limit",
                       "the sandbox is at its limit of processes, so the command could not be started; end "
                       "some of its programs, or raise `limits.maxProcesses`");
}

void QueryCommand::on_drained(Connection& connection) {
    if (AgentRuntime* const agent = slot_.agent())
        agent->resume(connection);
}

void QueryCommand::on_closed(Connection& connection) {
    waiting_.remove_if([&](const Waiting& turn) { return turn.connection == &connection; });
    if (AgentRuntime* const agent = slot_.agent())
        agent->abandon(connection);
}

void PermissionCommand::begin(Connection& connection, Command& command) {
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr || !agent->permit(command.turn, command.line))
        return refuse(connection, "no such turn");
    reply_ok(connection);
}

void InterruptCommand::begin(Connection& connection, Command& command) {
    AgentRuntime* const agent = slot_.agent();
    if (agent == nullptr || !agent->interrupt(command.turn))
        return refuse(connection, "no such turn");
    reply_ok(connection);
}

}  // namespace atl::guest
