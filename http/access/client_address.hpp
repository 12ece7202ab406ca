// Who a request comes from when proxies are in between: X-Forwarded-For, -Proto and -Host count only where
// the peer of the connection is a proxy that the operator named; from anyone else they are ignored, since
// anyone can write them. Pure: fields in, a value out. Every field is hostile.
// Not here: what follows from an address (client_limits.hpp), whether a host may be asked (access.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/access/ip_address.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The other end of a connection; nothing for a Unix socket.
using PeerAddress = std::optional<IpAddress>;

/// "192.0.2.1", "2001:db8::1" or "unix", for logs.
std::string address_text(const PeerAddress& address);

/// The proxies that the operator named.
class TrustedProxies {
  public:
    /// Adds "10.0.0.0/8", "2001:db8::1" or the word "unix": whoever connects to a Unix socket. False: it is
    /// none of them.
    bool add(std::string_view text);

    bool contains(const PeerAddress& peer) const noexcept;

  private:
    std::vector<IpPrefix> prefixes_;
    bool unix_ = false;
};

struct Client {
    PeerAddress address;
    bool is_trusted = false;  // the address itself is a named proxy: it has no limits of its own
    // What a trusted proxy says that the client asked for; views into the request. Empty: nothing.
    std::string_view host;
    std::string_view scheme;  // "http" or "https"
};

/// Who sent `request`. The fields of X-Forwarded-For are one list in the order in which they came; from the
/// right each named proxy is skipped, and the first address that is none is the client. An element that is no
/// address (a port behind it is dropped), or more than k_max_forwarded_hops of them: the peer counts. If all
/// are named proxies, the leftmost counts. Of -Proto and -Host the last element counts, which the peer itself
/// wrote; one that is not of its form counts as none.
Client client_of(const Request& request, const PeerAddress& peer, const TrustedProxies& trusted);

}  // namespace atl::http
