#include "http/access/client_limits.hpp"

#include <algorithm>
#include <functional>
#include <string>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using std::chrono::seconds;

// The number of all peers of Unix sockets. No client has it: it is a multicast prefix (RFC 4291 section 2.7).
constexpr std::uint64_t k_unix_number = UINT64_MAX;

RateLimiter::Rate per_second(std::size_t count) {
    if (count == 0)
        return {};
    return {RateLimiter::Nanos(seconds(1)) / count,
            static_cast<std::uint32_t>(count * base::k_request_burst_seconds)};
}

RateLimiter::Rate per_minute(std::size_t count) {
    if (count == 0)
        return {};
    return {RateLimiter::Nanos(seconds(60)) / count, static_cast<std::uint32_t>(count)};
}

std::uint64_t number_of_address(const PeerAddress& address) noexcept {
    return address ? budget_number(*address) : k_unix_number;
}

std::uint64_t number_of_address(std::string_view name) noexcept {
    return std::hash<std::string_view>{}(name);
}

bool is_local(const PeerAddress& address) noexcept {
    return !address || address->is_loopback();
}

Error too_soon(RateLimiter::Nanos wait, std::string sentence) {
    const auto whole = std::max(seconds(1), std::chrono::ceil<seconds>(wait));
    sentence += " Try again in " + std::to_string(whole.count()) + " s.";
    return {Errc::too_many_requests, std::move(sentence), whole};
}

Error too_often(RateLimiter::Nanos wait, std::string_view who, std::size_t count) {
    return too_soon(
        wait, "This " + std::string(who) + " may send " + std::to_string(count) + " requests a second.");
}

Error too_many(std::string_view who, std::size_t most) {
    return Error(Errc::too_many_streams, "This " + std::string(who) + " has all of its " +
                                             std::to_string(most) +
                                             " streams; close one, or let readers share one.");
}

}  // namespace

ClientLimits::ClientLimits(const LimitSettings& settings)
    : settings_(settings),
      connections_(settings.connections_per_address),
      streams_of_addresses_(settings.connections_per_address),
      streams_of_conversations_(settings.streams_per_conversation),
      streams_of_keys_(settings.streams_per_key),
      requests_of_addresses_(per_second(settings.requests_per_second_per_address), base::k_max_rate_buckets),
      requests_of_keys_(per_second(settings.requests_per_second_per_key), base::k_max_rate_buckets),
      failed_logins_(per_minute(settings.failed_logins_per_minute), base::k_max_rate_buckets) {}

LimitSubject ClientLimits::subject_of(const Client& client) const noexcept {
    const bool spared = settings_.loopback == LoopbackLimits::none && is_local(client.address);
    return {number_of_address(client.address), !client.is_trusted && !spared, std::nullopt};
}

LimitSubject ClientLimits::subject_of(LimitSubject subject, const Principal& principal) const noexcept {
    if (!principal.limit_key.empty())
        subject.key = number_of_address(principal.limit_key);
    return subject;
}

Result<CountLimiter::Lease> ClientLimits::connect(const PeerAddress& peer, const TrustedProxies& trusted) {
    Client client;
    client.address = peer;
    client.is_trusted = trusted.contains(peer);
    if (!subject_of(client).is_limited)
        return CountLimiter::Lease();
    auto lease = connections_.take(number_of_address(peer));
    if (!lease)
        return Error(Errc::too_many_connections, "This address has all of its " +
                                                     std::to_string(settings_.connections_per_address) +
                                                     " connections; close one, or use one for more.");
    return std::move(*lease);
}

Result<void> ClientLimits::request(const LimitSubject& subject, base::SteadyTime now) {
    if (!subject.is_limited)
        return {};
    const auto wait = requests_of_addresses_.take(subject.address, now);
    if (wait == RateLimiter::Nanos::zero())
        return {};
    return too_often(wait, "address", settings_.requests_per_second_per_address);
}

Result<void> ClientLimits::key_request(const LimitSubject& subject, base::SteadyTime now) {
    if (!subject.key)
        return {};
    const auto wait = requests_of_keys_.take(*subject.key, now);
    if (wait == RateLimiter::Nanos::zero())
        return {};
    return too_often(wait, "key", settings_.requests_per_second_per_key);
}

Result<void> ClientLimits::failed_login(const LimitSubject& subject, base::SteadyTime now) {
    const auto wait = failed_logins_.take(subject.address, now);
    if (wait == RateLimiter::Nanos::zero())
        return {};
    return too_soon(wait, "Too many wrong keys or tokens came from this address.");
}

Result<void> ClientLimits::frame(const LimitSubject& subject, base::SteadyTime now) {
    if (auto ok = request(subject, now); ok.has_error())
        return ok;
    return key_request(subject, now);
}

void ClientLimits::charge(const LimitSubject& subject, std::size_t nodes, base::SteadyTime now) {
    const std::size_t more = nodes / base::k_json_nodes_a_request;
    if (subject.is_limited)
        requests_of_addresses_.charge(subject.address, more, now);
    if (subject.key)
        requests_of_keys_.charge(*subject.key, more, now);
}

Result<StreamLease> ClientLimits::stream(const LimitSubject& subject, std::string_view conversation_id) {
    StreamLease lease;
    if (subject.is_limited) {
        auto address = streams_of_addresses_.take(subject.address);
        if (!address)
            return too_many("address", settings_.connections_per_address);
        lease.address = std::move(*address);
    }
    // The server's own key is the operator's: others' streams do not keep it out, and it counts for none.
    if (!subject.key)
        return lease;
    auto key = streams_of_keys_.take(*subject.key);
    if (!key)
        return too_many("key", settings_.streams_per_key);
    lease.key = std::move(*key);
    auto conversation = streams_of_conversations_.take(number_of_address(conversation_id));
    if (!conversation)
        return too_many("conversation", settings_.streams_per_conversation);
    lease.conversation = std::move(*conversation);
    return lease;
}

}  // namespace atl::http
