// Serves one request on the way out of a sandbox, once its target is granted and connected: CONNECT, whose
// bytes pass if they begin as they should, or a request with an absolute target. Invariants: no byte of a
// tunnel reaches the upstream before the first of them are known to be TLS for the granted name, unless the
// rule takes any bytes, and no other ClientHello that the upstream asks for is for another name; Host is the
// granted name. The TLS of a host whose rule sets headers ends here: requests in it are read, and SNI, the
// name of the tunnel and Host are one (a second ClientHello may name another host, which chooses nothing:
// certificate, upstream and Host stay those of the granted name). Not here: rules, look-ups, connections
// (egress_door.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/egress/egress_parts.hpp"
#include "http/egress/egress_report.hpp"
#include "http/egress/hello_gate.hpp"
#include "http/proxy/exchange.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

/// "host", "host:8080" or "[v6]:8080", as Host has it; `usual_port` is left out.
std::string egress_authority(const EgressGrant& grant, std::uint16_t usual_port);

class EgressFlow final : public Relay {
  public:
    /// `open` is told of the client's connection as the flow begins; what it gives lives as long as the flow.
    /// `refuse` makes the answer to a request that got none. `report` is told why the flow ends, and lives as
    /// long; it may be null without make_heads.
    struct Ports {
        std::function<std::shared_ptr<const void>(Connection& client)> open;
        Exchange::Refusal refuse;
        std::function<std::unique_ptr<EgressOpeningReader>()> make_reader;
        std::shared_ptr<EgressReport> report{};
        std::shared_ptr<RelayTurns> turns{};  // null: its bytes are of no turns
        /// For each request, or why it does not pass, which its report is told; empty: those of a proxy.
        std::function<base::Result<std::unique_ptr<HeadPolicy>>(const Request& request, EgressReport& report)>
            make_heads{};
        /// The certificate for the granted name, with which the tunnel is opened. Null: it stays shut.
        std::shared_ptr<const TlsContext> tls{};
        /// Connects again where the upstream has ended the connection between two requests of a tunnel, for
        /// the later one, whose report stays until then; empty: the tunnel ends with it.
        std::function<base::Task<base::Result<std::unique_ptr<ByteStream>>>(
            const std::shared_ptr<EgressReport>& report)>
            reconnect{};
    };
    EgressFlow(EgressForm form, EgressGrant grant, std::unique_ptr<ByteStream> upstream, Ports ports);
    ~EgressFlow() override;

    base::Task<Outcome> async_run(Connection& connection, RequestParser& request,
                                  const ServerState& state) override;

  private:
    enum class Way : std::uint8_t { tunnel, requests, opened, cut };

    base::Result<std::unique_ptr<Exchange>> exchange(const Request& request) const;
    base::Task<Outcome> async_connect(Connection& client, const ServerState& state);
    base::Task<Way> async_find_way(Connection& client);
    Way way_of(EgressOpening opening, const EgressOpeningReader& reader) const;
    /// True for a ClientHello that is for the granted host.
    bool is_for_host(EgressOpening opening, const EgressOpeningReader& reader) const;
    Way cut(EgressReason reason) const;
    base::Task<After> async_serve_opened(Connection& client, const ServerState& state);
    std::unique_ptr<Response> refusal_of(const base::Error& error) const;
    base::Task<After> async_refuse(Connection& client, const Request& request, const Response& refusal) const;
    base::Task<std::unique_ptr<Response>> async_renew();
    base::Task<After> async_serve_requests(Connection& client, const ServerState& state);
    base::Task<bool> async_read_head(Connection& client, RequestParser& parser, const ServerState& state);

    const EgressForm form_;
    const EgressGrant grant_;
    class Upstream;
    std::shared_ptr<Upstream> upstream_;
    Ports ports_;
    std::shared_ptr<EgressReport> asked_;  // of the request that is under way, or of the tunnel; may be null
    std::unique_ptr<HelloGate> gate_;      // null: the tunnel takes any bytes, or is not there
};

}  // namespace atl::http
