// Small interfaces to what the proxy of a sandbox needs: the rules, look-ups, connections, the first bytes of
// a tunnel, and reports on requests. Tests have fakes of each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"
#include "http/access/ip_address.hpp"
#include "http/egress/egress_bounds.hpp"
#include "http/wire/byte_stream.hpp"

namespace atl::http {

class EgressQuestions;

using EgressAddresses = std::vector<IpAddress>;

/// A target that the rules of a sandbox allow.
struct EgressGrant {
    std::string host;  // in small letters, without a dot at its end; a literal without brackets
    std::uint16_t port = 0;
    std::optional<IpAddress> address{};  // of a literal: nothing is looked up
    bool any_bytes = false;              // also bytes that are no TLS
    bool beyond_public = false;          // also addresses that the operator opened with --egress-private
    bool was_asked = false;              // no rule lists it: a person decides on it
};

/// The rules of one sandbox, with the ceilings of the key that set them. Does not change.
class EgressRules {
  public:
    virtual ~EgressRules() = default;
    /// `authority` is "host" or "host:port"; `default_port` 0: it has to name one. Nothing is looked up.
    /// Errors: invalid_request, for what is no host; network_not_allowed, whose detail is one line that names
    /// the host and the missing rule.
    virtual base::Result<EgressGrant> check(std::string_view authority, std::uint16_t default_port) const = 0;
    /// The target of a request that check() refuses, where a person may decide on it: the rules say so, and
    /// it is within the ceilings. Else nothing.
    virtual std::optional<EgressGrant> askable(std::string_view authority,
                                               std::uint16_t default_port) const = 0;
    /// Removes the addresses of that target that no connection may be made to.
    virtual void keep_dialable(const EgressGrant& grant, EgressAddresses& addresses) const = 0;
    /// True if the operator names that address and port with --egress-private.
    virtual bool is_opened(const IpAddress& address, std::uint16_t port) const = 0;
    /// True if what these rules, or the rules before them, have granted may go on.
    virtual bool holds(const EgressGrant& grant) const = 0;
};

class EgressPolicy {
  public:
    virtual ~EgressPolicy() = default;
    /// The same check as sandbox::Egress::check().
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

/// Speaks TLS on a connected stream, towards a server with a good certificate for `name`, a host name or an
/// address literal without brackets. `done` as of a look-up. Errors: upstream_failed; deadline_exceeded.
using EgressSecure =
    std::function<void(std::unique_ptr<ByteStream> stream, const std::string& name, EgressDialDone done)>;

/// The secrets that routes name. `user_id`: of the key that set the route; empty: a key without a user did.
/// `host`: of the upstream, as EgressGrant has it.
class EgressSecrets {
  public:
    virtual ~EgressSecrets() = default;
    /// Errors: secret_not_found for a secret that this user does not have; secret_host, for one that is for
    /// other hosts.
    virtual base::Result<void> check(const std::string& name, const std::string& user_id,
                                     const std::string& host) const = 0;
    /// Calls `take` with the value, which is wiped after the call. Errors: those of check(), and those of
    /// what cannot be read now.
    virtual base::Result<void> open(const std::string& name, const std::string& user_id,
                                    const std::string& host,
                                    const std::function<void(std::string_view value)>& take) const = 0;
};

/// The kind of the first bytes of a tunnel.
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
    /// After `name` and `no_name`: the bytes of the ClientHello, with which the input begins.
    virtual std::size_t size() const = 0;
};

/// Why a request was refused, or a tunnel cut: `reason` of the event egress_denied.
enum class EgressReason : std::uint8_t {
    not_listed,
    ip_literal,       // no rule lists this address
    private_address,  // the name has no address that may be reached
    dns,              // the name has no address, or no name server gave an answer
    sni_mismatch,     // TLS for another name, or for none
    not_tls,          // the tunnel began with other bytes, or with none in time
    limit,            // a bound of the sandbox, of its user or of the server
    rule,             // the host is listed, but its rule lets no such request through
};
inline constexpr std::size_t k_egress_reasons = 8;
/// The text has static storage.
std::string_view to_string(EgressReason reason) noexcept;

/// How a program inside asks: with CONNECT, an absolute target, a path below the name of a route, or inside a
/// tunnel whose requests are read.
enum class EgressForm : std::uint8_t { connect, absolute, route, tunneled };

/// A request on the way out of a sandbox.
struct EgressRequest {
    std::string sandbox_id;
    std::string host{};  // as in EgressGrant; empty: what was asked for is no host
    std::uint16_t port = 0;
    EgressForm form = EgressForm::connect;
    std::string method{};  // as the program wrote it
    std::string route{};   // the name of the rule, of EgressForm::route
};

/// How it ended.
struct EgressEnd {
    std::optional<EgressReason> denied{};
    std::optional<base::Errc> failed{};  // the upstream gave no answer, or what was asked for is no request
    bool was_open = false;               // it was connected; never of EgressForm::tunneled: its tunnel was
    std::uint64_t bytes_up = 0;          // to the upstream; those of a tunnel are of its requests, too
    std::uint64_t bytes_down = 0;
    base::Millis lasted{0};
};

/// Told of all requests of all sandboxes. Nothing here may act on a request.
class EgressReports {
  public:
    virtual ~EgressReports() = default;
    virtual base::SteadyTime now() const = 0;
    /// A name was looked up, perhaps in the cache.
    virtual void looked_up(bool was_found) = 0;
    /// A request is connected: ended() follows.
    virtual void opened() = 0;
    /// Once a request, whatever came of it.
    virtual void ended(const EgressRequest& request, const EgressEnd& end) = 0;
};

struct EgressParts {
    const EgressPolicy& policy;  // outlives all that has these parts
    EgressLookUp look_up;
    EgressDial dial;
    std::function<std::unique_ptr<EgressOpeningReader>()> make_reader;
    EgressSecure secure{};                     // of routes; empty: they have no https: upstreams
    const EgressSecrets* secrets = nullptr;    // outlives all that has these parts; null: there are none
    std::shared_ptr<EgressReports> reports{};  // null: nobody is told
    std::shared_ptr<EgressBounds> bounds{};    // null: there are none
    EgressQuestions* questions = nullptr;      // outlives all that has these parts; null: nobody is asked
    bool has_lists = true;                     // false: the routes of agents are all that is reached
};

}  // namespace atl::http
