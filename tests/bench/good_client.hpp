// Two clients that behave, beside whatever load there is: a message every 5 ms, each to its first event. One
// talks to the server, the other at the same time to a bare loop (bare_loop.hpp) of the server's priority:
// its p99 is the floor of the server's p99 beside the same load.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "tests/bench/bare_loop.hpp"
#include "tests/bench/event_server.hpp"
#include "tests/bench/p99.hpp"

namespace atl::bench {

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
