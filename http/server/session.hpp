// Serves one client's connection: reads requests, has each admitted by the service that its host name
// selects, runs their handlers one after the other in the order in which they came (pipelining, RFC 9112
// section 9.3.2), and sends the answers. Invariants: a request that cannot be told apart from the next closes
// the connection; every wait on the client has a deadline; no byte of a body is read before its request is
// admitted. Not here: sockets (connection.hpp), who is admitted, routes and the form of errors (service.hpp).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "http/access/client_address.hpp"
#include "http/server/context.hpp"
#include "http/server/server_state.hpp"
#include "http/server/services.hpp"
#include "http/wire/body_reader.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/request_parser.hpp"

namespace atl::http {

class Session {
  public:
    /// `state` and `services` must outlive the session. `lease` counts the connection as long as the session
    /// lives. `port`: of the listener; 0: none.
    Session(ServerState& state, const Services& services, std::shared_ptr<Connection> connection,
            PeerAddress peer, ListenerScope reach, CountLimiter::Lease lease, std::uint16_t port = 0);
    const Services& services() const noexcept { return services_; }

    /// Serves until the connection ends. The session must live until then. Not cancellable: use stop() and
    /// abort().
    base::Task<> async_run();

    /// ServerState::stopping has been set: an idle session ends now, a stream with its last word, any other
    /// one after its current response.
    void stop();
    /// Ends now, whatever is under way.
    void abort();

  private:
    enum class Next : std::uint8_t { again, close, linger, taken_over };
    // The rest of the request's body, once the response begins.
    enum class Rest : std::uint8_t { is_read, may_be_read };
    // Who answered: what another server says fails is no fault of this one, and its visitors fill no log.
    enum class Origin : std::uint8_t { here, relayed };

    base::Task<Next> async_open();
    base::Task<Next> async_serve_one();
    base::Task<base::Result<bool>> async_read_head();
    base::Task<base::Result<bool>> async_read_body(const RequestContext& context, std::size_t most_bytes);
    base::Task<base::Result<bool>> async_take_place(const RequestContext& context, std::size_t most_bytes);
    base::Task<Response> async_handle(const Handler& handler, RequestContext& context);
    base::Task<Next> async_respond(RequestContext& context, Response& response);
    base::Task<Next> async_respond_source(RequestContext& context, Response& response);
    base::Task<Next> async_relay(RequestContext& context, Response& response);
    void charge(const RequestContext& context, const Response& response);
    void end_response(const RequestContext& context, const Response& response, Origin origin = Origin::here);
    base::Task<Next> async_refuse_unread(base::Error error);
    void begin_request(RequestContext& context);
    KeepAlive keep_alive(Rest rest) const;
    Next after_response(Io io, KeepAlive kept) const;
    void count(const RequestContext& context, const Response& response, Origin origin) const;
    void log_request(const RequestContext& context, const Response& response, Origin origin) const;

    ServerState& state_;
    const Services& services_;
    Service* service_;  // of the request
    std::shared_ptr<Connection> connection_;
    RequestParser parser_;
    BodyBudget::Place place_;         // of a body that is collected
    std::optional<BodyReader> body_;  // of one that is streamed
    ListenerScope reach_;
    std::uint16_t port_;
    PeerAddress peer_;
    CountLimiter::Lease lease_;
    bool idle_ = false;
    base::SteadyTime began_{};
    std::string out_;
    std::unique_ptr<Takeover> takeover_;
};

}  // namespace atl::http
