// `dial`: a connection to a port of the sandbox's own loopback, which the bridge's stream then is. Ports of
// the server (base::k_reserved_ports) are refused.
#pragma once

#include <list>

#include "bridge/guest/dial_relay.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class DialCommand final : public GuestCommand {
  public:
    explicit DialCommand(Loop& loop) : loop_(loop) {}
    void begin(Connection& connection, Command& command) override;

  private:
    Loop& loop_;
    std::list<DialRelay> relays_;  // bounded by the connections
};

}  // namespace atl::guest
