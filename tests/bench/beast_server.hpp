// The floor that our own WebSocket codec has to justify itself against: a plain server with Beast's
// websocket::stream, one loop, no compression, no timeouts, no keys. A message from any client goes to a peer
// process as a line over a Unix socket. When the peer has answered, every client gets the same text messages:
// with one client an echo, with many a fan-out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/child.hpp"

namespace atl::bench {

class BeastServer {
  public:
    /// Starts server and peer. `payloads`: the messages that each client gets for one message from any of
    /// them.
    explicit BeastServer(std::vector<std::string> payloads);
    std::uint16_t port() const { return port_; }
    pid_t pid() const { return server_->pid(); }

  private:
    std::uint16_t port_ = 0;
    std::unique_ptr<Child> peer_;
    std::unique_ptr<Child> server_;
};

}  // namespace atl::bench
