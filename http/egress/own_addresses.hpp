// The addresses of this host's interfaces, as they are at each call. They are read once, and again after the
// kernel has told of a change (rtnetlink(7)): it tells before it delivers to a new address, so no connection
// is made to one that is not known here. An exception is an optimistic IPv6 address (RFC 4429, off by
// default), which is told of a second after it serves. Reading them takes longer than all else that the proxy
// does for a connection. Single-threaded. Not here: which addresses may be reached
// (core/egress/ceilings.hpp).
#pragma once

#include <optional>

#include "core/plain/unique_fd.hpp"
#include "http/egress/egress_parts.hpp"

namespace atl::http {

class OwnAddresses {
  public:
    /// They are of the net namespace of the first call, in whose thread each call is made. Nothing where they
    /// cannot be read, as without a free descriptor: the next call tries again. Valid until the next call.
    const std::optional<EgressAddresses>& now();

  private:
    base::UniqueFd changes_;  // none: the kernel tells of no change, and each call reads
    std::optional<EgressAddresses> known_;
};

}  // namespace atl::http
