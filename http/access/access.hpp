// Admission of a request: API keys, the Host field, the Origin field. A key is compared in constant time. Not
// here: which routes are open (router.hpp), the owner of a conversation (ownership.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "http/access/client_address.hpp"
#include "http/access/limit_changes.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The rights of a principal in a conversation that it may open.
enum class Scope : std::uint8_t {
    full,  // a key
    chat,  // a token: follow the stream, send messages and interrupts
    read   // a token: follow the stream
};

/// The sender of a request, as far as a handler has to know.
struct Principal {
    std::string label;                           // of the key, for logs; never the key
    std::optional<std::string> user_id;          // set: sees only conversations of this user
    std::optional<std::string> conversation_id;  // set: a token, for this conversation only
    Scope scope = Scope::full;
    std::string
        limited_as;  // the one key or token that limits count; empty: the server's own, without limits
    LimitChanges ceilings{};  // of the key itself (limit_ceilings.hpp)

    /// Whether everything is open to it.
    bool unrestricted() const noexcept { return !user_id && !conversation_id && scope == Scope::full; }
};

/// Keys that are kept somewhere and may come and go while the server runs.
class KeyStore {
  public:
    virtual ~KeyStore() = default;
    /// The holder of this key; nothing if no key of the store matches now.
    virtual std::optional<Principal> find(std::string_view key) = 0;
};

/// Tells a request's principal. Implementations must not tell a wrong key from none.
class Authenticator {
  public:
    virtual ~Authenticator() = default;
    /// Errors: unauthorized.
    virtual base::Result<Principal> authenticate(const Request& request) const = 0;
    /// The same for a `?token=` on a route of this conversation. Errors: unauthorized, token_expired.
    virtual base::Result<Principal> authenticate_token(std::string_view token,
                                                       std::string_view conversation_id) const = 0;
};

/// Tells stream tokens from anything else (stream_tokens.hpp).
class TokenVerifier {
  public:
    virtual ~TokenVerifier() = default;
    /// Errors: unauthorized, token_expired.
    virtual base::Result<Principal> verify(std::string_view token,
                                           std::string_view conversation_id) const = 0;
};

/// Accepts one key without restrictions, and the keys of a store, from `Authorization: Bearer KEY` or
/// `X-API-Key: KEY`.
class KeyAuthenticator final : public Authenticator {
  public:
    /// `key` must not be empty. `more` and `tokens` may be null, else they must outlive the authenticator.
    explicit KeyAuthenticator(std::string key, KeyStore* more = nullptr,
                              const TokenVerifier* tokens = nullptr);
    base::Result<Principal> authenticate(const Request& request) const override;
    base::Result<Principal> authenticate_token(std::string_view token,
                                               std::string_view conversation_id) const override;

  private:
    std::string key_;
    KeyStore* more_;
    const TokenVerifier* tokens_;
};

/// The credential that a request carries, empty if none. Authorization counts before X-API-Key.
std::string_view credential(const Request& request) noexcept;

/// Whether a listener can be reached from other machines.
enum class Reach : std::uint8_t { loopback, network, unix_socket };

/// DNS rebinding makes a browser send requests for the attacker's name to this server. On the loopback only
/// the loopback's names, its IP addresses, and `allowed` are served; on a network `allowed` and IP addresses
/// if `allowed` is not empty; on a Unix socket anything. Errors: host_not_allowed.
base::Result<void> check_host(std::string_view authority, Reach reach,
                              const std::vector<std::string>& allowed);

/// Whether this is an origin of the web as browsers send it (RFC 6454 section 7): http or https, a host,
/// perhaps a port, nothing else. "null" is every sandboxed page; extensions and files have other schemes.
bool is_web_origin(std::string_view origin) noexcept;

/// Whether the operator lets pages of `origin` ask; "" is none.
bool is_allowed_origin(std::string_view origin, const std::vector<std::string>& allowed);

/// The server's address as the client sees it: from its proxy, or else from the request.
struct Site {
    std::string_view scheme;  // empty: not known, as before a proxy that ends TLS and does not say so
    std::string_view authority;
};
Site site_of(const Request& request, const Client& client) noexcept;

/// Refuses a request that a page of another site makes: its Origin is neither `own` nor in `allowed`, or is
/// no is_web_origin(). Errors: origin_not_allowed.
base::Result<void> check_origin(const Request& request, const Site& own,
                                const std::vector<std::string>& allowed);

}  // namespace atl::http
