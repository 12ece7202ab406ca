// The floor of `stream_events_per_s`: the agent of event_agent.cpp on a pipe, and a loop that commits to
// SQLite what one read brings, frames each line and sends the lot over loopback TCP to the same client.
#pragma once

#include <optional>

#include "tests/bench/child.hpp"
#include "tests/bench/temp_dir.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {

class BareStream {
  public:
    /// Starts the loop's and the agent's process.
    BareStream();

    /// Milliseconds until the client has got `events` events and the end of the turn.
    double run(std::size_t events);

  private:
    void serve(int listener) const;

    TempDir dir_;
    std::optional<Child> loop_;
    std::optional<WebSocket> socket_;
};

}  // namespace atl::bench
