// A server whose agent `events` writes as many events as it is told to (event_agent.cpp), with bounds of the
// log that let one turn hold them all. Its agent `acp` is the same program and speaks ACP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/server.hpp"
#include "tests/bench/temp_dir.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {

class EventServer {
  public:
    /// `more` goes to the server's command line.
    explicit EventServer(const std::vector<std::string>& more = {});

    const Server& server() const { return *server_; }
    /// A new conversation with an agent; returns its id.
    std::string create_conversation(std::string_view agent = "events") const;
    WebSocket open_socket(const std::string& id, std::uint64_t after = 0) const;
    /// Runs a turn of `events` events to its `done`, on a socket that has seen all there is. Throws unless
    /// each of them arrived. Returns its milliseconds.
    static double run_turn(WebSocket& socket, std::size_t events);
    /// The number of the last event of the log.
    std::uint64_t last_seq(const std::string& id) const;

  private:
    TempDir dir_;
    std::optional<Server> server_;
};

}  // namespace atl::bench
