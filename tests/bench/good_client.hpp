// Clients that behave: a message every 5 ms, each to its first event. What they feel of what others do.
// Beside the server's own client one talks to a bare loop (bare_loop.hpp): what it feels as well is the
// machine's doing.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/event_server.hpp"

namespace atl::bench {

struct P99 {
    double ms = 0;       // of the server's client
    double bare_ms = 0;  // of the bare loop's, at the same time
};

class GoodClients {
  public:
    /// `id` is a conversation of `echo`.
    GoodClients(const EventServer& server, std::string id);
    /// Blocks for so long; `meanwhile` is called every hundredth of it.
    P99 talk_for(double for_ms, const std::function<void()>& meanwhile = {});

  private:
    const EventServer& server_;
    std::string id_;
    BareLoop bare_;
};

}  // namespace atl::bench
