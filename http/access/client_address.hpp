// Finds the client of a request behind proxies: X-Forwarded-For, -Proto and -Host count only if the peer of
// the connection is a proxy that the operator named; from any other peer they are ignored, since any client
// can write them. Pure: fields in, a value out. Every field is hostile.
// Not here: limits of an address (client_limits.hpp), the check of a host name (access.hpp).
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
    /// Adds "10.0.0.0/8", "2001:db8::1" or the word "unix", which means every peer on a Unix socket. False:
    /// `text` is none of them.
    bool add(std::string_view text);

    bool contains(const PeerAddress& peer) const noexcept;
    bool is_empty() const noexcept { return prefixes_.empty() && !unix_; }

  private:
    std::vector<IpPrefix> prefixes_;
    bool unix_ = false;
};

struct Client {
    PeerAddress address;
    bool is_trusted = false;  // the address itself is a named proxy: it has no limits of its own
    // The scheme and host of the client's request, as a trusted proxy's fields give them; views into the
    // request. Empty: not given.
    std::string_view host;
    std::string_view scheme;  // "http" or "https"
};

/// The client that sent `request`. The fields of X-Forwarded-For are one list in the order in which they
/// came. From the right, named proxies are skipped; the first other address is the client. If an element is
/// no address (a port behind it is dropped), or there are more than k_max_forwarded_hops elements, the peer
/// is the client. If all are named proxies, the leftmost is the client. Of -Proto and -Host the last element
/// counts, which the peer itself wrote; a malformed element counts as none.
Client client_of(const Request& request, const PeerAddress& peer, const TrustedProxies& trusted);

}  // namespace atl::http
