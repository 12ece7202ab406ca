// Where a proxied request goes: connections to one port inside one sandbox.
#pragma once

#include <memory>

#include "core/base/error.hpp"
#include "http/wire/byte_stream.hpp"

namespace atl::http {

/// A connection to the dev server.
struct Upstream {
    std::unique_ptr<ByteStream> stream;  // non-blocking; may still be connecting
    bool is_reused = false;              // answered a request before: it may have been closed since
};

enum class Reuse : std::uint8_t { no, allowed };

/// The connections to one port, as one request sees them.
class UpstreamPort {
  public:
    virtual ~UpstreamPort() = default;
    /// A connection; with Reuse::allowed perhaps one that is kept. Errors: no_listener; upstream_failed;
    /// sandbox_gone; capacity; user_share; too_many_connections.
    virtual base::Result<Upstream> connect(Reuse reuse) = 0;
    /// Keeps a connection on which a request was answered as a whole, for the next one.
    virtual void keep(std::unique_ptr<ByteStream> stream) = 0;
    /// True while so many requests are under way that each client has to keep a pace.
    virtual bool is_crowded() const = 0;
};

}  // namespace atl::http
