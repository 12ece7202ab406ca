// Tokens that open the streams of one conversation, or the files or processes of one sandbox, to a browser,
// whose EventSource, WebSocket and links cannot send a key: signed, for one thing, for a while, for one
// scope. A token is its own record:
//     v1.ID.SCOPE.EXPIRY.SIGNATURE     EXPIRY in seconds since 1970, SIGNATURE in hexadecimal
// ID is a conversation's with the scopes read and chat, and a sandbox's with files, terminal and preview.
// The server stores no token, so only a new signing key can revoke one before its expiry.
// Not here: reading a token from a request (http/server/gate.cpp; of previews http/proxy/preview_passes.cpp).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/access/access.hpp"

namespace atl::http {

/// The word for it in requests and in a token; "" for full.
std::string_view scope_name(Scope scope) noexcept;

/// True if a token of this scope is for a sandbox; else it is for a conversation.
constexpr bool is_of_sandbox(Scope scope) noexcept {
    return scope == Scope::files || scope == Scope::terminal || scope == Scope::preview;
}

/// The scope that a token names. Believe it only of a token that verify() did not call invalid.
std::optional<Scope> scope_in(std::string_view token) noexcept;

class StreamTokens final : public TokenVerifier {
  public:
    /// `signing_key`: secret, 32 bytes or more, else it throws. `clock` must outlive this.
    StreamTokens(std::string signing_key, const base::Clock& clock);

    struct Issued {
        std::string token;
        base::WallTime expires_at;
    };
    /// Precondition: `id` is the id of what `scope` is for, and `scope` is not full.
    Issued issue(std::string_view id, Scope scope, std::chrono::seconds ttl) const;

    /// The principal of the token's bearer. It expires with the token, by the steady clock: a clock that is
    /// set later does not change that. Errors: token_expired if the token was good for this id;
    /// token_mismatch if it was signed here for another one, whether that time is over or not; else
    /// invalid_token.
    base::Result<Principal> verify(std::string_view token, std::string_view id) const override;

    bool is_in(std::string_view text, std::size_t& tries) const override;

    /// HMAC-SHA256 of `claims` in hexadecimal, for other records with this key: what it signs must not begin
    /// as a token does.
    std::string signature_of(std::string_view claims) const;
    /// True if `signature` is the signature of `claims`, compared in constant time.
    bool is_signed(std::string_view claims, std::string_view signature) const;

  private:
    std::string signing_key_;
    const base::Clock& clock_;
};

}  // namespace atl::http
