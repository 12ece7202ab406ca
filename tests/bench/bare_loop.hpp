// The floor of messages and turns: what a plain program needs for the same work. A bare epoll loop takes an
// HTTP request (head to the blank line, body by Content-Length, nothing else is looked at), passes a line
// over a Unix socket to a peer process, takes the peer's two lines and sends them as the response. For turns
// it first writes both events and the turn's row to SQLite, in one commit for all that one turn of the loop
// has brought. Each client connection has its own Unix connection, kept open: faster than one a message.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "tests/bench/child.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {

enum class Persist { nothing, sqlite };

class BareLoop {
  public:
    /// Starts loop and peer for at most `connections` clients. With a `nice` below 0 the loop has this
    /// priority, where it may; the peer never has.
    BareLoop(std::size_t connections, Persist persist, int nice = 0);
    std::uint16_t port() const { return port_; }

  private:
    TempDir dir_;
    std::uint16_t port_ = 0;
    std::unique_ptr<Child> peer_;
    std::unique_ptr<Child> loop_;
};

}  // namespace atl::bench
