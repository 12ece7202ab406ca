// `query`: a turn of the agent, whose events are the stream; and `interrupt`, which ends one early. A turn
// for which there is no room begins once the processes that earlier turns left running are ended.
#pragma once

#include <list>
#include <string>

#include "bridge/guest/agent_slot.hpp"
#include "bridge/guest/guest_command.hpp"
#include "bridge/guest/strays.hpp"

namespace atl::guest {

class QueryCommand final : public GuestCommand {
  public:
    QueryCommand(AgentSlot& slot, Strays& strays) : slot_(slot), strays_(strays) {}
    void begin(Connection& connection, Command& command) override;

  private:
    /// A turn that begins when there is room.
    struct Waiting {
        Connection* connection;
        std::string line;  // what request.line is a view of
        TurnRequest request;
    };

    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;
    void make_room(Connection& connection, TurnRequest request);
    void go_on(std::size_t ended);
    void begin_again(const Waiting& turn, std::size_t ended);

    AgentSlot& slot_;
    Strays& strays_;
    std::list<Waiting> waiting_;
};

/// The answer to a permission that the agent of a turn asked for.
class PermissionCommand final : public GuestCommand {
  public:
    explicit PermissionCommand(AgentSlot& slot) : slot_(slot) {}
    void begin(Connection& connection, Command& command) override;

  private:
    AgentSlot& slot_;
};

class InterruptCommand final : public GuestCommand {
  public:
    explicit InterruptCommand(AgentSlot& slot) : slot_(slot) {}
    void begin(Connection& connection, Command& command) override;

  private:
    AgentSlot& slot_;
};

}  // namespace atl::guest
