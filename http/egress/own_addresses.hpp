// Which addresses are this host's own: the kernel is asked for the route to each (rtnetlink(7)), as it looks
// one up for a connection. So those count that an interface has, and those that a route of type `local` alone
// delivers here
// (`ip route add local`). A question takes some microseconds. Single-threaded. Not here: which addresses may
// be reached (core/egress/ceilings.hpp), and addresses that something before this host translates to its own.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plain/unique_fd.hpp"
#include "http/egress/egress_parts.hpp"

namespace atl::http {

class OwnAddresses {
  public:
    /// True if a connection to the address would end on this host. In the net namespace of the first call, in
    /// whose thread each call is made. Nothing where the kernel cannot be asked, as without a free
    /// descriptor: the next call tries again.
    std::optional<bool> has(const IpAddress& address);

  private:
    base::UniqueFd routes_;
    std::uint32_t asked_ = 0;
};

}  // namespace atl::http
