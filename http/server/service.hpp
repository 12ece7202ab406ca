// A service answers requests. A server may have several, chosen by listener and host name (services.hpp);
// each has its own admission, its own form of errors and its own fields on every response. The session calls
// it and does the rest: reading, the body, sending, keeping the connection. Not here: the services themselves
// (gate.hpp is the API's).
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "http/access/access.hpp"
#include "http/access/count_limiter.hpp"
#include "http/server/context.hpp"
#include "http/wire/message.hpp"
#include "http/wire/request_parser.hpp"

namespace atl::http {

/// Answers a request. Runs in the session's coroutine; must not block. An Error becomes the service's answer
/// to it, and so does an exception (internal, logged).
using Handler = std::function<base::Task<base::Result<Response>>(RequestContext&)>;

/// The form in which a handler gets a request's body (README.md).
enum class BodyKind : std::uint8_t {
    none,           // nothing
    json,           // all of it, in Request::body
    optional_json,  // the same, or no body at all
    stream,         // RequestContext::body, to read it from
};

/// How a request came.
struct Arrival {
    ListenerScope reach;     // of the listener
    bool secure = false;     // through TLS of this server
    base::SteadyTime at;     // the end of its head
    std::uint16_t port = 0;  // of the listener; 0: none
};

/// The decision on a request. Without a handler the request is refused.
struct Decision {
    const Handler* handler = nullptr;  // lives as long as the service
    /// To be awaited before the body is read, where it is there; an error refuses the request.
    const std::function<base::Task<base::Result<void>>(RequestContext&)>* guard = nullptr;
    BodyKind body = BodyKind::none;
    std::size_t max_body_bytes = 0;  // of a body that does not stream
    Response refusal{};
};

class Service {
  public:
    static constexpr std::size_t k_statuses = 600;

    virtual ~Service() = default;
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    /// The forms of targets that its requests may have. Asked of a listener's service for any host.
    virtual TargetForms targets() const noexcept { return TargetForms::of_server; }
    /// Lets one more connection of `peer` be served; the lease is kept as long as the connection lives. Asked
    /// of a listener's service for any host. Errors become its refusal.
    virtual base::Result<CountLimiter::Lease> connect(const PeerAddress& peer);
    /// False: its requests have no lines in the server's log. Those of programs inside have reports instead.
    virtual bool is_logged() const noexcept { return true; }
    /// Decides on a request from its head, before any byte of its body is read. `context` has the request,
    /// its id and the peer as the client; the service fills in what its handlers need.
    virtual Decision admit(RequestContext& context, const Arrival& arrival) = 0;
    /// The answer to a request that was admitted and fails, or to a peer that is not served: there `context`
    /// has no more than its address.
    virtual Response refuse(const RequestContext& context, const base::Error& error) = 0;
    /// The answer to what cannot be read as a request; `context` has of it what could be.
    virtual Response refuse_unread(RequestContext& context, const Arrival& arrival, const base::Error& error);
    /// Adds what every response to a request has, also a refusal.
    virtual void complete(const Request& request, Response& response);
    /// The response that complete() saw has gone out to the client as a whole. Not called for a relay's own
    /// answer, nor for an answer to what cannot be read as a request.
    virtual void sent(const Request& request, const Response& response);

    /// Responses since the start, by status; a stream counts when it has ended.
    const std::array<std::uint64_t, k_statuses>& responses() const noexcept { return responses_; }
    void count_response(unsigned status) noexcept { ++responses_[status < k_statuses ? status : 0]; }

  protected:
    Service() = default;

  private:
    std::array<std::uint64_t, k_statuses> responses_{};
};

}  // namespace atl::http
