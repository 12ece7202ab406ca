// The service of the API: a table of routes behind keys. Admits a request from its head: how much its address
// may ask, which site it comes from, whose key or token it has, how much that one may ask, whether there is
// such a route, and whether the route is for it. Errors are problem+json; pages of allowed origins may read
// them, and pages of others why they are refused. Not here: what the routes do, whose key it is (access.hpp),
// the numbers (settings.hpp).
#pragma once

#include "http/access/client_limits.hpp"
#include "http/server/limit_log.hpp"
#include "http/server/router.hpp"
#include "http/server/service.hpp"
#include "http/server/settings.hpp"

namespace atl::http {

class Gate final : public Service {
  public:
    /// `authenticator` and what the routes refer to must outlive the gate.
    Gate(GateSettings settings, Router router, const Authenticator& authenticator);

    base::Result<CountLimiter::Lease> connect(const PeerAddress& peer) override;
    Decision admit(RequestContext& context, const Arrival& arrival) override;
    /// A problem; logged if it is a limit.
    Response refuse(const RequestContext& context, const base::Error& error) override;
    /// Counts as a request of the peer, since nobody else is known.
    Response refuse_unread(RequestContext& context, const Arrival& arrival,
                           const base::Error& error) override;
    void complete(const Request& request, Response& response) override;

  private:
    /// The parts of a refusal besides its error.
    struct Refusal {
        std::string allow;
        bool by_close_frame = false;  // the client gets its WebSocket, and reads the error there
    };

    base::Result<const Route*> find_route(RequestContext& context, const Arrival& arrival, Refusal& refusal);
    base::Result<void> admit_site(const RequestContext& context, const Arrival& arrival) const;
    base::Result<const Route*> refuse_site(const Request& request, const base::Error& error,
                                           Refusal& refusal) const;
    base::Result<void> admit_principal(RequestContext& context, const Arrival& arrival,
                                       const Router::Match& match, Refusal& refusal);
    base::Result<Principal> identify(const Router::Match& match, const Request& request,
                                     const std::string* token) const;
    static Response close_socket(const RequestContext& context, const Arrival& arrival,
                                 const base::Error& error);
    static base::Result<void> admit_query(const Route& route, RequestContext& context);

    const GateSettings settings_;
    const Router router_;
    const Authenticator& authenticator_;
    ClientLimits limits_;
    LimitLog limit_log_;
};

}  // namespace atl::http
