// The routes of one sandbox: a service whose listener lies inside. A request for /NAME/REST goes to the
// upstream of the route NAME, with the headers that the route sets, and without what the program inside says
// of who asks. Each request has a connection of its own, so that none is another's. Not here: what a route
// lets through and sets (route_rules.hpp), look-ups and connections (egress_door.hpp).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/egress/egress_door.hpp"
#include "http/egress/route_rules.hpp"

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

    bool is_logged() const noexcept override { return false; }
    Decision admit(RequestContext& context, const Arrival& arrival) override;
    Response refuse(const RequestContext& context, const base::Error& error) override {
        return door_->refuse(context, error);
    }

  private:
    struct Open {
        RouteRulePtr route;
        Connection* client;
    };
    /// Which route a request means.
    struct Asked {
        RouteRulePtr route;  // null: there is none of this name
        std::string rest;    // of the path, behind the name
    };

    void add(const sandbox::EgressRoute& route, const std::string& user_id);
    bool is_current(const RouteRulePtr& route) const;
    Asked find(const Request& request) const;
    /// The path of a request at its upstream. Errors: method_not_allowed, for TRACE and CONNECT; not_found;
    /// network_not_allowed, where the route does not let it through.
    static base::Result<std::string> path_of(const Request& request, const Asked& asked,
                                             EgressReport& report);
    base::Task<base::Result<Response>> async_answer(RequestContext& context);
    base::Task<base::Result<Response>> async_open(RequestContext& context, const Asked& asked,
                                                  std::shared_ptr<EgressReport> report);
    std::shared_ptr<const void> enlist(const RouteRulePtr& route, Connection& client);

    const std::string sandbox_id_;
    const EgressParts parts_;
    const std::shared_ptr<EgressDoor> door_;
    const std::vector<sandbox::EgressRoute> defaults_;
    std::map<std::string, RouteRulePtr, std::less<>> routes_;  // by name
    std::list<Open> flows_;
    const Services services_{*this};
    const Handler handler_;
};

}  // namespace atl::http
