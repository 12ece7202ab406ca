// `start`: the first command of a generation. Its connection is the control stream, on which each end of an
// agent is told and, if asked for, the ports that are listened on; when it breaks, the host is gone and the
// guest ends.
#pragma once

#include "bridge/guest/agent_slot.hpp"
#include "bridge/guest/guest_command.hpp"
#include "bridge/guest/port_watch.hpp"

namespace atl::guest {

class StartCommand final : public GuestCommand {
  public:
    StartCommand(Services& services, AgentSlot& slot, PortWatch& ports)
        : services_(services), slot_(slot), ports_(ports) {}

    void begin(Connection& connection, Command& command) override;
    /// True if there is a control stream.
    bool is_started() const noexcept { return control_ != nullptr; }
    /// On the control stream; nothing without one.
    void tell_agent_exit(const std::string& detail);

  private:
    void on_closed(Connection& connection) override;
    void tell_ready(const std::string& error);
    bool tell_ports(const std::vector<std::uint16_t>& ports);

    Services& services_;
    AgentSlot& slot_;
    PortWatch& ports_;
    bool started_ = false;
    bool with_ports_ = false;
    Connection* control_ = nullptr;
};

}  // namespace atl::guest
