// What the proxy of a sandbox asks of others, as small interfaces: the rules, look-ups, connections, and the
// first bytes of a tunnel. Tests have fakes of each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"
#include "http/access/ip_address.hpp"
#include "http/egress/egress_bounds.hpp"
#include "http/wire/byte_stream.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

using EgressAddresses = std::vector<IpAddress>;

/// A target that the rules of a sandbox allow.
struct EgressGrant {
    std::string host;  // in small letters, without a dot at its end; a literal without brackets
    std::uint16_t port = 0;
    std::optional<IpAddress> address{};  // of a literal: nothing is looked up
    bool any_bytes = false;              // also bytes that are no TLS
    bool beyond_public = false;          // also addresses that the operator opened with --egress-private
};

/// The rules of one sandbox, with the ceilings of the key that set them. Does not change.
class EgressRules {
  public:
    virtual ~EgressRules() = default;
    /// `authority` is "host" or "host:port"; `default_port` 0: it has to name one. Nothing is looked up.
    /// Errors: invalid_request, for what is no host; network_not_allowed, whose detail is one line that names
    /// the host and the missing rule.
    virtual base::Result<EgressGrant> check(std::string_view authority, std::uint16_t default_port) const = 0;
    /// Whether a connection to an address of that target may be made.
    virtual bool may_dial(const EgressGrant& grant, const IpAddress& address) const = 0;
    /// Whether what these rules, or the rules before them, have granted may go on.
    virtual bool holds(const EgressGrant& grant) const = 0;
};

class EgressPolicy {
  public:
    virtual ~EgressPolicy() = default;
    /// As sandbox::Egress::check().
    virtual base::Result<void> check(const sandbox::EgressSettings& settings) const = 0;
    /// Never null. Settings that check() refuses now grant nothing.
    virtual std::unique_ptr<const EgressRules> rules(const sandbox::EgressSettings& settings) const = 0;
};

/// Looks a name up. `done` is called at most once, also from inside the call, and after the request is over.
/// Errors: upstream_failed, where the name has no address; deadline_exceeded; capacity.
using EgressLookUp = std::function<void(const std::string& sandbox_id, const std::string& host,
                                        std::function<void(base::Result<EgressAddresses>)> done)>;

/// Connects to the first of `addresses` that takes it. `done` as of a look-up; the stream is connected.
/// Errors: upstream_failed; deadline_exceeded.
using EgressDialDone = std::function<void(base::Result<std::unique_ptr<ByteStream>>)>;
using EgressDial = std::function<void(EgressAddresses addresses, std::uint16_t port, EgressDialDone done)>;

/// What the first bytes of a tunnel are.
enum class EgressOpening : std::uint8_t {
    more,     // cannot be told yet
    name,     // a ClientHello with a server name
    no_name,  // a ClientHello without one
    request,  // the line of a request
    other,    // anything else, TLS that is not well-formed among it
};

class EgressOpeningReader {
  public:
    virtual ~EgressOpeningReader() = default;
    /// `input`: all bytes since the tunnel is open. Never `more` once k_max_egress_opening_bytes have come.
    virtual EgressOpening read(std::string_view input) = 0;
    /// After EgressOpening::name: in small letters, without a dot at its end.
    virtual const std::string& server_name() const = 0;
};

struct EgressParts {
    const EgressPolicy& policy;  // outlives all that has these parts
    EgressLookUp look_up;
    EgressDial dial;
    std::function<std::unique_ptr<EgressOpeningReader>()> make_reader;
    std::shared_ptr<const TlsContext> upstream_tls{};  // for upstreams that the server itself verifies
    std::shared_ptr<EgressBounds> bounds{};            // null: there are none
};

}  // namespace atl::http
