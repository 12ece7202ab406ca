// `agent`: starts an agent in a generation where none runs. Closing the connection before the reply cancels
// the start.
#pragma once

#include "bridge/guest/start_command.hpp"

namespace atl::guest {

class AgentCommand final : public GuestCommand {
  public:
    AgentCommand(Services& services, AgentSlot& slot, StartCommand& control)
        : services_(services), slot_(slot), control_(control) {}

    void begin(Connection& connection, Command& command) override;

  private:
    void on_closed(Connection& connection) override;
    void tell_ready(const std::string& error);

    Services& services_;
    AgentSlot& slot_;
    StartCommand& control_;
    Connection* starter_ = nullptr;  // waits for the reply
};

}  // namespace atl::guest
