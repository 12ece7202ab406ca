// Limits on one address, one key or one conversation: the policy over RateLimiter and CountLimiter.
// Invariants: a refused request is not counted, so a retry in vain does not prolong the wait; a good key is
// never refused for failed logins of others at its address; memory is bounded for any number of clients.
// Pure: the caller passes the time.
// Not here: the numbers (limit_settings.hpp), the client's address (client_address.hpp), the answer
// (problem.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/access/access.hpp"
#include "http/access/client_address.hpp"
#include "http/access/count_limiter.hpp"
#include "http/access/limit_settings.hpp"
#include "http/access/rate_limiter.hpp"
#include "http/access/subscribers.hpp"

namespace atl::http {

/// Whom a request counts for.
struct LimitSubject {
    std::uint64_t address = 0;         // for failures to log in, which count for each
    bool is_limited = false;           // the address has limits
    std::optional<std::uint64_t> key;  // nothing: no key yet, or the server's own, which has no limits
};

/// A stream counts for its conversation, its key and its address, and among the readers, as long as this
/// lives.
struct StreamLease {
    CountLimiter::Lease conversation;
    CountLimiter::Lease key;
    CountLimiter::Lease address;
    SubscriberCounts::Lease reader;
};

class ClientLimits {
  public:
    explicit ClientLimits(const LimitSettings& settings);

    LimitSubject subject_of(const Client& client) const noexcept;
    /// The same subject with its authenticated principal.
    LimitSubject subject_of(LimitSubject subject, const Principal& principal) const noexcept;

    /// Counts a connection of `peer`. A trusted proxy has no limit. Errors: too_many_connections.
    base::Result<CountLimiter::Lease> connect(const PeerAddress& peer, const TrustedProxies& trusted);
    /// Counts a request of the address, with or without a key. Errors: too_many_requests.
    base::Result<void> request(const LimitSubject& subject, base::SteadyTime now);
    /// Counts a request of the key, if it is known and limited. Errors: too_many_requests.
    base::Result<void> key_request(const LimitSubject& subject, base::SteadyTime now);
    /// A key or token was sent and is wrong. Errors: too_many_requests; the caller answers with it instead.
    base::Result<void> failed_login(const LimitSubject& subject, base::SteadyTime now);
    /// A frame of a WebSocket counts as a request of both. Errors: too_many_requests.
    base::Result<void> frame(const LimitSubject& subject, base::SteadyTime now);
    /// The JSON of a request or a frame that was let in had so many values, which count for both, too.
    void charge(const LimitSubject& subject, std::size_t nodes, base::SteadyTime now);
    /// Counts a stream of the address, and of the key and the conversation. Errors: too_many_streams.
    base::Result<StreamLease> stream(const LimitSubject& subject, std::string_view conversation_id);

  private:
    LimitSettings settings_;
    CountLimiter connections_;
    CountLimiter streams_of_addresses_;
    CountLimiter streams_of_conversations_;
    CountLimiter streams_of_keys_;
    RateLimiter requests_of_addresses_;
    RateLimiter requests_of_keys_;
    RateLimiter failed_logins_;
};

}  // namespace atl::http
