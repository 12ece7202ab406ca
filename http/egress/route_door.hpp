// The routes of one sandbox: a service whose listener lies inside. A request for /NAME/REST goes to the
// upstream of the route NAME, with the headers that the route sets, and without what the program inside says
// of who asks. An upstream meets the rules of a list with it alone; each request has a connection of its own,
// so that none is another's. Not here: look-ups and connections (egress_door.hpp), which fields pass
// (http/proxy/heads.hpp), the grammar of routes (core/egress/route.hpp).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/egress/route.hpp"
#include "http/egress/egress_door.hpp"

namespace atl::http {

class RouteDoor final : public Service, public std::enable_shared_from_this<RouteDoor> {
  public:
    /// `door`: of the same sandbox; `defaults` are the operator's.
    RouteDoor(std::string sandbox_id, EgressParts parts, std::shared_ptr<EgressDoor> door,
              std::vector<sandbox::EgressRoute> defaults, const sandbox::EgressSettings& settings);
    ~RouteDoor() override;

    /// The services of the listener, which live as long as this.
    std::shared_ptr<const Services> services();
    /// From now on these settings count; what is open by a route that they do not have is cut. With another
    /// mode than egress there are no routes, those of the operator neither.
    void change(const sandbox::NetworkSettings& network);
    /// Requests that are under way.
    std::size_t open() const noexcept { return flows_.size(); }

    Decision admit(RequestContext& context, const Arrival& arrival) override;
    Response refuse(const RequestContext& context, const base::Error& error) override {
        return door_->refuse(context, error);
    }

  private:
    struct Route {
        sandbox::EgressRoute settings;
        std::string user_id;  // of the key that set it
        egress::Upstream upstream;
        std::unique_ptr<const EgressRules> rules;
    };
    using RoutePtr = std::shared_ptr<const Route>;
    struct Open {
        RoutePtr route;
        Connection* client;
    };
    /// A request that its route lets through.
    struct Asked {
        RoutePtr route;
        std::string path;  // at the upstream
    };

    void add(const sandbox::EgressRoute& route, const std::string& user_id);
    bool is_current(const RoutePtr& route) const;
    base::Result<Asked> find(const Request& request) const;
    base::Task<base::Result<Response>> async_answer(RequestContext& context);
    base::Task<base::Result<Response>> async_open(RequestContext& context, const Asked& asked,
                                                  std::shared_ptr<EgressReport> report);
    base::Task<base::Result<std::unique_ptr<ByteStream>>> async_connect(RequestContext& context,
                                                                        const Route& route,
                                                                        const EgressGrant& target,
                                                                        EgressReport& report);
    base::Result<SetFields> fields_of(const Route& route) const;
    std::shared_ptr<const void> enlist(const RoutePtr& route, Connection& client);

    const std::string sandbox_id_;
    const EgressParts parts_;
    const std::shared_ptr<EgressDoor> door_;
    const std::vector<sandbox::EgressRoute> defaults_;
    std::map<std::string, RoutePtr, std::less<>> routes_;  // by name
    std::list<Open> flows_;
    const Services services_{*this};
    const Handler handler_;
};

/// Checks the routes of settings as they are set: what `policy` says of each upstream, and that the secrets
/// are there and for it. Errors: those of EgressPolicy::check() and EgressSecrets::check(), about
/// /network/routes/N; network_not_allowed, for an http: upstream that the operator does not name.
base::Result<void> check_routes(const EgressParts& parts, const sandbox::EgressSettings& settings);

}  // namespace atl::http
