// Admission of a request: API keys, the Host field, the Origin field. A key is compared in constant time. Not
// here: which routes are open (router.hpp), the owner of a conversation (ownership.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "core/sandbox/limit_table.hpp"
#include "http/access/client_address.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The actions that a principal is allowed. A token of a conversation is for `read` or `chat`, a token
/// of a sandbox for `files`, `terminal` or `preview`.
enum class Scope : std::uint8_t {
    full,      // a key
    chat,      // a token: follow the stream, send messages and interrupts
    read,      // a token: follow the stream
    files,     // a token: read files and the archive, watch
    terminal,  // a token: start processes, feed, signal, resize and read them
    preview    // a token: see what listens inside, at the addresses of previews; no route
};

/// True if a credential with the scope `has` opens a route that needs the scope `needed`.
constexpr bool includes(Scope has, Scope needed) noexcept {
    return has == Scope::full || has == needed || (has == Scope::chat && needed == Scope::read);
}

/// The sender of a request, as far as a handler has to know.
struct Principal {
    std::string label;                           // of the key, for logs; never the key
    std::optional<std::string> user_id;          // set: sees only conversations of this user
    std::optional<std::string> conversation_id;  // set: a token, for this conversation only
    std::optional<std::string> sandbox_id;       // set: a token, for this sandbox only
    std::optional<std::string> owner_id;         // of that, once the guard of the route has looked: its user
    Scope scope = Scope::full;
    std::string limit_key;  // the one key or token that limits count; empty: the server's own, without limits
    sandbox::LimitChanges ceilings{};  // of the key itself (limit_ceilings.hpp)
    // When the credential expires: the server then ends the streams that it opened. max: never.
    base::SteadyTime expires_at = base::SteadyTime::max();

    /// True for a key without a user, to which everything is open.
    bool unrestricted() const noexcept { return !user_id && scope == Scope::full; }
    /// True for a stream token, whose bearer is not known.
    bool is_token() const noexcept { return scope != Scope::full; }
};

/// The sender as a conversation's log names it: the key's user, else its label; empty for a token, whose
/// bearer is not known.
inline std::string sender_name(const Principal& principal) {
    return principal.is_token() ? std::string() : principal.user_id.value_or(principal.label);
}

/// The sender as budgets know it: the key's user, or the key; with a token the owner of what it is for, or
/// that thing.
inline base::ShareHolder holder_of(const Principal& principal) {
    if (const auto& user_id = principal.user_id ? principal.user_id : principal.owner_id)
        return base::ShareHolder::user(*user_id);
    if (principal.conversation_id || principal.sandbox_id)
        return base::ShareHolder::thing(
            principal.conversation_id.value_or(principal.sandbox_id.value_or("")));
    return base::ShareHolder::key(principal.limit_key);
}

/// Keys that are kept somewhere and may come and go while the server runs.
class KeyStore {
  public:
    virtual ~KeyStore() = default;
    /// The holder of this key; nothing if no key of the store matches now.
    virtual std::optional<Principal> find(std::string_view key) = 0;
    /// True if `text` contains a key of the store.
    virtual bool is_in(std::string_view text) = 0;
};

/// Tells a request's principal. It must not tell what is wrong with a key.
class Authenticator {
  public:
    virtual ~Authenticator() = default;
    /// Errors: unauthorized, invalid_authorization, invalid_key.
    virtual base::Result<Principal> authenticate(const Request& request) const = 0;
    /// The same for a `?token=` on a route of the conversation or sandbox `id`. Errors: invalid_token,
    /// token_expired, token_mismatch. It asks neither whether there is such a thing nor which scope the route
    /// needs.
    virtual base::Result<Principal> authenticate_token(std::string_view token, std::string_view id) const = 0;
    /// True if a key or a token of this server stands in `text`: as it is, percent-encoded (RFC 3986
    /// section 2.1) once or twice, or in base64 (RFC 4648 sections 4 and 5), whatever is around it; also if
    /// more than base::k_max_token_tries pieces of `text` could be tokens.
    virtual bool holds_secret(std::string_view text) const = 0;
};

/// Tells stream tokens from anything else (stream_tokens.hpp).
class TokenVerifier {
  public:
    virtual ~TokenVerifier() = default;
    /// Errors: invalid_token, token_expired, token_mismatch.
    virtual base::Result<Principal> verify(std::string_view token, std::string_view id) const = 0;
    /// True if a token that was signed here stands in `text`, expired or not, whatever is around it. Each
    /// piece that has the form of a token and is none takes one of `tries`; where none is left it counts as a
    /// token.
    virtual bool is_in(std::string_view text, std::size_t& tries) const = 0;
};

/// Accepts one key without restrictions, and the keys of a store, from `Authorization: Bearer KEY` or
/// `X-API-Key: KEY`.
class KeyAuthenticator final : public Authenticator {
  public:
    /// `key` must not be empty. `more` and `tokens` may be null, else they must outlive the authenticator.
    explicit KeyAuthenticator(std::string key, KeyStore* more = nullptr,
                              const TokenVerifier* tokens = nullptr);
    base::Result<Principal> authenticate(const Request& request) const override;
    base::Result<Principal> authenticate_token(std::string_view token, std::string_view id) const override;
    bool holds_secret(std::string_view text) const override;

  private:
    bool has_plain(std::string_view text, std::size_t& tries) const;
    bool has_base64(std::string_view text, std::size_t& tries) const;

    std::string key_;
    std::uint64_t key_hash_ = 0;
    std::uint64_t first_weight_ = 1;  // of the first byte of key_ in its hash
    KeyStore* more_;
    const TokenVerifier* tokens_;
};

/// The credential that a request carries, empty if none. Authorization counts before X-API-Key.
std::string_view credential(const Request& request) noexcept;

/// The places from which a listener can be reached.
enum class ListenerScope : std::uint8_t { loopback, network, unix_socket };

/// True if `host`, without port, is "localhost" or a name below it (RFC 6761 section 6.3).
bool is_localhost(std::string_view host) noexcept;

/// `host`, without port, as check_host() compares it: an IPv6 address in brackets in its shortest form, any
/// other text as it is.
std::string comparable_host(std::string_view host);

/// DNS rebinding makes a browser send requests for the attacker's name to this server. On the loopback only
/// the loopback's names, its IP addresses, and `allowed` are served; on a network `allowed` and IP addresses
/// if `allowed` is not empty; on a Unix socket anything. Each of `allowed` is a comparable_host(). Errors:
/// host_not_allowed.
base::Result<void> check_host(std::string_view authority, ListenerScope reach,
                              const std::vector<std::string>& allowed);

/// True for an origin of the web as browsers send it (RFC 6454 section 7): http or https, a host, perhaps a
/// port, nothing else. "null" is every sandboxed page; extensions and files have other schemes.
bool is_web_origin(std::string_view origin) noexcept;

/// True if the operator lets pages of `origin` ask; "" is no origin.
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
