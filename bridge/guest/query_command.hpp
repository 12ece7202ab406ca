// `query`: a turn of the agent, whose events are the stream; and `interrupt`, which ends one early.
#pragma once

#include "bridge/guest/agent_slot.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class QueryCommand final : public GuestCommand {
  public:
    explicit QueryCommand(AgentSlot& slot) : slot_(slot) {}
    void begin(Connection& connection, Command& command) override;

  private:
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;

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
