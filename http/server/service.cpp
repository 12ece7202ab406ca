#include "http/server/service.hpp"

namespace atl::http {

base::Result<CountLimiter::Lease> Service::connect(const PeerAddress&) {
    return CountLimiter::Lease();
}

Response Service::refuse_unread(RequestContext& context, const Arrival&, const base::Error& error) {
    return refuse(context, error);
}

void Service::complete(const Request&, Response&) {}

void Service::sent(const Request&, const Response&) {}

}  // namespace atl::http
